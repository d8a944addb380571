use std::{fs, ops::Range};

use verimount::{FileDigest, Identity, SealOptions, seal};
use verimount_testkit::noise;

/// A sealed file, which is in several places.
pub(crate) struct Image {
    /// All of it, with its Merkle tree at its end.
    pub(crate) sealed: Vec<u8>,
    pub(crate) digest: FileDigest,
    /// The size of the data in bytes.
    pub(crate) size: usize,
}

/// The size of a block in bytes.
pub(crate) const BLOCK: usize = 4096;

/// Where the tree begins: the alignment of the format.
const TREE_ALIGNMENT: usize = 65536;

impl Image {
    /// A file of some granules, the last block of which is short.
    pub(crate) fn new() -> Self {
        Self::of_size(700_416 + 512)
    }

    pub(crate) fn of_size(size: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, noise(size, 7)).unwrap();
        let options = SealOptions {
            append: true,
            ..SealOptions::default()
        };
        let made = seal(&path, &options).unwrap();
        let Identity::FileDigest(digest) = made.identity else {
            unreachable!("it is a seal of fs-verity")
        };
        Self {
            sealed: fs::read(path).unwrap(),
            digest,
            size,
        }
    }

    /// The blocks of data and of the tree, as ranges of the file. What follows them says how to read it.
    pub(crate) fn blocks(&self) -> Vec<Range<usize>> {
        let block = |end: usize| move |start: usize| start..end.min(start + BLOCK);
        let data = (0..self.size).step_by(BLOCK).map(block(self.size));
        let tree = self.size.next_multiple_of(TREE_ALIGNMENT)..self.sealed.len() - BLOCK;
        let tree = tree.clone().step_by(BLOCK).map(block(tree.end));
        data.chain(tree).collect()
    }
}
