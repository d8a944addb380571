//! Opens bytes as a romfs image and reads all that is in it.
//!
//! Checksums stop a fuzzer at once, as a changed header practically never has the right one. So
//! the bytes are read twice: as they are, and with the checksums made right.

#![no_main]

use std::{collections::HashSet, ops::ControlFlow, path::Component};

use libfuzzer_sys::fuzz_target;
use verimount_romfs::{Error, Romfs};
use verimount_source::{Counting, ReadAt, Scratch};
use verimount_tree::FileType;

/// How many bytes may be read of an image for each that it has by what looks at all of it once, and besides: the tests of what
/// an image costs allow as many.
const MOST_FOR_BYTE: u64 = 32;
const MOST: u64 = 4 << 10;

fuzz_target!(|bytes: &[u8]| {
    read_counted(bytes);
    read_counted(&with_right_checksums(bytes));
});

fn read_counted(bytes: &[u8]) {
    let most = MOST + MOST_FOR_BYTE * bytes.len() as u64;
    // Of a damaged image, headers are read where its index fails.
    check_cost("naming damage", bytes, 2 * most, |bytes| {
        if let Ok(damaged) = Romfs::open_damaged(bytes) {
            let _ = damaged.walk_damaged(|_| ControlFlow::Continue(()));
        }
    });
    check_cost("a check of the index", bytes, most, |bytes| {
        if let Ok(image) = Romfs::open(bytes) {
            let _ = image.check_index();
        }
    });
    check_cost("a walk", bytes, most, |bytes| {
        if let Ok(image) = Romfs::open(bytes) {
            let _ = image.walk(|_, _| Ok::<_, Error>(()));
        }
    });
    if let Ok(image) = Romfs::open(bytes) {
        read_contents(&image);
    }
}

/// Does something for which at most `most` bytes may be read.
fn check_cost(what: &str, bytes: &[u8], most: u64, run: impl FnOnce(&Counting<&[u8]>)) {
    let counting = Counting::new(bytes);
    run(&counting);
    let read = counting.counts().bytes;
    assert!(read <= most, "{what} reads {read} bytes of {}", bytes.len());
}

fn read_contents(image: &Romfs<&[u8]>) {
    let mut scratch = Scratch::default();
    let _ = image.walk(|path, node| {
        assert!(
            path.components()
                .all(|part| matches!(part, Component::Normal(_)))
        );
        let beginning = node.size.min(4096) as usize;
        let source = image.source();
        source.read_borrowed(&mut scratch, node.data_offset, beginning)?;
        if node.file_type == FileType::Symlink {
            let target = image.symlink_target(node, &mut scratch)?;
            assert!(!target.is_empty() && !target.contains(&0));
        }
        Ok::<_, Error>(())
    });
}

/// Makes the checksum of every header right that can be reached from the root, and then that of
/// the superblock, which covers some of the headers.
fn with_right_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut image = bytes.to_vec();
    let mut done = HashSet::new();
    let mut pending: Vec<usize> = end_of_name(&image, 16).into_iter().collect();
    while let Some(at) = pending.pop() {
        let Some(end) = end_of_name(&image, at + 16).filter(|_| done.insert(at)) else {
            continue;
        };
        set_checksum(&mut image, at, end);
        let [next, spec] = [0, 4].map(|field| word(&image, at + field) as usize);
        // A directory's first entry, or a hard link's target.
        let below = (next & 7 <= 1).then_some(spec);
        pending.extend(below.into_iter().chain([next]).map(|offset| offset & !15));
    }
    if image.len() >= 16 {
        let size = word(&image, 8) as usize;
        let end = size.min(512).min(image.len());
        set_checksum(&mut image, 0, end);
    }
    image
}

/// Sets the word at `start + 12` so that the words up to `end` add up to zero.
fn set_checksum(image: &mut [u8], start: usize, end: usize) {
    image[start + 12..start + 16].fill(0);
    let sum = (start..end.saturating_sub(3))
        .step_by(4)
        .fold(0_u32, |sum, at| sum.wrapping_add(word(image, at)));
    image[start + 12..start + 16].copy_from_slice(&sum.wrapping_neg().to_be_bytes());
}

/// Where the name that starts at `start` ends, with its padding.
fn end_of_name(image: &[u8], start: usize) -> Option<usize> {
    let len = image.get(start..)?.iter().position(|byte| *byte == 0)?;
    let end = (start + len + 1).next_multiple_of(16);
    (end <= image.len()).then_some(end)
}

fn word(image: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(image[at..at + 4].try_into().expect("four bytes"))
}
