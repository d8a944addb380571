//! What does not match is read once more, if the source has another copy.

use std::{num::NonZeroUsize, sync::Arc};

use verimount_source::{ReadAt, ReadError};
use verimount_testkit::{Doubtful, go_on, noise};
use verimount_verity::{
    BlockKind, BlockSize, SealLayout, Sealed, TreeParams, Trust, VerifiedReader, VerifyOptions,
    dm_verity::{self, HashArea},
    seal,
};

const BLOCK: u64 = 1024;

/// Three levels: 32 digests are in a block.
const DATA: u64 = 200 * BLOCK * 32;

fn sealed(data: &[u8], layout: SealLayout) -> Vec<u8> {
    let params = TreeParams {
        block_size: BlockSize::new(BLOCK).unwrap(),
        ..TreeParams::default()
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    if layout == SealLayout::Appended {
        std::fs::write(file.path(), data).unwrap();
    }
    let data = data.to_vec();
    seal(
        &data,
        file.as_file(),
        layout,
        &params,
        NonZeroUsize::MIN,
        &mut go_on,
    )
    .unwrap();
    std::fs::read(file.path()).unwrap()
}

fn reader(source: Arc<Doubtful<Vec<u8>>>, options: VerifyOptions) -> VerifiedReader {
    let sealed = Sealed::open_appended(source).unwrap();
    VerifiedReader::new(sealed.accepted_by(&Trust::Unpinned).unwrap(), options).unwrap()
}

/// Nothing of the tree stays in memory.
fn forgetful() -> VerifyOptions {
    VerifyOptions {
        cache_bytes: 0,
        ..VerifyOptions::default()
    }
}

#[test]
fn a_wrong_copy_is_replaced() {
    let data = noise(DATA as usize, 1);
    let bytes = sealed(&data, SealLayout::Appended);
    let tree = DATA.next_multiple_of(65536);
    let end = bytes.len() as u64 - 8192;
    for wrong in [
        vec![0],
        vec![BLOCK - 1, 5 * BLOCK, 40 * BLOCK, 200_000],
        // Each level of the tree, and all of it.
        vec![tree],
        vec![tree + 3 * BLOCK],
        vec![end],
        (tree..end).collect(),
        (0..end).step_by(100).collect(),
    ] {
        let source = Arc::new(Doubtful::copy(bytes.clone(), wrong.clone()));
        let reader = reader(source.clone(), VerifyOptions::default());
        let mut buf = vec![0; DATA as usize];
        reader.read_exact_at(&mut buf, 0).unwrap();
        assert!(buf == data, "{wrong:?}");
        assert!(source.distrusted() > 0);
        // What was verified is not distrusted again.
        let before = source.distrusted();
        reader.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(source.distrusted(), before);
    }
}

#[test]
fn a_single_block_has_no_tree() {
    let data = noise(500, 2);
    let bytes = sealed(&data, SealLayout::Appended);
    let source = Arc::new(Doubtful::copy(bytes, [7]));
    let reader = reader(source.clone(), VerifyOptions::default());
    let mut buf = vec![0; 500];
    reader.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(buf, data);
    assert_eq!(source.distrusted(), 1);
}

#[test]
fn a_source_that_always_lies_is_asked_once_for_each_read() {
    let data = noise(DATA as usize, 3);
    let bytes = sealed(&data, SealLayout::Appended);
    let tree = DATA.next_multiple_of(65536);
    for (wrong, place) in [(5, BlockKind::Data), (tree, BlockKind::Tree(2))] {
        let source = Arc::new(Doubtful::liar(bytes.clone(), [wrong]));
        let reader = reader(source.clone(), forgetful());
        for reads in 1..3 {
            let read = reader.read_exact_at(&mut [0; 10], 0);
            let Err(ReadError::Rejected(reason)) = read else {
                panic!("{read:?}");
            };
            let mismatch: &verimount_verity::Mismatch = reason.downcast_ref().unwrap();
            assert_eq!(mismatch.place, place);
            assert_eq!(source.distrusted(), reads);
        }
    }
}

#[test]
fn the_topmost_block_of_dm_verity_is_read_again() {
    let data = noise(300 * 4096, 4);
    let params = dm_verity::Params::from(TreeParams::default());
    let file = tempfile::NamedTempFile::new().unwrap();
    let (layout, threads) = (SealLayout::Sidecar, NonZeroUsize::MIN);
    let sealed = dm_verity::seal(&data, file.as_file(), layout, &params, threads, &mut go_on);
    let root = sealed.unwrap().root;
    let hashes = std::fs::read(file.path()).unwrap();
    for (source, is_right) in [
        (Doubtful::copy(hashes.clone(), [4096]), true),
        (Doubtful::liar(hashes.clone(), [4096]), false),
    ] {
        let area = HashArea::open_beside(Arc::new(data.clone()), Arc::new(source), 0).unwrap();
        let seal = area.accepted_by(root.as_bytes()).unwrap();
        let opened = VerifiedReader::new(seal, VerifyOptions::default());
        assert_eq!(opened.is_ok(), is_right);
    }
}
