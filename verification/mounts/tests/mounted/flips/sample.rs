use std::{collections::HashSet, ops::Range};

use super::copy::Copy;
use crate::prelude::*;

/// The number of threads that try positions, each with a copy of the image.
pub(super) const THREADS: usize = 2;

/// An image to be damaged, and its original contents.
pub(super) struct Sample {
    pub(super) world: World,
    pub(super) bytes: Vec<u8>,
    /// The file with the tree beside the image, if that is where it is.
    pub(super) sidecar: Option<Vec<u8>>,
    pub(super) expected: Snapshot,
    /// Options to mount it, with the expected digest.
    pub(super) options: OpenOptions,
    /// Names of files of more than one block, and the ranges of their contents in the image.
    pub(super) large: Vec<(PathBuf, Range<usize>)>,
}

/// An image of 64 KiB, followed by tree and descriptor.
pub(super) fn small_sample() -> Sample {
    let world = World::new();
    let tree = world.directory("tree");
    fs::create_dir_all(tree.join("folder/inside")).unwrap();
    // As much as possible of the 16 blocks; behind the first file, there is room for the headers
    // that come before the second one.
    fs::write(tree.join("folder/first"), noise(8 * 4096 - 200, 1)).unwrap();
    fs::write(tree.join("folder/inside/second"), noise(6 * 4096, 2)).unwrap();
    for number in 0..4 {
        fs::write(tree.join(format!("small {number}")), noise(60, 10 + number)).unwrap();
    }
    fs::hard_link(tree.join("small 1"), tree.join("folder/another name")).unwrap();
    std::os::unix::fs::symlink("folder/first", tree.join("link")).unwrap();
    let image = world.path("image");
    let options = BuildOptions {
        format: ImageFormat::Romfs(RomfsOptions::default()),
        ..BuildOptions::default()
    };
    let digest = build(&tree, &image, &options).unwrap().digest.unwrap();
    let bytes = fs::read(&image).unwrap();
    let size = Content::open(&image, &OpenOptions::new().unpinned()).unwrap();
    assert_eq!(size.file().len(), 64 << 10, "it is what the test is about");
    Sample {
        expected: snapshot(&tree).unwrap(),
        options: OpenOptions::new().digest(digest),
        large: ["folder/first", "folder/inside/second"]
            .map(|name| {
                (
                    name.into(),
                    place(&bytes, &fs::read(tree.join(name)).unwrap()),
                )
            })
            .into(),
        sidecar: None,
        world,
        bytes,
    }
}

pub(super) fn place(image: &[u8], content: &[u8]) -> Range<usize> {
    let at = position_of(content, image);
    at..at + content.len()
}

impl Sample {
    pub(super) fn copy(&self, number: usize) -> Copy<'_> {
        let image = self.world.write(&format!("copy {number}"), &self.bytes);
        if let Some(sidecar) = &self.sidecar {
            self.world.write(&format!("copy {number}.verity"), sidecar);
        }
        Copy {
            sample: self,
            storage: File::options().write(true).open(&image).unwrap(),
            image,
            directory: self.world.directory(&format!("mnt {number}")),
        }
    }

    /// Distributes positions among threads, each with its own copy.
    pub(super) fn in_threads(
        &self,
        positions: &[usize],
        work: impl Fn(&Copy<'_>, &[usize]) + Sync,
    ) {
        thread::scope(|scope| {
            for (number, positions) in positions
                .chunks(positions.len().div_ceil(THREADS))
                .enumerate()
            {
                let copy = self.copy(number);
                let work = &work;
                scope.spawn(move || work(&copy, positions));
            }
        });
    }

    /// The range of the Merkle tree: one block, directly after the 64 KiB of data.
    pub(super) fn tree(&self) -> Range<usize> {
        let start = self.bytes.len() - 2 * 4096;
        start..start + 4096
    }

    /// The positions that are tried below one mount.
    pub(super) fn live_positions(&self) -> Vec<usize> {
        let data = self.large.iter().flat_map(|(_, place)| place.clone());
        data.chain(self.tree()).collect()
    }

    /// The positions where a changed byte must be detected when everything is read. Of the rest,
    /// nothing is ever read: padding, and headers that the index repeats.
    pub(super) fn positions_of_use(&self) -> HashSet<usize> {
        let blocks =
            |range: Range<usize>| range.start / 4096 * 4096..range.end.next_multiple_of(4096);
        let superblock = blocks(0..512);
        let index = blocks(RomfsImage(self.bytes.clone()).index()..self.tree().start);
        let contents = self
            .expected
            .values()
            .filter_map(|(_, stored)| match stored {
                Stored::File { content, .. } => Some(blocks(place(&self.bytes, content))),
                _ => None,
            });
        let descriptor = self.tree().end;
        let trailer = self.bytes.len() - 4..self.bytes.len();
        contents
            .chain([superblock, index, descriptor..descriptor + 256, trailer])
            .flatten()
            .collect()
    }

    pub(super) fn other_positions(&self) -> Vec<usize> {
        let is_live = |position: &usize| {
            self.tree().contains(position)
                || self.large.iter().any(|(_, place)| place.contains(position))
        };
        (0..self.bytes.len())
            .filter(|position| !is_live(position))
            .collect()
    }
}
