//! What will be read of a file is announced where it is stored.

use std::sync::Arc;

use verimount_erofs::ErofsTree;
use verimount_source::{ReadAt, Scratch};
use verimount_testkit::{Watched, WatchedEvent, noise};
use verimount_tree::{NodeId, Tree};
use verimount_verity::Checked;

use crate::craft::{Builder, FILE, Inode};

#[test]
fn what_will_be_read_is_announced() {
    let content = noise(50_000, 1);
    let mut builder = Builder::new(12);
    let file = builder.file(&content);
    let image = builder.finish(&[(b"file", file, FILE)]);
    let source = Arc::new(Watched::new(image));
    let tree = ErofsTree::open(Checked::unverified(source.clone()), Vec::new()).unwrap();
    let file = tree.lookup(NodeId::ROOT, "file".as_ref()).unwrap().node;
    source.take_events();
    // More than it has, and less.
    for (offset, len, announced) in [(0, u64::MAX, 50_000), (4096, 10_000, 10_000)] {
        tree.will_need(file, offset, len);
        let events = source.take_events();
        let [(WatchedEvent::Hint, hint)] = &*events else {
            panic!("{events:?}");
        };
        assert_eq!(hint.end - hint.start, announced);
        let mut scratch = Scratch::default();
        let read = tree.read(file, offset, 100, &mut scratch).unwrap();
        assert_eq!(read, &content[offset as usize..][..100]);
        let (_, read) = &source.take_events()[0];
        assert_eq!(read.start, hint.start);
    }
    // Nothing is to be read at the end, or of what is no file.
    tree.will_need(file, 50_000, 1);
    tree.will_need(NodeId::ROOT, 0, 1);
    assert_eq!(source.take_events(), []);
}

#[test]
fn inodes_are_announced_no_further_than_the_image_goes() {
    let mut builder = Builder::new(12);
    let file = builder.file(&noise(50_000, 1));
    for inodes in [2, u64::MAX] {
        builder.inodes = inodes;
        let image = builder.clone().finish(&[(b"file", file, FILE)]);
        let announced = inodes.saturating_mul(96).min(image.len() as u64);
        let source = Arc::new(Watched::new(image));
        let tree = ErofsTree::open(Checked::unverified(source.clone()), Vec::new()).unwrap();
        source.take_events();
        tree.will_walk();
        assert_eq!(source.take_events(), [(WatchedEvent::Hint, 0..announced)]);
    }
}

#[test]
fn readers_of_inodes_are_stopped_before_the_first_data() {
    const OTHERS: u64 = 1 << 20;
    let mut builder = Builder::new(12);
    // Both inodes, others, and then both files.
    let first_data = builder.clone().blocks(&[]) + 2 + (OTHERS >> 12) as u32;
    let details = [first_data, first_data + 13];
    let inode = |detail| Inode {
        size: 50_000,
        detail,
        ..Inode::default()
    };
    let [first, second] = details.map(|detail| builder.inode(&inode(detail)));
    builder.blocks(&noise(OTHERS as usize, 3));
    let data = [1, 2].map(|seed| builder.blocks(&noise(50_000, seed)));
    assert_eq!(data, details);
    let image = builder.finish(&[(b"first", first, FILE), (b"second", second, FILE)]);
    let end = image.len() as u64;
    let at = details.map(|detail| u64::from(detail) << 12);
    for (looked_up, stop) in [
        (&[][..], end),
        (&["second"], at[1]),
        (&["second", "first"], at[0]),
        (&["first", "second"], at[0]),
    ] {
        let source = Arc::new(Watched::new(image.clone()));
        let checked = Checked::unverified(source.clone()).read_ahead();
        let tree = ErofsTree::open(checked.clone(), Vec::new()).unwrap();
        for name in looked_up {
            tree.lookup(NodeId::ROOT, name.as_ref()).unwrap();
        }
        source.take_events();
        let mut buf = vec![0; 64 << 10];
        for number in 0..12 {
            let offset = number * buf.len() as u64;
            checked.read_exact_at(&mut buf, offset).unwrap();
        }
        let events = source.take_events().into_iter();
        let reached = events.filter(|(event, _)| *event == WatchedEvent::Reach);
        let reached = reached.map(|(_, range)| range.end).max();
        assert_eq!(reached, Some(stop), "{looked_up:?}");
    }
}

/// Who reads one file needs nothing of the next one; who has read several probably does.
#[test]
fn readers_of_one_file_are_stopped_at_its_end() {
    const SIZE: usize = 3 << 20;
    const NAMES: [&str; 3] = ["first", "second", "third"];
    let mut builder = Builder::new(12);
    let content = noise(SIZE, 1);
    let files = NAMES.map(|name| (name.as_bytes(), builder.file(&content), FILE));
    let source = Arc::new(Watched::new(builder.finish(&files)));
    let checked = Checked::unverified(source.clone()).read_ahead();
    let tree = ErofsTree::open(checked, Vec::new()).unwrap();
    let mut scratch = Scratch::default();
    let mut ends = Vec::new();
    let mut reached = Vec::new();
    for name in NAMES {
        let file = tree.lookup(NodeId::ROOT, name.as_ref()).unwrap().node;
        source.take_events();
        for offset in (0..SIZE).step_by(128 << 10) {
            tree.read(file, offset as u64, 128 << 10, &mut scratch)
                .unwrap();
        }
        let events = source.take_events();
        let end_of = |kind| {
            let kind = events.iter().filter(|(event, _)| *event == kind);
            kind.map(|(_, range)| range.end).max()
        };
        ends.push(end_of(WatchedEvent::Read).unwrap());
        reached.push(end_of(WatchedEvent::Reach));
    }
    assert_eq!(reached[0], Some(ends[0]));
    assert_eq!(reached[1], Some(ends[1] + (256 << 10)));
}
