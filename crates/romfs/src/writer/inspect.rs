//! Finding out what of a file, directory or other node its image does not keep.

use std::{fmt, fs::Metadata, io, os::fd::AsRawFd, os::unix::fs::MetadataExt};

use rustix::{
    buffer::spare_capacity,
    fs::{Mode, OFlags, SeekFrom, getxattr, listxattr, listxattr_query, open, seek},
    io::Errno,
};

use super::{Loss, acl, cursor::Found};
use crate::NodeKind;

/// `XATTR_LIST_MAX` and `XATTR_SIZE_MAX`: Linux has no more names of attributes for a file, in
/// bytes, nor longer values.
const MAX_ATTRIBUTES: usize = 64 << 10;

/// Bytes of a block of [`Metadata::blocks`].
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

    /// Tells `lost` of each kind of what is lost, with what it is.
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
        // Neither the path nor a descriptor for reading is needed to ask about it.
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

    /// Looks at the extended attributes. Whether an access control list among them keeps somebody
    /// from reading.
    fn attributes(
        &mut self,
        path: &str,
        kind: NodeKind,
        lost: &mut dyn FnMut(Loss, fmt::Arguments<'_>),
    ) -> io::Result<bool> {
        // Most files have none, which is told without memory to put them into.
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
/// Who may read a file may also run a copy of it, so that its executable bits keep nobody from
/// anything; write permission gives nothing in an image. A device's file is only root's there.
fn needed(kind: NodeKind) -> u32 {
    match kind {
        NodeKind::Directory => 5,
        NodeKind::File | NodeKind::Socket | NodeKind::Fifo => 4,
        NodeKind::Symlink | NodeKind::BlockDevice { .. } | NodeKind::CharDevice { .. } => 0,
    }
}

/// Whether a file has a hole. That it takes less storage than it has bytes is not enough: it may
/// be compressed.
fn has_hole(metadata: &Metadata, path: &str) -> io::Result<bool> {
    if metadata.blocks().saturating_mul(BLOCK) >= metadata.len() {
        return Ok(false);
    }
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    match seek(&file, SeekFrom::Hole(0)) {
        Ok(hole) => Ok(hole < metadata.len()),
        // It is empty by now, or its file system knows of no holes.
        Err(Errno::NXIO | Errno::INVAL) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
