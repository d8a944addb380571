//! What a tree shows, as one value.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    ops::ControlFlow,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use verimount_source::Scratch;
use verimount_tree::{Attr, Cursor, Error, ExtentKind, FileType, NodeId, Tree, seek, walk};

/// All that a tree shows of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Everything but these.
    pub attr: Attr,
    /// Content or target.
    pub content: Vec<u8>,
    /// Extended attributes.
    pub xattrs: BTreeMap<OsString, Vec<u8>>,
}

/// All files but the root, by path.
pub fn everything(tree: &dyn Tree) -> Result<BTreeMap<PathBuf, Seen>, Error> {
    let mut files = BTreeMap::new();
    walk(tree, NodeId::ROOT, PathBuf::new(), |path, attr| {
        let seen = Seen {
            attr: *attr,
            content: content(tree, attr, 100_000)?,
            xattrs: xattrs(tree, attr.node)?,
        };
        files.insert(path.to_owned(), seen);
        Ok::<_, Error>(())
    })?;
    Ok(files)
}

/// The content of a file, read in pieces, or the target of a link.
pub fn content(tree: &dyn Tree, attr: &Attr, piece: usize) -> Result<Vec<u8>, Error> {
    let mut scratch = Scratch::default();
    let mut all = Vec::new();
    match attr.file_type {
        FileType::Symlink => all.extend(tree.readlink(attr.node, &mut scratch)?),
        FileType::RegularFile => loop {
            match tree.read(attr.node, all.len() as u64, piece, &mut scratch)? {
                [] => break,
                bytes => all.extend_from_slice(bytes),
            }
        },
        _ => {}
    }
    Ok(all)
}

fn xattrs(tree: &dyn Tree, node: NodeId) -> Result<BTreeMap<OsString, Vec<u8>>, Error> {
    let names = tree.xattr_names(node)?;
    let value = |name: &OsStr| Ok((name.to_owned(), tree.xattr(node, name)?));
    names.iter().map(value).collect()
}

/// Looks each file up by its path, and lists each directory from each of its entries on.
pub fn check_lookups(tree: &dyn Tree) {
    for (path, seen) in &everything(tree).unwrap() {
        let found = verimount_tree::resolve(tree, path).unwrap();
        assert_eq!(found, seen.attr.node, "{path:?}");
        if seen.attr.is_directory() {
            check_listing(tree, seen.attr.node);
        }
    }
    check_listing(tree, NodeId::ROOT);
}

fn check_listing(tree: &dyn Tree, directory: NodeId) {
    let names = |from| {
        let (mut names, mut cursors) = (Vec::new(), vec![from]);
        let listed = tree.list(directory, from, &mut |entry, next| {
            names.push(entry.name.to_owned());
            cursors.push(next);
            ControlFlow::Continue(())
        });
        listed.unwrap();
        (names, cursors)
    };
    let (all, cursors) = names(Cursor::START);
    let step = all.len() / 50 + 1;
    for (position, cursor) in cursors.into_iter().enumerate().step_by(step) {
        assert_eq!(names(cursor).0, all[position..]);
    }
    assert_eq!(names(Cursor::MAX).0, [""; 0]);
    for name in [".", "..", "", "no such name", "\u{ffff}"] {
        let missing = tree.lookup(directory, name.as_ref());
        assert!(matches!(missing, Err(Error::NotFound)), "{name}");
    }
}

/// The ranges of a file that are data, as `lseek` finds them.
pub fn data_ranges(tree: &dyn Tree, path: &str) -> Vec<(u64, u64)> {
    let node = verimount_tree::resolve(tree, Path::new(path)).unwrap();
    let mut ranges = Vec::new();
    let mut at = 0;
    loop {
        match seek(tree, node, ExtentKind::Data, at) {
            Ok(start) => {
                at = seek(tree, node, ExtentKind::Hole, start).unwrap();
                ranges.push((start, at));
            }
            Err(Error::PastEnd) => return ranges,
            Err(error) => panic!("{error}"),
        }
    }
}

/// A name of any bytes.
pub fn path(name: &[u8]) -> PathBuf {
    OsStr::from_bytes(name).into()
}
