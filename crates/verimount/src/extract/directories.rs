//! The directories that are made. They are found by their names from the first one, and recognised: if
//! others move or replace one, that is an error, and nothing is written elsewhere.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Dir, Mode, OFlags, fchmod, fgetxattr, fremovexattr, mkdir, mkdirat, open, openat},
    io::Errno,
};
use verimount_source::FileId;
use verimount_tree::{ACCESS_LIST, DEFAULT_ACCESS_LIST, NodeId};

use super::was_replaced;
use crate::{
    Error,
    fault::{ContentFault, Fault},
};

/// One of [`Directories`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirectoryIndex(usize);

impl DirectoryIndex {
    const ROOT: Self = Self(0);
}

/// All directories of the tree so far. However many there are and however deep, few are open.
pub(super) struct Directories {
    /// Each after the one that it is in; the target itself is the first.
    made: Vec<Made>,
    root: File,
    /// The one in which files are made.
    current: File,
    /// The current one behind all that it is in.
    path: Vec<DirectoryIndex>,
    mode: Mode,
}

struct Made {
    parent: DirectoryIndex,
    name: Box<OsStr>,
    node: NodeId,
    id: FileId,
}

impl Directories {
    /// Opens the target, which is made if it does not exist, and must be empty. If `private`, only the caller
    /// has access to it and to all directories in it.
    pub(super) fn open(target: &Path, private: bool) -> Result<Self, Error> {
        let io = |error: io::Error| ContentFault::io(target, error);
        let mode = if private {
            Mode::RWXU
        } else {
            Mode::RWXU | Mode::RWXG | Mode::RWXO
        };
        match mkdir(target, mode) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(io(error.into())),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(target, flags, Mode::empty()).map(File::from);
        let root = root.map_err(|error| io(error.into()))?;
        if !is_empty(&root).map_err(io)? {
            return Err(Fault::NotEmpty.at(target));
        }
        if private {
            make_private(&root).map_err(io)?;
        }
        let current = root.try_clone().map_err(io)?;
        let id = FileId::of(&root.metadata().map_err(io)?);
        let first = Made {
            parent: DirectoryIndex::ROOT,
            name: OsStr::new(".").into(),
            node: NodeId::ROOT,
            id,
        };
        Ok(Self {
            made: vec![first],
            root,
            current,
            path: vec![DirectoryIndex::ROOT],
            mode,
        })
    }

    /// Goes back to the directory that the next file of a walk is in: its path has `depth` names.
    pub(super) fn enter(&mut self, depth: usize) -> io::Result<()> {
        if depth < self.path.len() {
            self.path.truncate(depth);
            self.current = self.reopen(self.current_index())?;
        }
        Ok(())
    }

    /// Makes a directory in the current one, and enters it.
    pub(super) fn make(&mut self, name: &OsStr, node: NodeId) -> io::Result<()> {
        mkdirat(&self.current, name, self.mode)?;
        let directory = open_in(&self.current, name)?;
        self.path.push(DirectoryIndex(self.made.len()));
        self.made.push(Made {
            parent: self.path[self.path.len() - 2],
            name: name.into(),
            node,
            id: FileId::of(&directory.metadata()?),
        });
        self.current = directory;
        Ok(())
    }

    pub(super) fn current(&self) -> BorrowedFd<'_> {
        self.current.as_fd()
    }

    pub(super) fn current_index(&self) -> DirectoryIndex {
        self.path.last().copied().unwrap_or(DirectoryIndex::ROOT)
    }

    /// Opens a directory that was made before.
    pub(super) fn reopen(&self, index: DirectoryIndex) -> io::Result<File> {
        let mut directory = self.root.try_clone()?;
        for name in self.names(index) {
            directory = open_in(&directory, name)?;
        }
        if FileId::of(&directory.metadata()?) == self.made[index.0].id {
            Ok(directory)
        } else {
            Err(was_replaced())
        }
    }

    /// All, and each before the one that it is in.
    pub(super) fn inner_first(&self) -> impl Iterator<Item = DirectoryIndex> + use<> {
        (0..self.made.len()).rev().map(DirectoryIndex)
    }

    pub(super) fn node(&self, index: DirectoryIndex) -> NodeId {
        self.made[index.0].node
    }

    /// The path from the target; `.` for the target.
    pub(super) fn path(&self, index: DirectoryIndex) -> PathBuf {
        match index {
            DirectoryIndex::ROOT => PathBuf::from("."),
            _ => self.names(index).into_iter().collect(),
        }
    }

    /// The names on the path from the target.
    fn names(&self, index: DirectoryIndex) -> Vec<&OsStr> {
        let mut names = Vec::new();
        let mut index = index;
        while index != DirectoryIndex::ROOT {
            let made = &self.made[index.0];
            names.push(&*made.name);
            index = made.parent;
        }
        names.reverse();
        names
    }
}

fn open_in(directory: impl AsFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(directory, name, flags, Mode::empty())?.into())
}

fn is_empty(directory: &File) -> io::Result<bool> {
    for entry in Dir::read_from(directory)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Denies others access, and removes the access control list that new files would inherit.
fn make_private(directory: &File) -> io::Result<()> {
    match fchmod(directory, Mode::RWXU) {
        // It is somebody else's, where the caller may only make files.
        Ok(()) | Err(Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    for list in [ACCESS_LIST, DEFAULT_ACCESS_LIST] {
        match fgetxattr(directory, list, &mut [0_u8; 0][..]) {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            _ => fremovexattr(directory, list)?,
        }
    }
    Ok(())
}
