//! Opens bytes as data with a hash area of dm-verity, beside it and appended, and reads it verified.
//!
//! The input is the data's length in two bytes, little-endian; the data; and the hash area. Whatever
//! the fuzzer makes of them, a read must fail or give the data that is there; and where root hash and
//! number of blocks are those of the seed, the seed's data.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use verimount_fuzz::verified::{
    Counted, Stored, cheaply, counted, keeping_little, keeping_nothing, parts,
};
use verimount_verity::{Digest, Error, VerifiedReader, dm_verity::HashArea};

/// The largest of the inputs to begin with.
const SEED: &[u8] = include_bytes!("../seeds/dm_verity/two-levels");

/// How many bytes are read to open a hash area, at most: the superblock, and where one could be that is not finished.
const MOST_TO_OPEN: u64 = 2 * 512;

/// How many blocks the seed's data has.
const ORIGINAL_BLOCKS: u64 = 35;

/// The seed's data, and its root hash.
static ORIGINAL: LazyLock<(&[u8], Digest)> = LazyLock::new(|| {
    let (data, hashes) = parts(SEED).expect("the seed has data and a hash area");
    let sources = [counted(data), counted(hashes)];
    let area = beside(&sources).expect("the seed is sealed");
    let root = stored_root(area, &sources);
    (data, root.expect("the seed has a tree"))
});

fuzz_target!(|input: &[u8]| {
    let Some((data, hashes)) = parts(input) else {
        return;
    };
    let sources = [counted(data), counted(hashes)];
    check(data, &sources, || beside(&sources));
    // At the next hash block, if that is one of the usual size.
    let offset = data.len().next_multiple_of(4096);
    let mut file = data.to_vec();
    file.resize(offset, 0);
    file.extend(hashes);
    let sources = [counted(&file)];
    check(&file, &sources, || {
        let open = || HashArea::open_appended(sources[0].clone(), offset as u64);
        cheaply(&sources, MOST_TO_OPEN, open).ok()
    });
});

fn beside(sources: &[Counted; 2]) -> Option<HashArea> {
    let [data, hashes] = sources.clone();
    let open = || HashArea::open_beside(data, hashes, 0);
    cheaply(sources, MOST_TO_OPEN, open).ok()
}

/// The root hash of the stored tree, if there is one, for which only its topmost block is read.
fn stored_root(area: HashArea, sources: &[Counted]) -> Option<Digest> {
    let none = vec![0; area.params().algorithm.digest_size()];
    let topmost = area.params().hash_block_size.bytes() as u64;
    let seal = area.accepted_by(&none).ok()?;
    match cheaply(sources, topmost, || {
        VerifiedReader::new(seal, keeping_little())
    }) {
        Err(Error::WrongRootHash { actual, .. }) => Some(*actual),
        _ => None,
    }
}

/// `bytes` begin with the data.
fn check(bytes: &[u8], sources: &[Counted], open: impl Fn() -> Option<HashArea>) {
    let Some(area) = open() else {
        return;
    };
    let (geometry, params) = (area.geometry().clone(), area.params().clone());
    let stored = Stored {
        geometry: &geometry,
        data_block: params.data_block_size.bytes(),
        hash_block: params.hash_block_size.bytes(),
        sources,
    };
    let (original, root) = &*ORIGINAL;
    let is_of_original = area.geometry().data_blocks() == ORIGINAL_BLOCKS;
    let check_reads = |root: &Digest, expected| {
        let verified = |options| {
            let seal = open()?.accepted_by(root.as_bytes());
            Some(seal.and_then(|seal| VerifiedReader::new(seal, options)))
        };
        if let [Some(Ok(reader)), Some(Ok(bare))] =
            [keeping_little(), keeping_nothing()].map(verified)
        {
            stored.check_reads(&reader, &bare, expected);
        }
    };
    if let Some(root) = stored_root(area, sources) {
        check_reads(&root, bytes);
    }
    // The root hash does not cover their number.
    if is_of_original {
        check_reads(root, original);
    }
}
