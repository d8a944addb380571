//! Finds the attributes of an inode that an image does not store.

use std::{fmt, fs::Metadata, io, os::fd::AsRawFd, os::unix::fs::MetadataExt};

use rustix::{
    buffer::spare_capacity,
    fs::{Mode, OFlags, SeekFrom, getxattr, listxattr, listxattr_query, open, seek},
    io::Errno,
};

use super::{Loss, acl, cursor::Found};
use crate::NodeKind;

/// `XATTR_LIST_MAX` and `XATTR_SIZE_MAX`: the most bytes of attribute names of a file, and of an
/// attribute's value.
const MAX_ATTRIBUTES: usize = 64 << 10;

/// The unit of [`Metadata::blocks`] in bytes.
const BLOCK: u64 = 512;

/// Looks for losses.
pub(super) struct Inspector {
    names: Vec<u8>,
    value: Vec<u8>,
}

impl Inspector {
    pub(super) fn new() -> Self {
        Self {
            names: Vec::with_capacity(MAX_ATTRIBUTES),
            value: Vec::with_capacity(MAX_ATTRIBUTES),
        }
    }

    /// Calls `lost` with each kind of loss and its details.
    pub(super) fn inspect(
        &mut self,
        found: &Found,
        kind: NodeKind,
        stored: u16,
        lost: &mut dyn FnMut(Loss, fmt::Arguments<'_>),
    ) -> io::Result<()> {
        let metadata = &found.metadata;
        if (metadata.mtime(), metadata.mtime_nsec()) != (0, 0) {
            lost(Loss::Times, format_args!(""));
        }
        let (uid, gid) = (metadata.uid(), metadata.gid());
        if (uid, gid) != (0, 0) {
            lost(Loss::Owners, format_args!("{uid}:{gid}"));
        }
        // Works with `O_PATH` descriptors, and independently of the name.
        let path = format!("/proc/self/fd/{}", found.file.as_raw_fd());
        let denied_by_list = self.attributes(&path, kind, lost)?;
        permissions(metadata, kind, stored, denied_by_list, lost);
        if kind == NodeKind::File && has_hole(metadata, &path)? {
            let blocks = metadata.blocks().saturating_mul(BLOCK);
            let len = metadata.len();
            lost(Loss::Holes, format_args!("{blocks} of {len} bytes stored"));
        }
        Ok(())
    }

    /// Inspects the extended attributes. Returns whether an access control list among them denies
    /// somebody reading.
    fn attributes(
        &mut self,
        path: &str,
        kind: NodeKind,
        lost: &mut dyn FnMut(Loss, fmt::Arguments<'_>),
    ) -> io::Result<bool> {
        // Most files have none, which this query shows without a buffer.
        match listxattr_query(path) {
            Ok(0) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(false),
            Ok(_) => {}
            Err(Errno::NOENT) => return Err(io::Error::other("/proc is not mounted")),
            Err(errno) => return Err(errno.into()),
        }
        self.names.clear();
        listxattr(path, spare_capacity(&mut self.names))?;
        let names = self.names.split(|byte| *byte == 0);
        let names = names.filter(|name| !name.is_empty());
        let (mut lists, mut others) = (0_usize, None);
        let mut denied = false;
        for name in names {
            match name {
                b"security.capability" => lost(Loss::Capabilities, format_args!("")),
                b"system.posix_acl_access" => {
                    self.value.clear();
                    getxattr(path, name, spare_capacity(&mut self.value))?;
                    denied = acl::denies(&self.value, needed(kind));
                    lists = lists.saturating_add(1);
                }
                b"system.posix_acl_default" | b"system.nfs4_acl" => {
                    lists = lists.saturating_add(1);
                }
                _ => others = others.or(Some(name)),
            }
        }
        if lists > 0 {
            lost(Loss::AccessLists, format_args!(""));
        }
        if let Some(name) = others {
            lost(
                Loss::Attributes,
                format_args!("{}", String::from_utf8_lossy(name)),
            );
        }
        Ok(denied)
    }
}

/// Compares the permission bits with those that are stored.
fn permissions(
    metadata: &Metadata,
    kind: NodeKind,
    stored: u16,
    denied_by_list: bool,
    lost: &mut dyn FnMut(Loss, fmt::Arguments<'_>),
) {
    if kind == NodeKind::Symlink {
        return;
    }
    let mode = metadata.mode() & 0o7777;
    let needed = needed(kind);
    let needed = (needed << 3) | needed;
    let change = |mode| format!("{mode:04o} becomes {stored:04o}");
    if mode & 0o7000 != 0 {
        lost(Loss::SpecialBits, format_args!("{mode:04o}"));
    }
    let mode = mode & 0o777;
    if denied_by_list || mode & needed != needed {
        lost(Loss::Privacy, format_args!("{}", change(mode)));
    } else if mode != u32::from(stored) {
        lost(Loss::Permissions, format_args!("{}", change(mode)));
    }
}

/// The rights, of read 4, write 2 and execute 1, that the image gives to everybody.
///
/// A user who can read a file can run a copy of it, so execute permission does not count. Write
/// permission has no effect in an image. Device nodes are accessible only to root there.
fn needed(kind: NodeKind) -> u32 {
    match kind {
        NodeKind::Directory => 5,
        NodeKind::File | NodeKind::Socket | NodeKind::Fifo => 4,
        NodeKind::Symlink | NodeKind::BlockDevice { .. } | NodeKind::CharDevice { .. } => 0,
    }
}

/// Whether a file has a hole. Less storage than bytes is not enough: the file may be compressed.
fn has_hole(metadata: &Metadata, path: &str) -> io::Result<bool> {
    if metadata.blocks().saturating_mul(BLOCK) >= metadata.len() {
        return Ok(false);
    }
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    match seek(&file, SeekFrom::Hole(0)) {
        Ok(hole) => Ok(hole < metadata.len()),
        // The file is empty by now, or its file system does not support holes.
        Err(Errno::NXIO | Errno::INVAL) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
