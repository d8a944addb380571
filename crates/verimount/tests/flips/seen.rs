//! What a tree shows, and whether a damaged one shows nothing else.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use verimount_source::{ReadError, Scratch};
use verimount_tree::{Attr, Error, FileType, NodeId, Tree, resolve, walk};

/// How much of a file is read at a time, in bytes.
const PIECE: usize = 1 << 16;

/// What is shown of a file, besides its name.
pub(crate) struct Seen {
    attr: Attr,
    /// Content or target.
    content: Vec<u8>,
    xattrs: BTreeMap<OsString, Vec<u8>>,
}

/// All files, by path.
pub(crate) type Files = BTreeMap<PathBuf, Seen>;

/// Whether any read of a tree is refused. All others must give what is expected.
pub(crate) fn is_refused(tree: &dyn Tree, expected: &Files) -> bool {
    let mut refusals = 0;
    let mut check = |path: &Path, outcome: Result<bool, Error>| match outcome {
        Ok(is_right) => assert!(is_right, "{path:?}: something else is shown"),
        Err(error) => {
            let refusal = error.read_error();
            assert!(
                matches!(refusal, Some(ReadError::Rejected(_))),
                "{path:?}: {error}"
            );
            refusals += 1;
        }
    };
    let mut scratch = Scratch::default();
    for (path, seen) in expected {
        let node = seen.attr.node;
        check(path, resolve(tree, path).map(|found| found == node));
        check(path, tree.attr(node).map(|attr| attr == seen.attr));
        check(path, xattrs(tree, node).map(|xattrs| xattrs == seen.xattrs));
        match seen.attr.file_type {
            FileType::RegularFile => {
                for (number, piece) in (0..).zip(seen.content.chunks(PIECE)) {
                    let read = tree.read(node, number * PIECE as u64, PIECE, &mut scratch);
                    check(path, read.map(|bytes| bytes == piece));
                }
            }
            FileType::Symlink => {
                let target = tree.readlink(node, &mut scratch);
                check(path, target.map(|target| target == seen.content));
            }
            _ => {}
        }
    }
    let paths = paths(tree);
    check(
        Path::new(""),
        paths.map(|paths| paths.iter().eq(expected.keys())),
    );
    refusals > 0
}

/// The paths of all files, sorted.
fn paths(tree: &dyn Tree) -> Result<Vec<PathBuf>, Error> {
    let mut paths = vec![PathBuf::new()];
    walk(tree, NodeId::ROOT, PathBuf::new(), |path, _| {
        paths.push(path.to_owned());
        Ok::<_, Error>(())
    })?;
    paths.sort_unstable();
    Ok(paths)
}

pub(crate) fn everything(tree: &dyn Tree) -> Result<Files, Error> {
    let seen = |path: PathBuf| {
        let attr = tree.attr(resolve(tree, &path)?)?;
        let seen = Seen {
            attr,
            content: content(tree, &attr)?,
            xattrs: xattrs(tree, attr.node)?,
        };
        Ok((path, seen))
    };
    paths(tree)?.into_iter().map(seen).collect()
}

fn content(tree: &dyn Tree, attr: &Attr) -> Result<Vec<u8>, Error> {
    let mut scratch = Scratch::default();
    let content = match attr.file_type {
        FileType::RegularFile => {
            let size = attr.size as usize;
            tree.read(attr.node, 0, size, &mut scratch)?
        }
        FileType::Symlink => tree.readlink(attr.node, &mut scratch)?,
        _ => &[],
    };
    Ok(content.to_vec())
}

fn xattrs(tree: &dyn Tree, node: NodeId) -> Result<BTreeMap<OsString, Vec<u8>>, Error> {
    let names = tree.xattr_names(node)?;
    names
        .iter()
        .map(|name| Ok((name.to_owned(), tree.xattr(node, name)?)))
        .collect()
}
