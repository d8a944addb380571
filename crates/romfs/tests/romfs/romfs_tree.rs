//! Images as trees, without a mount.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    ops::ControlFlow,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::Arc,
};

use verimount_romfs::{BlockSize, Options, RomfsTree, VolumeName, plan};
use verimount_source::Scratch;
use verimount_testkit::{go_on, noise};
use verimount_tree::{Attr, Cursor, Error, NodeId, Timestamp, Tree, resolve};
use verimount_verity::Checked;

use crate::model::scanned;

/// The image of a small tree of every kind that needs no root.
fn image() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("a/b/c")).unwrap();
    fs::write(path("a/large"), noise(100_000, 1)).unwrap();
    fs::write(path("a/b/small"), b"small").unwrap();
    fs::write(path("a/b/c/empty"), b"").unwrap();
    fs::set_permissions(path("a/b/small"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::hard_link(path("a/large"), path("z-link")).unwrap();
    symlink("a/b", path("symlink")).unwrap();
    let options = Options {
        volume_name: VolumeName::default(),
        block_size: BlockSize::MIN,
    };
    let mut bytes = Vec::new();
    plan(scanned(folder.path()), &options)
        .unwrap()
        .write_to(&mut bytes, &mut go_on)
        .unwrap();
    bytes
}

fn tree() -> RomfsTree {
    RomfsTree::open(Checked::unverified(Arc::new(image()))).unwrap()
}

fn node(tree: &dyn Tree, path: &str) -> Result<NodeId, Error> {
    resolve(tree, Path::new(path))
}

/// All entries of a directory, which the tree must also give from any place on, and without their
/// attributes.
fn listed(tree: &dyn Tree, directory: NodeId) -> Result<Vec<(OsString, Attr)>, Error> {
    let from = |cursor| {
        let (mut entries, mut places) = (Vec::new(), vec![cursor]);
        let listed = tree.list_with_attrs(directory, cursor, &mut |entry, next, attr| {
            let attr = *attr.unwrap();
            assert_eq!((entry.node, entry.file_type), (attr.node, attr.file_type));
            entries.push((entry.name.to_owned(), attr));
            places.push(next);
            ControlFlow::Continue(())
        });
        listed.map(|()| (entries, places))
    };
    let (all, places) = from(Cursor::START)?;
    for (position, place) in places.iter().enumerate() {
        assert_eq!(from(*place).unwrap().0, all[position..]);
    }
    assert_eq!(from(Cursor::MAX).unwrap().0, []);
    let mut names = Vec::new();
    tree.list(directory, Cursor::START, &mut |entry, next| {
        names.push((entry.name.to_owned(), entry.node, next));
        ControlFlow::Continue(())
    })
    .unwrap();
    let expected = all.iter().zip(&places[1..]);
    let expected = expected.map(|((name, attr), next)| (name.clone(), attr.node, *next));
    assert!(names.into_iter().eq(expected));
    Ok(all)
}

fn content(tree: &dyn Tree, node: NodeId, piece: usize) -> Vec<u8> {
    let mut scratch = Scratch::default();
    let mut all = Vec::new();
    loop {
        let offset = all.len() as u64;
        match tree.read(node, offset, piece, &mut scratch).unwrap() {
            [] => return all,
            bytes => all.extend_from_slice(bytes),
        }
    }
}

#[test]
fn everything_in_an_image_is_found() {
    let tree = tree();
    let mut found = BTreeMap::new();
    let mut pending = vec![(PathBuf::new(), NodeId::ROOT)];
    while let Some((path, directory)) = pending.pop() {
        for (name, attr) in listed(&tree, directory).unwrap() {
            let path = path.join(&name);
            assert_eq!(tree.attr(attr.node).unwrap(), attr);
            assert_eq!(tree.lookup(directory, &name).unwrap(), attr);
            assert_eq!((attr.uid, attr.gid, attr.nlink), (0, 0, 1));
            assert_eq!([attr.atime, attr.mtime, attr.ctime], [Timestamp::EPOCH; 3]);
            assert_eq!(attr.blocks, attr.size.div_ceil(512));
            if attr.is_directory() {
                pending.push((path.clone(), attr.node));
            }
            found.insert(
                path.into_os_string().into_string().unwrap(),
                (attr.permissions.bits(), attr.size),
            );
        }
    }
    let expected = [
        ("a", (0o755, 0)),
        ("a/b", (0o755, 0)),
        ("a/b/c", (0o755, 0)),
        ("a/b/c/empty", (0o644, 0)),
        ("a/b/small", (0o755, 5)),
        ("a/large", (0o644, 100_000)),
        ("symlink", (0o777, 3)),
        ("z-link", (0o644, 100_000)),
    ];
    let expected = expected.map(|(path, attr)| (path.to_owned(), attr));
    assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn content_comes_in_pieces_of_any_size() {
    let tree = tree();
    let large = node(&tree, "a/large").unwrap();
    for piece in [1000, 4096, 100_000, 1 << 20] {
        assert_eq!(content(&tree, large, piece), noise(100_000, 1));
    }
    assert_eq!(content(&tree, node(&tree, "a/b/c/empty").unwrap(), 1), b"");
    let mut scratch = Scratch::default();
    let symlink = node(&tree, "symlink").unwrap();
    assert_eq!(tree.readlink(symlink, &mut scratch).unwrap(), b"a/b");
    for offset in [100_000, 100_001, u64::MAX] {
        assert_eq!(tree.read(large, offset, 10, &mut scratch).unwrap(), b"");
    }
}

#[test]
fn hard_links_are_one_file() {
    let tree = tree();
    assert_eq!(
        node(&tree, "a/large").unwrap(),
        node(&tree, "z-link").unwrap()
    );
}

#[test]
fn impossible_requests_are_refused() {
    let tree = tree();
    let mut scratch = Scratch::default();
    let small = node(&tree, "a/b/small").unwrap();
    assert!(matches!(node(&tree, "a/none"), Err(Error::NotFound)));
    assert!(matches!(
        node(&tree, "a/b/small/x"),
        Err(Error::NotADirectory)
    ));
    assert!(matches!(listed(&tree, small), Err(Error::NotADirectory)));
    let target = tree.readlink(small, &mut scratch);
    assert!(matches!(target, Err(Error::NotASymlink)));
    let symlink = node(&tree, "symlink").unwrap();
    let read = tree.read(symlink, 0, 1, &mut scratch);
    assert!(matches!(read, Err(Error::NoContent)));
    let read = tree.read(NodeId::ROOT, 0, 1, &mut scratch);
    assert!(matches!(read, Err(Error::IsADirectory)));
    for unknown in [2, 7, 1 << 33, 1 << 63] {
        let unknown = NodeId::new(unknown).unwrap();
        assert!(tree.attr(unknown).is_err(), "{unknown}");
    }
}

#[test]
fn a_target_with_a_nul_in_it_is_refused() {
    let mut bytes = image();
    let name = bytes.windows(8).position(|window| window == b"symlink\0");
    // The header ends with the name and its padding, on a multiple of 16.
    let target = name.unwrap() + 16;
    assert_eq!(&bytes[target..target + 3], b"a/b");
    bytes[target + 1] = 0;
    let tree = RomfsTree::open(Checked::unverified(Arc::new(bytes))).unwrap();
    let symlink = node(&tree, "symlink").unwrap();
    let mut scratch = Scratch::default();
    let refused = tree.readlink(symlink, &mut scratch).unwrap_err();
    assert!(refused.is_about_content(), "{refused}");
    assert!(refused.to_string().contains("contains a NUL"), "{refused}");
}

/// By the `..` in its chain of headers, also where an index has the names.
#[test]
fn directories_lead_to_the_one_above() {
    let tree = tree();
    let at = |path| node(&tree, path).unwrap();
    for (inside, above) in [("a", "/"), ("a/b", "a"), ("a/b/c", "a/b")] {
        let found = tree.parent(at(inside)).unwrap();
        assert_eq!(found, tree.attr(at(above)).unwrap(), "{inside}");
    }
    let of_file = tree.parent(at("a/large"));
    assert!(matches!(of_file, Err(Error::NotADirectory)), "{of_file:?}");
}
