use std::{collections::BTreeMap, ops::ControlFlow, path::Path, path::PathBuf};

use anyhow::Result;
use verimount_scan::{Contents, Entry, InodeKind, Options, SourceTree, scan};

/// What is compared of a tree.
pub(crate) type Tree = BTreeMap<PathBuf, Found>;

/// What has a path.
#[derive(Debug, PartialEq)]
pub(crate) struct Found {
    kind: Kind,
    /// Permissions, owner, group and time, where all programs keep them.
    attributes: Option<(u16, u32, u32, (i64, u32))>,
}

#[derive(Debug, PartialEq)]
enum Kind {
    Directory,
    File(Vec<u8>),
    /// A further name of what has this path.
    HardLink(PathBuf),
    Symlink(Vec<u8>),
    Other(&'static str),
}

/// The tree in a directory.
pub(crate) fn of_directory(directory: &Path) -> Result<Tree> {
    let go_on = &mut |_| ControlFlow::Continue(());
    compared(&scan(directory, &Options::default(), go_on)?)
}

/// All of a tree that is compared.
pub(crate) fn compared(tree: &SourceTree) -> Result<Tree> {
    let mut contents = Contents::new(tree)?;
    let below_root = tree.entries().skip(1);
    below_root
        .map(|entry| {
            let kind = match (&entry.inode().kind, entry.is_first_name()) {
                (InodeKind::Directory(_), _) => Kind::Directory,
                (_, false) => {
                    let first = tree.entry(entry.inode().first_name);
                    Kind::HardLink(first.path_inside())
                }
                (InodeKind::File(data), true) => {
                    let mut bytes = vec![0; data.size() as usize];
                    let content = contents.open(entry.id())?;
                    content.read_exact_at(&mut bytes, 0)?;
                    Kind::File(bytes)
                }
                (InodeKind::Symlink(target), true) => Kind::Symlink(target.to_vec()),
                (InodeKind::Fifo, true) => Kind::Other("pipe"),
                (_, true) => Kind::Other("something else"),
            };
            let attributes = attributes(entry);
            Ok((entry.path_inside(), Found { kind, attributes }))
        })
        .collect()
}

/// Some programs give a file the attributes of its further names. They make links at another time than the archive says, and
/// directories that only occur in paths as they like; those of members never belong to root.
fn attributes(entry: Entry<'_>) -> Option<(u16, u32, u32, (i64, u32))> {
    let inode = entry.inode();
    let time = (inode.mtime.seconds(), inode.mtime.nanoseconds());
    match inode.kind {
        _ if inode.names > 1 => None,
        InodeKind::Symlink(_) => Some((0, inode.owner.uid, inode.owner.gid, (0, 0))),
        InodeKind::Directory(_) if inode.owner.uid == 0 => None,
        _ => Some((
            inode.permissions.bits(),
            inode.owner.uid,
            inode.owner.gid,
            time,
        )),
    }
}
