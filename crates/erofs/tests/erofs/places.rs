//! The files of a damaged range are those that can no longer be used.

use std::{
    collections::BTreeSet,
    fs,
    ops::{ControlFlow, Range},
    path::{Path, PathBuf},
};

use verimount_erofs::ErofsTree;
use verimount_source::Scratch;
use verimount_testkit::{Unreadable, noise, seen::content};
use verimount_tree::{
    Attr, Cursor, Error, FilePlace, FileType, NodeId, ROOT_PATH, Tree, resolve, walk_readable,
};

use crate::{
    committed,
    craft::{Builder, CHUNKS, FILE, Inode},
    open,
    writer::image_of,
};

/// The smallest blocks of the images.
const BLOCK: u64 = 512;

/// The image with an unreadable range, if it can be opened.
fn damaged(image: &[u8], range: Range<u64>) -> Option<ErofsTree> {
    open(Unreadable::new(image.to_vec(), range)).ok()
}

/// The files that overlap a range, and whether some may be missing.
fn named(tree: &dyn Tree, range: &Range<u64>) -> (BTreeSet<PathBuf>, bool) {
    let mut files = BTreeSet::new();
    let mut is_all = true;
    let walked = tree.walk_places(&mut |found| {
        match found {
            Ok(FilePlace {
                path, range: place, ..
            }) if place.start < range.end && range.start < place.end => {
                files.insert(path.to_owned());
            }
            Ok(_) => {}
            Err(_) => is_all = false,
        }
        ControlFlow::Continue(())
    });
    assert!(walked.is_continue());
    (files, is_all)
}

/// Everything that can be found.
fn found(tree: &dyn Tree) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::from([PathBuf::from(ROOT_PATH)]);
    let walked = walk_readable(tree, |found| {
        if let Ok((path, _)) = found {
            files.insert(path.to_owned());
        }
        ControlFlow::Continue(())
    });
    assert!(walked.is_continue());
    files
}

/// Whether everything about a file can be read.
fn is_usable(tree: &dyn Tree, node: NodeId) -> bool {
    let use_all = || {
        let attr = tree.attr(node)?;
        for name in tree.xattr_names(node)?.iter() {
            tree.xattr(node, name)?;
        }
        use_content(tree, &attr)
    };
    use_all().is_ok()
}

fn use_content(tree: &dyn Tree, attr: &Attr) -> Result<(), Error> {
    match attr.file_type {
        FileType::Directory => tree.list(attr.node, Cursor::START, &mut |_, _| {
            ControlFlow::Continue(())
        }),
        FileType::Symlink => tree.readlink(attr.node, &mut Scratch::default()).map(drop),
        _ => content(tree, attr, 1 << 20).map(drop),
    }
}

fn node_of(tree: &dyn Tree, path: &Path) -> NodeId {
    if path == Path::new(ROOT_PATH) {
        NodeId::ROOT
    } else {
        resolve(tree, path).unwrap()
    }
}

/// Compares the names for each block of an image with what becomes unusable without it. Returns how often a file is
/// not named, which is then said.
fn check(name: &str, image: &[u8]) -> usize {
    let whole = open(image.to_vec()).unwrap();
    let all = found(&whole);
    let mut unnamed = 0;
    for start in (0..image.len() as u64).step_by(BLOCK as usize) {
        let range = start..start + BLOCK;
        let Some(tree) = damaged(image, range.clone()) else {
            continue;
        };
        let (files, is_all) = named(&tree, &range);
        let reachable = found(&tree);
        assert!(
            is_all || !files.is_empty(),
            "{name} {range:?}: nothing is named"
        );
        assert!(
            reachable == all || !is_all,
            "{name} {range:?}: some are missing"
        );
        for path in &reachable {
            // In the whole tree, as a directory on the way may be damaged.
            let is_usable = is_usable(&tree, node_of(&whole, path));
            if files.contains(path) {
                assert!(!is_usable, "{name} {range:?}: {path:?}");
            } else if !is_usable {
                assert!(!is_all, "{name} {range:?}: {path:?}");
                unnamed += 1;
            }
        }
    }
    unnamed
}

#[test]
fn the_files_of_each_block_are_those_that_need_it() {
    let images = committed::images();
    let images = images.iter().enumerate();
    let unnamed = images.map(|(number, image)| check(&format!("image {number}"), image));
    // Four files have fragments in front of a cluster whose beginning is in the next block of the packed inode's index.
    assert_eq!(unnamed.sum::<usize>(), 4);
}

/// Files in blocks of their own, behind inodes, in chunks, with shared content and attributes, and a directory
/// of several blocks.
#[test]
fn the_same_in_written_images() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("folder")).unwrap();
    for number in 0..300 {
        fs::write(path("folder").join(format!("a longer name {number}")), "").unwrap();
    }
    for (name, content) in [
        ("plain", noise(20_000, 1)),
        ("the same", noise(20_000, 1)),
        ("inline", noise(100, 2)),
    ] {
        fs::write(path(name), content).unwrap();
    }
    let sparse = fs::File::create(path("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, &noise(5000, 3), 1 << 20).unwrap();
    assert_eq!(check("written", &image_of(folder.path())), 0);
}

/// A search that its caller ends comes to no further place.
#[test]
fn a_search_can_be_ended() {
    for image in committed::images() {
        let tree = open(image).unwrap();
        let mut count = 0;
        let walked = tree.walk_places(&mut |_| {
            count += 1;
            ControlFlow::Continue(())
        });
        assert!(walked.is_continue());
        for limit in [1, 2, count / 2, count] {
            let mut left = limit;
            let walked = tree.walk_places(&mut |_| {
                left -= 1;
                match left {
                    0 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            });
            assert!(walked.is_break());
        }
    }
}

/// Maps of chunks that overlap: there are many more places than bytes.
#[test]
fn a_search_is_bounded() {
    let mut builder = Builder::new(9);
    let names: Vec<_> = (0..600).map(|number| format!("{number:03}")).collect();
    let chunked = Inode {
        layout: CHUNKS,
        size: 4096 * BLOCK,
        ..Inode::default()
    };
    let nids: Vec<_> = names.iter().map(|_| builder.inode(&chunked)).collect();
    let entries = names.iter().zip(nids);
    let entries: Vec<_> = entries
        .map(|(name, nid)| (name.as_bytes(), nid, FILE))
        .collect();
    let tree = open(builder.finish(&entries)).unwrap();
    let (mut count, mut reasons) = (0_u32, Vec::new());
    let walked = tree.walk_places(&mut |found| {
        count += 1;
        reasons.extend(found.err().map(|error| error.to_string()));
        ControlFlow::Continue(())
    });
    assert!(walked.is_break());
    assert!(count < 1_100_000, "{count}");
    assert!(
        reasons[0].contains("listing the files would take too long"),
        "{reasons:?}"
    );
}
