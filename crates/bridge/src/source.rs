use std::{
    ffi::OsString,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags, openat, readlink, statx},
    io::Errno,
    mount::{OpenTreeFlags, open_tree},
};
use verimount_sys::{FileHandle, seclude_mount};

use crate::{
    Attr, Restrictions, attr::attr, errno::errno, file_system::FileSystemKind, name::Name,
    node::FileId, reopen::PathTo,
};

/// The attributes requested of every file: all that identify and describe it.
const WANTED: StatxFlags = StatxFlags::BASIC_STATS
    .union(StatxFlags::BTIME)
    .union(StatxFlags::MNT_ID);

/// The lowest bit of an inode number that distinguishes devices: above the bits that inode numbers
/// use, and with room for the device numbers that file systems with several devices assign.
const DEVICE_SHIFT: u32 = 40;

/// The mirrored directory, held so that nothing outside is reachable.
///
/// For root it is a private clone of the directory's mount, whose root is the directory and in
/// which nothing is mounted. It shows the directories under mount points, not the mounts. Its
/// symbolic links are not followed, and its devices cannot be opened.
///
/// For an ordinary user it is the directory itself, and mounts below it are refused.
#[derive(Debug)]
pub(crate) struct Source {
    /// The directory itself.
    pub(crate) root: Arc<OwnedFd>,
    /// Keeps the clone alive: it is unmounted when this is closed.
    clone: Option<OwnedFd>,
    /// The mount that all files of the mirror are on.
    mount_id: u64,
    /// The directory's device. One mount can have several: btrfs has one for each subvolume,
    /// overlayfs one for each layer.
    device: u64,
    /// Whether files can be found again by their handles.
    pub(crate) has_handles: bool,
    /// The kind of file system that the directory is on.
    pub(crate) file_system: FileSystemKind,
    /// What the directory's mount does not allow.
    pub(crate) restrictions: Restrictions,
}

impl Source {
    /// Opens a directory.
    pub(crate) fn open(path: &Path, read_only: bool) -> Result<Self, Errno> {
        let cloned = clone_mount(path, read_only).ok();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = match &cloned {
            Some((clone, _)) => openat(clone, c".", flags, Mode::empty())?,
            None => openat(CWD, path, flags, Mode::empty())?,
        };
        let (clone, restrictions) = match cloned {
            Some((clone, restrictions)) => (Some(clone), restrictions),
            None => (None, Restrictions::of(&root)?),
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
            restrictions,
        })
    }

    /// Whether mounts below the directory are visible, and refused.
    pub(crate) fn meets_mounts(&self) -> bool {
        self.clone.is_none()
    }

    /// Identity and attributes of the file at a name.
    pub(crate) fn examine(
        &self,
        directory: BorrowedFd<'_>,
        name: Name<'_>,
    ) -> Result<(FileId, Attr), Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        self.checked(&statx(directory, name.as_os_str(), flags, WANTED)?)
    }

    /// Identity and attributes of a descriptor's file.
    pub(crate) fn examine_open(&self, file: impl AsFd) -> Result<(FileId, Attr), Errno> {
        self.checked(&statx(file, c"", AtFlags::EMPTY_PATH, WANTED)?)
    }

    /// Opens the file at a name with `O_PATH`, without following symbolic links.
    pub(crate) fn hold(
        &self,
        directory: BorrowedFd<'_>,
        name: Name<'_>,
    ) -> Result<(OwnedFd, FileId), Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.identified(openat(directory, name.as_os_str(), flags, Mode::empty())?)
    }

    /// Opens the file of a handle with `O_PATH`.
    pub(crate) fn hold_by_handle(&self, handle: &FileHandle) -> Result<(OwnedFd, FileId), Errno> {
        let held = handle.open(&*self.root, OFlags::PATH.bits() as i32);
        self.identified(held.map_err(|error| errno(&error))?)
    }

    /// The path below the source by which the system knows a descriptor's file now; `None` if it is
    /// outside or has none. Not empty.
    ///
    /// A directory has one path. For another file it may be any of its names, or one that it has lost.
    ///
    /// # Errors
    /// `ENAMETOOLONG` if it does not fit into a page.
    pub(crate) fn path_of(&self, file: &OwnedFd) -> Result<Option<PathBuf>, Errno> {
        let root = match &self.clone {
            // The system names no place of a mount that is nowhere mounted.
            Some(_) => PathBuf::from("/"),
            None => path_of(&self.root)?,
        };
        let path = path_of(file)?;
        let below = path.strip_prefix(root).ok();
        let below = below.filter(|below| !below.as_os_str().is_empty());
        Ok(below.map(Path::to_owned))
    }

    /// Whether a path below the source leads to this file.
    pub(crate) fn leads_to(&self, path: &Path, file: FileId) -> bool {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let found = statx(&*self.root, path, flags, WANTED);
        found.is_ok_and(|found| FileId::from(&found) == file)
    }

    fn identified(&self, held: OwnedFd) -> Result<(OwnedFd, FileId), Errno> {
        let (file, _) = self.examine_open(&held)?;
        Ok((held, file))
    }

    fn checked(&self, found: &Statx) -> Result<(FileId, Attr), Errno> {
        if found.stx_mnt_id != self.mount_id {
            return Err(Errno::XDEV);
        }
        let (file, mut attr) = (FileId::from(found), attr(found));
        // The mirror is one device, on which two files must not have the same inode number.
        attr.ino ^= (file.device ^ self.device) << DEVICE_SHIFT;
        Ok((file, attr))
    }
}

fn path_of(file: &OwnedFd) -> Result<PathBuf, Errno> {
    let path = readlink(&*PathTo::new(file), Vec::new())?;
    Ok(OsString::from_vec(path.into_bytes()).into())
}

/// The private clone of the mount that a directory is on, and the restrictions of the original.
fn clone_mount(path: &Path, read_only: bool) -> Result<(OwnedFd, Restrictions), Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let clone = open_tree(CWD, path, flags)?;
    // Before it gets its own.
    let restrictions = Restrictions::of(&clone)?;
    seclude_mount(&clone, read_only).map_err(|error| errno(&error))?;
    Ok((clone, restrictions))
}
