use std::{
    cell::OnceCell,
    ffi::OsStr,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::OFlags,
    io::{Errno, pread},
};

use verimount_sys::measure_verity;
use verimount_verity::{Digest, FileDigest, HashAlgorithm};

use crate::{
    Attr, Caller, Mirror, NodeId,
    errno::errno,
    file_system::FileSystemKind,
    policy::{Access, Facts},
};

/// The longest value of an extended attribute, in bytes.
const MAX_XATTR_LEN: usize = 64 << 10;

/// The facts about an open of a mirror's file. Each is determined on first use, and then kept.
pub(crate) struct OpenFacts<'a> {
    mirror: &'a Mirror,
    subject: Subject<'a>,
    caller: Caller,
    access: Access,
    /// All paths by which the file is known.
    paths: OnceCell<Vec<PathBuf>>,
    /// The index of the one that the policy is asked about.
    asked: usize,
    attr: OnceCell<Attr>,
    file: OnceCell<OwnedFd>,
    /// Whether the operation must wait for nothing but storage.
    at_once: bool,
}

/// The file that is opened.
#[derive(Clone, Copy)]
enum Subject<'a> {
    File(NodeId),
    /// One that is being created with this name in a directory: it is empty, and belongs to its creator.
    New(NodeId, &'a OsStr),
}

impl<'a> OpenFacts<'a> {
    pub(crate) fn new(mirror: &'a Mirror, node: NodeId, caller: Caller, access: Access) -> Self {
        Self::of(mirror, Subject::File(node), caller, access)
    }

    /// Those of creating a file.
    pub(crate) fn creating(
        mirror: &'a Mirror,
        parent: NodeId,
        name: &'a OsStr,
        caller: Caller,
    ) -> Self {
        Self::of(mirror, Subject::New(parent, name), caller, Access::Write)
    }

    fn of(mirror: &'a Mirror, subject: Subject<'a>, caller: Caller, access: Access) -> Self {
        Self {
            mirror,
            subject,
            caller,
            access,
            paths: OnceCell::new(),
            asked: 0,
            attr: OnceCell::new(),
            file: OnceCell::new(),
            at_once: false,
        }
    }

    /// Makes these the facts of an operation on names, with the path that the file will have. It fails with `EBUSY`
    /// instead of waiting for a lease on the file, since other operations wait for this one.
    pub(crate) fn at(mut self, path: PathBuf) -> Self {
        self.paths = OnceCell::from(vec![path]);
        self.at_once = true;
        self
    }

    /// Goes on to another path of the file. Returns whether there is one; and false if the policy does not
    /// depend on paths.
    pub(crate) fn next_path(&mut self) -> bool {
        let known = self.paths.get().map_or(0, Vec::len);
        let has_next = self.asked + 1 < known;
        self.asked += usize::from(has_next);
        has_next
    }

    fn attr(&self) -> Result<&Attr, Errno> {
        let Caller { uid, gid, .. } = self.caller;
        once(&self.attr, || match self.subject {
            Subject::File(node) => self.mirror.getattr(node),
            Subject::New(..) => Ok(Attr {
                uid,
                gid,
                ..Attr::default()
            }),
        })
    }

    /// The file, opened for reading; `None` if it is being created.
    fn file(&self) -> Result<Option<&OwnedFd>, Errno> {
        let Subject::File(node) = self.subject else {
            return Ok(None);
        };
        let file = once(&self.file, || {
            let mut flags = OFlags::RDONLY;
            flags.set(OFlags::NONBLOCK, self.at_once);
            match self.mirror.reopen(node, flags) {
                Err(Errno::AGAIN) if self.at_once => Err(Errno::BUSY),
                opened => opened,
            }
        });
        file.map(Some)
    }
}

impl Facts for OpenFacts<'_> {
    fn access(&self) -> Access {
        self.access
    }

    fn caller(&self) -> Caller {
        self.caller
    }

    fn path(&self) -> Result<&Path, Errno> {
        let paths = once(&self.paths, || match self.subject {
            Subject::File(node) => self.mirror.file_paths(node),
            Subject::New(parent, name) => Ok(vec![self.mirror.directory_path(parent)?.join(name)]),
        })?;
        let asked = paths.get(self.asked).ok_or(Errno::STALE)?;
        Ok(asked.as_path())
    }

    fn size(&self) -> Result<u64, Errno> {
        self.attr().map(|attr| attr.size)
    }

    fn owner(&self) -> Result<(u32, u32), Errno> {
        self.attr().map(|attr| (attr.uid, attr.gid))
    }

    fn content(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, Errno> {
        let Some(file) = self.file()? else {
            return Ok(0);
        };
        let mut done = 0;
        while done < bytes.len() {
            match pread(file, &mut bytes[done..], offset + done as u64)? {
                0 => break,
                len => done += len,
            }
        }
        Ok(done)
    }

    fn xattr(&self, name: &OsStr) -> Result<Option<Vec<u8>>, Errno> {
        let Subject::File(node) = self.subject else {
            return Ok(None);
        };
        let mut value = vec![0; MAX_XATTR_LEN];
        match self.mirror.getxattr(node, name, &mut value) {
            Ok(len) => {
                value.truncate(len);
                Ok(Some(value))
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    fn verity_digest(&self) -> Result<Option<FileDigest>, Errno> {
        let Some(file) = self.file()? else {
            return Ok(None);
        };
        // On FUSE, a process answers, and the kernel verifies nothing.
        if FileSystemKind::of(file)?.is_answered_by_a_process() {
            return Ok(None);
        }
        let measured = measure_verity(file).map_err(|error| errno(&error))?;
        Ok(measured.and_then(|(number, bytes)| {
            let algorithm = HashAlgorithm::from_number(u8::try_from(number).ok()?)?;
            Digest::new(algorithm, &bytes).map(FileDigest::from)
        }))
    }
}

/// The value of a cell, determined by `find` on first use.
fn once<T>(cell: &OnceCell<T>, find: impl FnOnce() -> Result<T, Errno>) -> Result<&T, Errno> {
    match cell.get() {
        Some(found) => Ok(found),
        None => {
            let found = find()?;
            Ok(cell.get_or_init(|| found))
        }
    }
}
