//! Directory trees without a mount.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    ops::ControlFlow,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::Arc,
};

use verimount_image::{
    Attr, Blocks, Error, FileKind, Inode, Paths, RomfsTree, SingleFile, Tree, Usage,
};
use verimount_romfs::{BlockSize, Options, VolumeName, plan};
use verimount_source::{Counting, ReadAt, Scratch};
use verimount_testkit::noise;

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
    plan(folder.path(), &options)
        .unwrap()
        .write_to(&mut bytes, &mut |_| ())
        .unwrap();
    bytes
}

fn tree() -> RomfsTree {
    RomfsTree::open(Arc::new(image())).unwrap()
}

fn inode(tree: &dyn Tree, path: &str) -> Result<Inode, Error> {
    Path::new(path)
        .iter()
        .try_fold(Inode::ROOT, |directory, name| {
            Ok(tree.lookup(directory, name)?.inode)
        })
}

/// All entries of a directory, which the tree must also give from any position on.
fn listed(tree: &dyn Tree, directory: Inode) -> Result<Vec<(OsString, Attr)>, Error> {
    let from = |position| {
        let mut entries = Vec::new();
        let listed = tree.list(directory, position, &mut |name, attr| {
            entries.push((name.to_owned(), *attr));
            ControlFlow::Continue(())
        });
        listed.map(|()| entries)
    };
    let all = from(0)?;
    for position in 0..all.len() + 2 {
        let rest = all.get(position..).unwrap_or_default();
        assert_eq!(from(position as u64).unwrap(), rest);
    }
    assert_eq!(from(u64::MAX).unwrap(), []);
    Ok(all)
}

fn content(tree: &dyn Tree, inode: Inode, piece: usize) -> Vec<u8> {
    let mut scratch = Scratch::default();
    let mut all = Vec::new();
    loop {
        let offset = all.len() as u64;
        match tree.read(inode, offset, piece, &mut scratch).unwrap() {
            [] => return all,
            bytes => all.extend_from_slice(bytes),
        }
    }
}

#[test]
fn everything_in_an_image_is_found() {
    let tree = tree();
    let mut found = BTreeMap::new();
    let mut pending = vec![(PathBuf::new(), Inode::ROOT)];
    while let Some((path, inode)) = pending.pop() {
        for (name, attr) in listed(&tree, inode).unwrap() {
            let path = path.join(&name);
            assert_eq!(tree.attr(attr.inode).unwrap(), attr);
            assert_eq!(tree.lookup(inode, &name).unwrap(), attr);
            if attr.is_directory() {
                pending.push((path.clone(), attr.inode));
            }
            found.insert(
                path.into_os_string().into_string().unwrap(),
                (attr.permissions, attr.size),
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
    let large = inode(&tree, "a/large").unwrap();
    for piece in [1000, 4096, 100_000, 1 << 20] {
        assert_eq!(content(&tree, large, piece), noise(100_000, 1));
    }
    assert_eq!(content(&tree, inode(&tree, "a/b/c/empty").unwrap(), 1), b"");
    let mut scratch = Scratch::default();
    let symlink = inode(&tree, "symlink").unwrap();
    assert_eq!(tree.readlink(symlink, &mut scratch).unwrap(), b"a/b");
    for offset in [100_000, 100_001, u64::MAX] {
        assert_eq!(tree.read(large, offset, 10, &mut scratch).unwrap(), b"");
    }
}

#[test]
fn hard_links_are_one_inode() {
    let tree = tree();
    assert_eq!(
        inode(&tree, "a/large").unwrap(),
        inode(&tree, "z-link").unwrap()
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let tree = tree();
    let mut scratch = Scratch::default();
    let small = inode(&tree, "a/b/small").unwrap();
    assert!(matches!(inode(&tree, "a/none"), Err(Error::NotFound)));
    assert!(matches!(
        inode(&tree, "a/b/small/x"),
        Err(Error::NotADirectory)
    ));
    assert!(matches!(listed(&tree, small), Err(Error::NotADirectory)));
    let target = tree.readlink(small, &mut scratch);
    assert!(matches!(target, Err(Error::NotASymlink)));
    let symlink = inode(&tree, "symlink").unwrap();
    let read = tree.read(symlink, 0, 1, &mut scratch);
    assert!(matches!(read, Err(Error::NoContent)));
    let read = tree.read(Inode::ROOT, 0, 1, &mut scratch);
    assert!(matches!(read, Err(Error::IsADirectory)));
    for unknown in [0, 2, 7, 1 << 33, u64::MAX] {
        assert!(tree.attr(Inode(unknown)).is_err(), "{unknown}");
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
    let tree = RomfsTree::open(Arc::new(bytes)).unwrap();
    let symlink = inode(&tree, "symlink").unwrap();
    let mut scratch = Scratch::default();
    let refused = tree.readlink(symlink, &mut scratch).unwrap_err();
    assert!(refused.is_about_content(), "{refused}");
    assert!(refused.to_string().contains("a NUL in it"), "{refused}");
}

#[test]
fn an_inode_has_a_path() {
    let tree = tree();
    let small = inode(&tree, "a/b/small").unwrap();
    let paths = Paths::new(&tree);
    assert_eq!(paths.get(small), Some("/a/b/small".into()));
    assert_eq!(paths.get(Inode::ROOT), Some("/".into()));
    assert_eq!(paths.get(Inode(3)), None);
}

/// Directories inside each other without end, with as many names as fit.
struct Endless;

impl Tree for Endless {
    fn attr(&self, inode: Inode) -> Result<Attr, Error> {
        Ok(Attr {
            inode,
            kind: FileKind::Directory,
            permissions: 0o755,
            size: 0,
        })
    }

    fn list(
        &self,
        directory: Inode,
        _: u64,
        add: &mut dyn FnMut(&OsStr, &Attr) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let attr = self.attr(Inode(directory.0 + 1))?;
        let _ = add(OsStr::new(&"n".repeat(127)), &attr);
        Ok(())
    }

    fn lookup(&self, _: Inode, _: &OsStr) -> Result<Attr, Error> {
        unreachable!("nobody asks")
    }

    fn read<'s>(&self, _: Inode, _: u64, _: usize, _: &'s mut Scratch) -> Result<&'s [u8], Error> {
        Err(Error::IsADirectory)
    }

    fn readlink<'s>(&self, _: Inode, _: &'s mut Scratch) -> Result<&'s [u8], Error> {
        Err(Error::NotASymlink)
    }

    fn usage(&self) -> Usage {
        unreachable!("nobody asks")
    }
}

#[test]
fn paths_are_looked_for_within_bounds() {
    let paths = Paths::new(&Endless);
    let name = "n".repeat(127);
    let second = PathBuf::from("/").join(&name).join(&name);
    assert_eq!(paths.get(Inode(3)), Some(second));
    // 31 names with their slashes are 3968 bytes, and 32 are too many.
    assert!(paths.get(Inode(32)).is_some());
    assert_eq!(paths.get(Inode(33)), None);
    assert_eq!(paths.get(Inode(1 << 20)), None);
}

#[test]
fn a_single_file_is_a_tree() {
    let bytes = noise(10_000, 2);
    let tree = SingleFile::new(OsStr::new("model.bin"), true, Arc::new(bytes.clone()));
    let attr = tree.lookup(Inode::ROOT, OsStr::new("model.bin")).unwrap();
    assert_eq!(
        (attr.kind, attr.permissions, attr.size),
        (FileKind::File, 0o755, 10_000)
    );
    assert_eq!(content(&tree, attr.inode, 3000), bytes);
    assert!(matches!(
        listed(&tree, attr.inode),
        Err(Error::NotADirectory)
    ));
    assert!(matches!(tree.attr(Inode(3)), Err(Error::NotFound)));
    assert!(matches!(
        tree.lookup(Inode::ROOT, OsStr::new("x")),
        Err(Error::NotFound)
    ));
}

#[test]
fn a_request_stays_inside_a_block() {
    let bytes = noise(10_000, 3);
    let counted = Arc::new(Counting::new(bytes.clone()));
    let blocks = Blocks::new(counted.clone(), BlockSize::try_from(1024).unwrap());
    let mut buf = vec![0; 5000];
    blocks.read_exact_at(&mut buf, 1000).unwrap();
    assert_eq!(buf, bytes[1000..6000]);
    // 24 bytes of the first block, four whole ones, and 880 bytes of the last.
    assert_eq!(counted.counts().requests, 6);
    assert!(blocks.read_exact_at(&mut buf, 5001).is_err());
}
