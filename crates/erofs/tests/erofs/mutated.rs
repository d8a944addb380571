//! Damaged images: reading them never panics, and ends soon.

use std::{ffi::OsStr, ops::ControlFlow, path::PathBuf, sync::Arc};

use verimount_erofs::{ErofsTree, Superblock};
use verimount_source::{Counting, Scratch};
use verimount_testkit::{all_or_some, cases};
use verimount_tree::{Cursor, Error, NodeId, Tree, walk};
use verimount_verity::Checked;

use crate::{committed, craft::fix_checksum};

/// More requests than any of these small images can need.
const MANY: u64 = 20_000;

/// The most of a file that is read.
const PIECE: usize = 1 << 16;

/// Does everything with an image, whatever comes of it.
fn exercise(image: &[u8]) {
    let source = Arc::new(Counting::new(image.to_vec()));
    if let Ok(superblock) = Superblock::read(&*source) {
        let _ = (superblock.size(), superblock.volume_name());
    }
    if let Ok(tree) = ErofsTree::open(Checked::unverified(source.clone()), Vec::new()) {
        let tree: &dyn Tree = &tree;
        let mut nodes = vec![NodeId::ROOT];
        let _ = walk(tree, NodeId::ROOT, PathBuf::new(), |_, attr| {
            nodes.push(attr.node);
            Ok::<_, Error>(())
        });
        for node in nodes.into_iter().take(100) {
            exercise_node(tree, node);
        }
    }
    assert!(source.counts().requests < MANY);
}

fn exercise_node(tree: &dyn Tree, node: NodeId) {
    let mut scratch = Scratch::default();
    let size = tree.attr(node).map_or(0, |attr| attr.size);
    for offset in [0, 1, size / 2, size.saturating_sub(1), u64::MAX] {
        if let Ok(bytes) = tree.read(node, offset, PIECE, &mut scratch) {
            assert_eq!(
                bytes.len() as u64,
                size.saturating_sub(offset).min(PIECE as u64)
            );
        }
        let _ = tree.extent(node, offset);
    }
    let _ = tree.readlink(node, &mut scratch);
    if let Ok(names) = tree.xattr_names(node) {
        for name in names.iter() {
            let _ = tree.xattr(node, name);
        }
    }
    let _ = tree.lookup(node, OsStr::new("name"));
    for from in [Cursor::START, Cursor::new(13).unwrap(), Cursor::MAX] {
        let mut left = 1000;
        let _ = tree.list(node, from, &mut |_, _| {
            left -= 1;
            match left {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
    }
}

#[test]
fn every_flipped_byte_does_no_harm() {
    for image in committed::images() {
        let positions = all_or_some((1024..image.len()).collect(), 5);
        for at in positions {
            let mut image = image.clone();
            image[at] ^= 1 << (at % 8);
            exercise(&image);
            if fix_checksum(&mut image) {
                exercise(&image);
            }
        }
    }
}

#[test]
fn truncated_images_do_no_harm() {
    for image in committed::images() {
        for len in (0..image.len()).step_by(61) {
            exercise(&image[..len]);
        }
    }
}

/// Several changed words, as an attacker would choose them.
#[test]
fn changed_words_do_no_harm() {
    let images = committed::images();
    cases(2000, 64, |u| {
        let mut image = u.choose(&images)?.clone();
        for _ in 0..u.int_in_range(1..=5)? {
            let at = 1024 + u.choose_index((image.len() - 1024 - 8) / 2)? * 2;
            let random: u64 = u.arbitrary()?;
            let value: u64 = match u.int_in_range(0..=5)? {
                0 => random,
                1 => u64::MAX,
                2 => random % 4096,
                3 => random % 256,
                4 => 1 << (random % 64),
                _ => 0,
            };
            let len = *u.choose(&[1, 2, 4, 8])?;
            image[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
        }
        fix_checksum(&mut image);
        exercise(&image);
        Ok(())
    });
}
