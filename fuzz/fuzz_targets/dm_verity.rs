//! Opens bytes as data with a hash area of dm-verity, beside it and appended, and reads it verified.
//!
//! The input is the data's length in two bytes, little-endian; the data; and the hash area. Whatever
//! the fuzzer makes of them, a read must fail or give the data that is there; and where root hash and
//! number of blocks are those of the seed, the seed's data.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use verimount_fuzz::verified::{OPTIONS, check_reads, counted, open_cheaply, parts};
use verimount_verity::{Digest, Error, dm_verity::HashArea};

/// The largest of the inputs to begin with.
const SEED: &[u8] = include_bytes!("../seeds/dm_verity/two-levels");

/// How many blocks the seed's data has.
const ORIGINAL_BLOCKS: u64 = 35;

/// The seed's data, and its root hash.
static ORIGINAL: LazyLock<(&[u8], Digest)> = LazyLock::new(|| {
    let (data, hashes) = parts(SEED).expect("the seed has data and a hash area");
    let root = stored_root(beside(data, hashes).expect("the seed is sealed"));
    (data, root.expect("the seed has a tree"))
});

fuzz_target!(|input: &[u8]| {
    let Some((data, hashes)) = parts(input) else {
        return;
    };
    check(data, || beside(data, hashes));
    // At the next hash block, if that is one of the usual size.
    let offset = data.len().next_multiple_of(4096);
    let mut file = data.to_vec();
    file.resize(offset, 0);
    file.extend(hashes);
    check(&file, || {
        let file = counted(&file);
        let open = || HashArea::open_appended(file.clone(), offset as u64);
        open_cheaply(&[&file], open)
    });
});

fn beside(data: &[u8], hashes: &[u8]) -> Option<HashArea> {
    let (data, hashes) = (counted(data), counted(hashes));
    let open = || HashArea::open_beside(data.clone(), hashes.clone(), 0);
    open_cheaply(&[&data, &hashes], open)
}

/// The root hash of the stored tree, if there is one.
fn stored_root(area: HashArea) -> Option<Digest> {
    let none = vec![0; area.params().algorithm.digest_size()];
    match area.verified(&none, OPTIONS) {
        Err(Error::WrongRootHash { actual, .. }) => Some(*actual),
        _ => None,
    }
}

/// `stored` begins with the data.
fn check(stored: &[u8], open: impl Fn() -> Option<HashArea>) {
    let Some(area) = open() else {
        return;
    };
    let (original, root) = &*ORIGINAL;
    let is_of_original = area.geometry().data_blocks() == ORIGINAL_BLOCKS;
    let check_reads = |root: &Digest, expected| {
        let reader = open().map(|area| area.verified(root.as_bytes(), OPTIONS));
        if let Some(Ok(reader)) = reader {
            check_reads(&reader, expected);
        }
    };
    if let Some(root) = stored_root(area) {
        check_reads(&root, stored);
    }
    // The root hash does not cover their number.
    if is_of_original {
        check_reads(root, original);
    }
}
