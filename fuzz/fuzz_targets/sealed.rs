//! Opens bytes as a sealed file, sidecar and appended, and reads its data verified.
//!
//! The input is the data's length in two bytes, little-endian; the data; and the seal. Whatever the
//! fuzzer makes of them, a read must fail or give the data that is there; and where the digest is
//! the one of the seed, the seed's data.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use verimount_fuzz::verified::{OPTIONS, check_reads, counted, open_cheaply, parts};
use verimount_verity::{FileDigest, Sealed, Trust, VerifiedReader};

/// The largest of the inputs to begin with.
const SEED: &[u8] = include_bytes!("../seeds/sealed/two-levels");

/// The seed's data, and its digest.
static ORIGINAL: LazyLock<(&[u8], FileDigest)> = LazyLock::new(|| {
    let (data, seal) = parts(SEED).expect("the seed has data and seal");
    let sealed = Sealed::open_sidecar(counted(data), counted(seal)).expect("the seed is sealed");
    (data, sealed.file_digest())
});

fuzz_target!(|input: &[u8]| {
    let Some((data, seal)) = parts(input) else {
        return;
    };
    let (content, beside) = (counted(data), counted(seal));
    let open = || Sealed::open_sidecar(content.clone(), beside.clone());
    check(data, open_cheaply(&[&content, &beside], open));
    let mut file = data.to_vec();
    file.resize(data.len().next_multiple_of(65536), 0);
    file.extend(seal);
    let file = counted(&file);
    let open = || Sealed::open_appended(file.clone());
    check(data, open_cheaply(&[&file], open));
});

fn check(data: &[u8], sealed: Option<Sealed>) {
    let Some(sealed) = sealed else {
        return;
    };
    let _ = sealed.signature();
    let check_reads = |trust: &Trust, expected| {
        if let Ok(reader) = VerifiedReader::new(&sealed, trust, OPTIONS) {
            check_reads(&reader, expected);
        }
    };
    // Appended, data of another length may be meant.
    if sealed.data_unverified().size() == data.len() as u64 {
        check_reads(&Trust::Unpinned, data);
    }
    let (original, digest) = *ORIGINAL;
    check_reads(&Trust::Digest(digest), original);
}
