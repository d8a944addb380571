//! The digests of data blocks, by themselves.

use std::{num::NonZeroUsize, os::unix::fs::FileExt, sync::Arc};

use verimount_source::{FileSource, ReadAt, ReadError};
use verimount_testkit::{Flipped, go_on, noise};
use verimount_verity::{
    BlockSize, HashAlgorithm, Salt, Seal, SealLayout, Sealed, TreeParams, Trust, VerifiedReader,
    VerifyOptions, dm_verity, seal,
};

/// Two levels: 128 digests are in a block.
const BLOCKS: usize = 300;
const BLOCK: usize = 4096;

fn sealed(data: &[u8], params: &TreeParams) -> Vec<u8> {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(data, 0).unwrap();
    seal(
        &data,
        &file,
        SealLayout::Appended,
        params,
        NonZeroUsize::MIN,
        &mut go_on,
    )
    .unwrap();
    let source = FileSource::new(file).unwrap();
    let mut bytes = vec![0; source.size() as usize];
    source.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn reader(sealed: &Sealed) -> VerifiedReader {
    VerifiedReader::new(unpinned(sealed), VerifyOptions::default()).unwrap()
}

fn unpinned(sealed: &Sealed) -> Seal {
    sealed.accepted_by(&Trust::Unpinned).unwrap()
}

#[test]
fn leaves_are_the_digests_of_blocks() {
    // The last block is short.
    for len in [1, BLOCK, BLOCK + 1, BLOCKS * BLOCK - 100] {
        let data = noise(len, 1);
        let sealed =
            Sealed::open_appended(Arc::new(sealed(&data, &TreeParams::default()))).unwrap();
        let reader = reader(&sealed);
        let mut padded = data.clone();
        padded.resize(len.next_multiple_of(BLOCK), 0);
        let expected = reader.leaf_function().digests(&padded);
        let blocks = (padded.len() / BLOCK) as u64;
        assert!(reader.leaves(0..blocks).unwrap() == expected);
        let part = blocks / 3..blocks / 2;
        let bytes = part.start as usize * 32..part.end as usize * 32;
        assert!(reader.leaves(part.clone()).unwrap() == expected[bytes.clone()]);
        let past = reader.leaves(0..blocks + 1);
        assert!(matches!(past, Err(ReadError::PastEnd { .. })));

        let stored = unpinned(&sealed).leaves_unverified();
        // A single block has no tree.
        assert_eq!(stored.count(), if blocks > 1 { blocks } else { 0 });
        if blocks > 1 {
            assert!(stored.read(part).unwrap() == expected[bytes]);
        }
        assert!(stored.read(blocks..blocks + 1).is_err());
    }
}

#[test]
fn a_changed_tree_has_no_verified_leaves() {
    let data = noise(BLOCKS * BLOCK, 1);
    let flipped = Arc::new(Flipped::new(sealed(&data, &TreeParams::default())));
    let sealed = Sealed::open_appended(flipped.clone()).unwrap();
    let tree = data.len().next_multiple_of(65536);
    // In the second block of the lowest level, behind the root's.
    flipped.flip((tree + 2 * BLOCK) as u64);
    let reader = reader(&sealed);
    assert!(reader.leaves(0..128).is_ok());
    assert!(matches!(
        reader.leaves(100..130),
        Err(ReadError::Rejected(_))
    ));
    assert!(unpinned(&sealed).leaves_unverified().read(100..130).is_ok());
}

#[test]
fn functions_are_the_same_where_digests_are() {
    let data = noise(2 * 8192, 1);
    let function = |params: TreeParams| {
        let sealed = Sealed::open_appended(Arc::new(sealed(&data, &params))).unwrap();
        unpinned(&sealed).leaves_unverified().function().clone()
    };
    let usual = function(TreeParams::default());
    let others = [
        TreeParams {
            algorithm: HashAlgorithm::Sha512,
            ..TreeParams::default()
        },
        TreeParams {
            block_size: BlockSize::new(8192).unwrap(),
            ..TreeParams::default()
        },
        TreeParams {
            salt: Salt::new(b"salt").unwrap(),
            ..TreeParams::default()
        },
    ];
    for other in others {
        assert_ne!(function(other), usual);
    }
    // The size of the blocks of a tree of dm-verity makes no difference.
    let params = dm_verity::Params {
        hash_block_size: dm_verity::BlockSize::new(1024).unwrap(),
        ..dm_verity::Params::default()
    };
    let file = tempfile::tempfile().unwrap();
    dm_verity::seal(
        &data,
        &file,
        SealLayout::Sidecar,
        &params,
        NonZeroUsize::MIN,
        &mut go_on,
    )
    .unwrap();
    let hashes = Arc::new(FileSource::new(file).unwrap());
    let area = dm_verity::HashArea::open_beside(Arc::new(data), hashes, 0).unwrap();
    assert_eq!(*area.leaves_unverified().function(), usual);
}
