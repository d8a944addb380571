use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::Arc,
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags, openat, statx},
    io::Errno,
    mount::{OpenTreeFlags, open_tree},
};
use verimount_sys::{FileHandle, seclude_mount};

use crate::{Attr, errno::errno, file_system::FileSystemKind, name::Name, node::FileId};

/// What is asked of every file: all that it takes to tell it from others and to describe it.
const WANTED: StatxFlags = StatxFlags::BASIC_STATS
    .union(StatxFlags::BTIME)
    .union(StatxFlags::MNT_ID);

/// Which bits of an inode number tell devices apart: above those that inode numbers need, and with
/// room for the device numbers that are given out where a file system has several.
const DEVICE_SHIFT: u32 = 40;

/// The directory that is mirrored, held so that nothing leads out of it.
///
/// As root it is a clone of the mount that the directory is on, which begins at the directory and
/// in which nothing is mounted. What is mounted below the directory elsewhere is not seen; what
/// lies under it is. No symbolic link in the clone can be followed and no device in it opened.
///
/// As an ordinary user it is the directory itself, and what is mounted below it is refused.
#[derive(Debug)]
pub(crate) struct Source {
    root: Arc<OwnedFd>,
    /// Keeps the clone attached to its files: it dissolves when this is closed.
    clone: Option<OwnedFd>,
    /// All files of the mirror are on this mount.
    mount_id: u64,
    /// The directory's device. Files on one mount can be on several: btrfs has one for each
    /// subvolume, overlayfs one for each layer.
    device: u64,
    has_handles: bool,
    file_system: FileSystemKind,
}

impl Source {
    /// Takes hold of a directory.
    pub(crate) fn open(path: &Path, read_only: bool) -> Result<Self, Errno> {
        let clone = clone_mount(path, read_only).ok();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = match &clone {
            Some(clone) => openat(clone, c".", flags, Mode::empty())?,
            None => openat(CWD, path, flags, Mode::empty())?,
        };
        let found = statx(&root, c"", AtFlags::EMPTY_PATH, WANTED)?;
        if found.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
            return Err(Errno::OPNOTSUPP);
        }
        let FileId { device, .. } = (&found).into();
        let handle = FileHandle::of(&root);
        let opened = handle.and_then(|handle| handle.open(&root, OFlags::PATH.bits() as i32));
        let file_system = FileSystemKind::of(&root)?;
        Ok(Self {
            root: Arc::new(root),
            clone,
            mount_id: found.stx_mnt_id,
            device,
            has_handles: opened.is_ok(),
            file_system,
        })
    }

    /// The directory itself.
    pub(crate) fn root(&self) -> &Arc<OwnedFd> {
        &self.root
    }

    /// Whether what is mounted below the directory is met there, and refused.
    pub(crate) fn meets_mounts(&self) -> bool {
        self.clone.is_none()
    }

    /// Whether files can be found again by their handles.
    pub(crate) fn has_handles(&self) -> bool {
        self.has_handles
    }

    /// The kind of file system that the directory is on.
    pub(crate) fn file_system(&self) -> FileSystemKind {
        self.file_system
    }

    /// What is at a name.
    pub(crate) fn examine(
        &self,
        directory: BorrowedFd<'_>,
        name: Name<'_>,
    ) -> Result<(FileId, Attr), Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        self.checked(&statx(directory, name.as_os_str(), flags, WANTED)?)
    }

    /// What a descriptor is of.
    pub(crate) fn examine_open(&self, file: impl AsFd) -> Result<(FileId, Attr), Errno> {
        self.checked(&statx(file, c"", AtFlags::EMPTY_PATH, WANTED)?)
    }

    /// Opens what is at a name as a path only, without following where it may lead.
    pub(crate) fn hold(
        &self,
        directory: BorrowedFd<'_>,
        name: Name<'_>,
    ) -> Result<(OwnedFd, FileId), Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.identified(openat(directory, name.as_os_str(), flags, Mode::empty())?)
    }

    /// Opens the file of a handle as a path only.
    pub(crate) fn hold_by_handle(&self, handle: &FileHandle) -> Result<(OwnedFd, FileId), Errno> {
        let held = handle.open(&*self.root, OFlags::PATH.bits() as i32);
        self.identified(held.map_err(|error| errno(&error))?)
    }

    fn identified(&self, held: OwnedFd) -> Result<(OwnedFd, FileId), Errno> {
        let (file, _) = self.examine_open(&held)?;
        Ok((held, file))
    }

    fn checked(&self, found: &Statx) -> Result<(FileId, Attr), Errno> {
        if found.stx_mnt_id != self.mount_id {
            return Err(Errno::XDEV);
        }
        let (file, mut attr): (FileId, Attr) = (found.into(), found.into());
        // The mirror is one device. There, two files with one inode number would be taken for one.
        attr.inode ^= (file.device ^ self.device) << DEVICE_SHIFT;
        Ok((file, attr))
    }
}

fn clone_mount(path: &Path, read_only: bool) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let clone = open_tree(CWD, path, flags)?;
    seclude_mount(&clone, read_only).map_err(|error| errno(&error))?;
    Ok(clone)
}
