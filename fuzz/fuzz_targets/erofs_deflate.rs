//! Decompresses bytes as a cluster of an EROFS image, by DEFLATE.

#![no_main]

use libfuzzer_sys::fuzz_target;
use verimount_fuzz::cluster::{Algorithm, decompress};

fuzz_target!(|input: &[u8]| decompress(Algorithm::Deflate, input));
