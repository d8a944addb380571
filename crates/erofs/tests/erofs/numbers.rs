//! Files by their numbers alone, as file handles have them.

use std::{fs, path::PathBuf};

use verimount_tree::{Error, NodeId, Tree, walk};

use crate::{open, writer::image_of};

#[test]
fn directories_lead_to_the_one_above() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("a/b/c")).unwrap();
    fs::write(folder.path().join("a/b/file"), "").unwrap();
    // Names that are sorted before the dots.
    fs::write(folder.path().join("a/b/!"), "").unwrap();
    let tree = open(image_of(folder.path())).unwrap();
    let mut above = vec![NodeId::ROOT];
    walk(&tree, NodeId::ROOT, PathBuf::new(), |path, attr| {
        above.truncate(path.components().count());
        if attr.is_directory() {
            assert_eq!(tree.parent(attr.node)?, tree.attr(*above.last().unwrap())?);
        } else {
            assert!(matches!(tree.parent(attr.node), Err(Error::NotADirectory)));
        }
        above.push(attr.node);
        Ok::<_, Error>(())
    })
    .unwrap();
}

/// The root's number is 1, and not that of its place.
#[test]
fn each_file_has_one_number() {
    let image = image_of(tempfile::tempdir().unwrap().path());
    let root = u16::from_le_bytes(image[1024 + 14..][..2].try_into().unwrap());
    let block = u32::from_le_bytes(image[1024 + 40..][..4].try_into().unwrap());
    let place = u64::from(block) * 4096 / 32 + u64::from(root);
    let tree = open(image).unwrap();
    let found = tree.attr(NodeId::new(place).unwrap()).unwrap();
    assert_eq!(found, tree.attr(NodeId::ROOT).unwrap());
}

#[test]
fn an_image_without_an_identifier_claims_none() {
    let folder = tempfile::tempdir().unwrap();
    let one = image_of(folder.path());
    fs::write(folder.path().join("file"), "").unwrap();
    let other = image_of(folder.path());
    let id = |image: &[u8]| open(image.to_vec()).unwrap().claimed_id();
    assert!(id(&one).is_some());
    assert_ne!(id(&one), id(&other));
    // The UUID of the superblock, and its checksum.
    let mut without = one;
    without[1024 + 48..][..16].fill(0);
    assert!(crate::craft::fix_checksum(&mut without));
    assert_eq!(id(&without), None);
}
