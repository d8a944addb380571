//! Decompresses bytes as a cluster of an EROFS image, by LZ4.

#![no_main]

use libfuzzer_sys::fuzz_target;
use verimount_fuzz::cluster::{Algorithm, decompress};

fuzz_target!(|input: &[u8]| decompress(Algorithm::Lz4, input));
