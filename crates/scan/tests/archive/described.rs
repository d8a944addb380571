//! A scanned tree as plain data.

use std::ops::Range;

use verimount_scan::{Contents, InodeKind, SourceTree};

/// All that an image has of an entry.
#[derive(Debug, PartialEq)]
pub(crate) struct Described {
    pub(crate) path: String,
    /// The number of the inode and of its names, permissions, owner, group.
    inode: (usize, u32, u16, u32, u32),
    time: (i64, u32),
    pub(crate) kind: String,
    stored: Option<Vec<Range<u64>>>,
    pub(crate) content: Vec<u8>,
    pub(crate) attributes: Vec<(String, Vec<u8>)>,
}

pub(crate) fn described(tree: &SourceTree) -> Vec<Described> {
    let mut contents = Contents::new(tree).unwrap();
    let entries = tree.entries().map(|entry| {
        let inode = entry.inode();
        let mut content = Vec::new();
        let mut stored = None;
        let kind = match &inode.kind {
            InodeKind::File(data) => {
                content.resize(data.size() as usize, 0);
                let opened = contents.open(entry.id()).unwrap();
                opened.read_exact_at(&mut content, 0).unwrap();
                opened.finish().unwrap();
                stored = data.stored.as_deref().map(<[_]>::to_vec);
                "file".to_owned()
            }
            InodeKind::Directory(_) => "directory".to_owned(),
            other => format!("{other:?}"),
        };
        let attributes = tree.xattrs().set(inode.attributes);
        Described {
            path: entry.path_inside().to_str().unwrap().to_owned(),
            inode: (
                entry.inode_id().index(),
                inode.names,
                inode.permissions.bits(),
                inode.owner.uid,
                inode.owner.gid,
            ),
            time: (inode.mtime.seconds(), inode.mtime.nanoseconds()),
            kind,
            stored,
            content,
            attributes: attributes
                .map(|(_, xattr)| {
                    let name = String::from_utf8(xattr.name.to_vec()).unwrap();
                    (name, xattr.value.to_vec())
                })
                .collect(),
        }
    });
    entries.collect()
}
