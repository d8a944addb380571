//! What will be read of a file is announced where it is stored.

use std::sync::Arc;

use verimount_erofs::ErofsTree;
use verimount_source::Scratch;
use verimount_testkit::{Watched, WatchedEvent, noise};
use verimount_tree::{NodeId, Tree};

use crate::craft::{Builder, FILE};

#[test]
fn what_will_be_read_is_announced() {
    let content = noise(50_000, 1);
    let mut builder = Builder::new(12);
    let file = builder.file(&content);
    let image = builder.finish(&[(b"file", file, FILE)]);
    let source = Arc::new(Watched::new(image));
    let tree = ErofsTree::open(source.clone(), Vec::new()).unwrap();
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
        let tree = ErofsTree::open(source.clone(), Vec::new()).unwrap();
        source.take_events();
        tree.will_walk();
        assert_eq!(source.take_events(), [(WatchedEvent::Hint, 0..announced)]);
    }
}
