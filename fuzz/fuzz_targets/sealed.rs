//! Opens bytes as a sealed file, sidecar and appended, and reads its data verified.
//!
//! The input is the data's length in two bytes, little-endian; the data; and the seal. Whatever the
//! fuzzer makes of them, a read must fail or give the data that is there; and where the digest is
//! the one of the seed, the seed's data.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use verimount_fuzz::verified::{
    Counted, Stored, cheaply, counted, keeping_little, keeping_nothing, parts,
};
use verimount_verity::{FileDigest, Sealed, Trust, VerifiedReader};

/// The largest of the inputs to begin with.
const SEED: &[u8] = include_bytes!("../seeds/sealed/two-levels");

/// How many bytes are read to open a sidecar, at most: the number with which it ends, the descriptor and the longest signature.
const MOST_BESIDE: u64 = 4 + (16 << 10);

/// How many bytes are read to open an appended seal, at most. Its signature was perhaps being replaced: the mark and
/// the new end are read, too.
const MOST_APPENDED: u64 = MOST_BESIDE + 512 + (20 << 10);

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
    let sources = [counted(data), counted(seal)];
    let sealed = cheaply(&sources, MOST_BESIDE, || {
        Sealed::open_sidecar(sources[0].clone(), sources[1].clone())
    });
    check(data, &sources, sealed.ok());
    let mut file = data.to_vec();
    file.resize(data.len().next_multiple_of(65536), 0);
    file.extend(seal);
    let sources = [counted(&file)];
    let open = || Sealed::open_appended(sources[0].clone());
    let sealed = cheaply(&sources, MOST_APPENDED, open);
    check(data, &sources, sealed.ok());
});

fn check(data: &[u8], sources: &[Counted], sealed: Option<Sealed>) {
    let Some(sealed) = sealed else {
        return;
    };
    let _ = sealed.signature();
    let descriptor = sealed.descriptor();
    let block = descriptor.params().block_size.bytes();
    let stored = Stored {
        geometry: descriptor.geometry(),
        data_block: block,
        hash_block: block,
        sources,
    };
    let check_reads = |trust: &Trust, expected| {
        let open = |options| VerifiedReader::new(sealed.accepted_by(trust)?, options);
        if let [Ok(reader), Ok(bare)] = [keeping_little(), keeping_nothing()].map(open) {
            stored.check_reads(&reader, &bare, expected);
        }
    };
    // Appended, data of another length may be meant.
    if sealed.data_unverified().length() == data.len() as u64 {
        check_reads(&Trust::Unpinned, data);
    }
    let (original, digest) = *ORIGINAL;
    check_reads(&Trust::Digest(digest), original);
}
