use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use verimount_source::Scratch;
use verimount_tree::{Attr, Error, FileType, Tree, XattrNames};

/// All that an image tells of a file.
pub(super) struct Entry<'a> {
    pub(super) path: &'a Path,
    pub(super) attr: &'a Attr,
    /// The target of a symbolic link.
    pub(super) target: Option<OsString>,
    pub(super) xattrs: XattrNames,
}

impl<'a> Entry<'a> {
    pub(super) fn read(tree: &dyn Tree, path: &'a Path, attr: &'a Attr) -> Result<Self, Error> {
        let target = match attr.file_type {
            FileType::Symlink => {
                let mut scratch = Scratch::default();
                let target = tree.readlink(attr.node, &mut scratch)?;
                Some(OsStr::from_bytes(target).to_owned())
            }
            _ => None,
        };
        Ok(Self {
            path,
            attr,
            target,
            xattrs: tree.xattr_names(attr.node)?,
        })
    }

    /// Whether it is a device.
    pub(super) fn is_device(&self) -> bool {
        let file_type = self.attr.file_type;
        matches!(file_type, FileType::BlockDevice | FileType::CharDevice)
    }
}
