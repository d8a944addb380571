//! Random operations, through the mirror and on a second directory without it: each must have the same
//! result, and in the end both directories must be equal.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::{
        fd::OwnedFd,
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use arbtest::arbitrary::{self, Unstructured};
use rustix::{
    fs::{
        AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps,
        XattrFlags, chmodat, fallocate, ftruncate, getxattr, linkat, mkdirat, mknodat, openat,
        readlinkat, removexattr, renameat_with, setxattr, symlinkat, unlinkat, utimensat,
    },
    io::{Errno, pread, pwrite},
    process::geteuid,
    thread::CapabilitySet,
};
use verimount_bridge::{
    Attr, Caller, Entry, Mirror, Name, NodeId, OpenFile, SetAttr, SetTime, Time,
};
use verimount_testkit::{cases, random_cases, several, weighted};

use crate::support::{Bench, Process, ROOT, as_ordinary_user, new_file};

/// A name in the directory itself, or in one below it.
type Place = (Option<&'static str>, &'static str);

#[derive(Debug)]
enum Operation {
    Create(Place, u32),
    Mkdir(Place, u32),
    Fifo(Place, u32),
    Symlink(Place, &'static str),
    Link(Place, Place),
    Unlink(Place),
    Rmdir(Place),
    Rename(Place, Place, u32),
    Readlink(Place),
    Write(Place, u16, u8),
    Truncate(Place, u16),
    Reserve(Place, u16),
    Chmod(Place, u32),
    Touch(Place, i64),
    SetXattr(Place, u8),
    GetXattr(Place),
    RemoveXattr(Place),
    /// Only for the mirror: forgets a node, so that it is looked up again.
    Forget(Place),
}

fn any_place(u: &mut Unstructured<'_>) -> arbitrary::Result<Place> {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let directory = if u.arbitrary()? {
        Some(*u.choose(&NAMES)?)
    } else {
        None
    };
    Ok((directory, *u.choose(&NAMES)?))
}

/// Permissions with which the user who runs this can examine the result.
fn any_mode(u: &mut Unstructured<'_>) -> arbitrary::Result<u32> {
    u.choose(&[0o700, 0o744, 0o1777, 0o2755, 0o4711]).copied()
}

fn any_file_mode(u: &mut Unstructured<'_>) -> arbitrary::Result<u32> {
    if u.arbitrary()? {
        any_mode(u)
    } else {
        u.choose(&[0o400, 0o640]).copied()
    }
}

fn any_operation(u: &mut Unstructured<'_>) -> arbitrary::Result<Operation> {
    use Operation::*;
    let at = any_place(u)?;
    weighted(
        u,
        &[
            (6, &|u| Ok(Create(at, any_file_mode(u)?))),
            (6, &|u| Ok(Mkdir(at, any_mode(u)?))),
            (1, &|u| Ok(Fifo(at, any_mode(u)?))),
            (1, &|u| Ok(Symlink(at, u.choose(&["a", "/", "b/c"])?))),
            (2, &|u| Ok(Link(at, any_place(u)?))),
            (2, &|_| Ok(Unlink(at))),
            (2, &|_| Ok(Rmdir(at))),
            (4, &|u| {
                Ok(Rename(at, any_place(u)?, u.int_in_range(0..=2)?))
            }),
            (1, &|_| Ok(Readlink(at))),
            (4, &|u| Ok(Write(at, u.arbitrary()?, u.arbitrary()?))),
            (2, &|u| Ok(Truncate(at, u.arbitrary()?))),
            (1, &|u| Ok(Reserve(at, u.arbitrary()?))),
            (2, &|u| Ok(Chmod(at, any_mode(u)?))),
            (1, &|u| Ok(Touch(at, u.arbitrary::<i32>()?.into()))),
            (2, &|u| Ok(SetXattr(at, u.arbitrary()?))),
            (1, &|_| Ok(GetXattr(at))),
            (1, &|_| Ok(RemoveXattr(at))),
            (1, &|_| Ok(Forget(at))),
        ],
    )
}

/// The result of an operation, except what is compared in the end.
type Said = Result<Vec<u8>, Errno>;

const NONE: Said = Ok(Vec::new());

/// The directory without a mirror.
struct Plain(PathBuf);

impl Plain {
    fn parent(&self, (directory, _): Place) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = openat(CWD, &self.0, flags, Mode::empty())?;
        match directory {
            Some(name) => openat(root, name, flags, Mode::empty()),
            None => Ok(root),
        }
    }

    /// A path to the file itself, which is not followed.
    fn held(&self, at: Place) -> Result<(OwnedFd, String), Errno> {
        use std::os::fd::AsRawFd;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(self.parent(at)?, at.1, flags, Mode::empty())?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok((file, path))
    }

    fn open(&self, at: Place) -> Result<OwnedFd, Errno> {
        let (_held, path) = self.held(at)?;
        openat(CWD, path, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty())
    }

    fn apply(&self, operation: &Operation) -> Said {
        match *operation {
            Operation::Create(at, mode) => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
                openat(self.parent(at)?, at.1, flags, Mode::from_raw_mode(mode))?;
            }
            Operation::Mkdir(at, mode) => {
                mkdirat(self.parent(at)?, at.1, Mode::from_raw_mode(mode))?;
            }
            Operation::Fifo(at, mode) => {
                let mode = Mode::from_raw_mode(mode);
                mknodat(self.parent(at)?, at.1, FileType::Fifo, mode, 0)?;
            }
            Operation::Symlink(at, target) => symlinkat(target, self.parent(at)?, at.1)?,
            Operation::Link(from, to) => {
                let (_held, path) = self.held(from)?;
                let parent = self.parent(to)?;
                linkat(CWD, path, parent, to.1, AtFlags::SYMLINK_FOLLOW)?;
            }
            Operation::Unlink(at) => unlinkat(self.parent(at)?, at.1, AtFlags::empty())?,
            Operation::Rmdir(at) => unlinkat(self.parent(at)?, at.1, AtFlags::REMOVEDIR)?,
            Operation::Rename(from, to, flags) => {
                let (old, new) = (self.parent(from)?, self.parent(to)?);
                let flags = RenameFlags::from_bits_retain(flags);
                renameat_with(old, from.1, new, to.1, flags)?;
            }
            Operation::Readlink(at) => {
                let target = readlinkat(self.held(at)?.0, "", Vec::new())?;
                return Ok(target.into_bytes());
            }
            Operation::Write(at, offset, byte) => {
                pwrite(self.open(at)?, &[byte], offset.into())?;
            }
            Operation::Truncate(at, size) => ftruncate(self.open(at)?, size.into())?,
            Operation::Reserve(at, size) => {
                let len = u64::from(size) + 1;
                fallocate(self.open(at)?, FallocateFlags::empty(), 0, len)?;
            }
            Operation::Chmod(at, mode) => {
                let (_held, path) = self.held(at)?;
                chmodat(CWD, path, Mode::from_raw_mode(mode), AtFlags::empty())?;
            }
            Operation::Touch(at, seconds) => {
                let time = Timespec {
                    tv_sec: seconds,
                    tv_nsec: 5,
                };
                let times = Timestamps {
                    last_access: time,
                    last_modification: time,
                };
                let parent = self.parent(at)?;
                utimensat(parent, at.1, &times, AtFlags::SYMLINK_NOFOLLOW)?;
            }
            Operation::SetXattr(at, value) => {
                let (_held, path) = self.held(at)?;
                setxattr(path, "user.x", &[value], XattrFlags::empty())?;
            }
            Operation::GetXattr(at) => {
                let (_held, path) = self.held(at)?;
                let mut value = [0; 1];
                getxattr(path, "user.x", &mut value)?;
                return Ok(value.to_vec());
            }
            Operation::RemoveXattr(at) => {
                let (_held, path) = self.held(at)?;
                removexattr(path, "user.x")?;
            }
            Operation::Forget(_) => {}
        }
        NONE
    }
}

/// The directory with a mirror, and how often each node was looked up.
struct Mirrored<'a> {
    mirror: &'a Mirror,
    caller: Caller,
    lookups: BTreeMap<NodeId, u64>,
}

impl Mirrored<'_> {
    fn count(&mut self, entry: Entry) -> Entry {
        *self.lookups.entry(entry.node).or_default() += 1;
        entry
    }

    fn parent(&mut self, (directory, _): Place) -> Result<NodeId, Errno> {
        match directory {
            Some(name) => self.lookup(NodeId::ROOT, name),
            None => Ok(NodeId::ROOT),
        }
    }

    fn lookup(&mut self, parent: NodeId, name: &str) -> Result<NodeId, Errno> {
        let entry = self.mirror.lookup(parent, name.as_ref())?;
        Ok(self.count(entry).node)
    }

    fn node(&mut self, at: Place) -> Result<NodeId, Errno> {
        let parent = self.parent(at)?;
        self.lookup(parent, at.1)
    }

    fn open(&mut self, at: Place) -> Result<OpenFile, Errno> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        let node = self.node(at)?;
        self.mirror.open_file(node, flags)
    }

    fn change(&mut self, at: Place, changes: SetAttr) -> Result<(), Errno> {
        let node = self.node(at)?;
        let attr = self.mirror.setattr(self.caller, node, &changes, None)?;
        assert_eq!(self.mirror.getattr(node), Ok(attr));
        Ok(())
    }

    fn apply(&mut self, operation: &Operation) -> Said {
        let mirror = self.mirror;
        match *operation {
            Operation::Create(at, mode) => {
                let flags = OFlags::RDWR | OFlags::EXCL;
                let parent = self.parent(at)?;
                let made = mirror.create(parent, at.1.as_ref(), new_file(mode), flags)?;
                self.count(made.0);
            }
            Operation::Mkdir(at, mode) => {
                let parent = self.parent(at)?;
                let made = mirror.mkdir(parent, at.1.as_ref(), new_file(mode))?;
                self.count(made);
            }
            Operation::Fifo(at, mode) => {
                let (parent, device) = (self.parent(at)?, 0);
                let new = new_file(mode);
                let made = mirror.mknod(parent, at.1.as_ref(), new, FileType::Fifo, device)?;
                self.count(made);
            }
            Operation::Symlink(at, target) => {
                let parent = self.parent(at)?;
                let made = mirror.symlink(parent, at.1.as_ref(), target.as_ref(), self.caller)?;
                self.count(made);
            }
            Operation::Link(from, to) => {
                let (node, parent) = (self.node(from)?, self.parent(to)?);
                let made = mirror.link(self.caller, node, parent, to.1.as_ref())?;
                assert_eq!(self.count(made).node, node);
            }
            Operation::Unlink(at) => mirror.unlink(self.caller, self.parent(at)?, at.1.as_ref())?,
            Operation::Rmdir(at) => mirror.rmdir(self.caller, self.parent(at)?, at.1.as_ref())?,
            Operation::Rename(from, to, flags) => {
                let (old, new) = (self.parent(from)?, self.parent(to)?);
                let flags = RenameFlags::from_bits_retain(flags);
                mirror.rename(
                    self.caller,
                    (old, from.1.as_ref()),
                    (new, to.1.as_ref()),
                    flags,
                )?;
            }
            Operation::Readlink(at) => {
                let node = self.node(at)?;
                return Ok(mirror.readlink(node)?.into_encoded_bytes());
            }
            Operation::Write(at, offset, byte) => {
                pwrite(self.open(at)?.fd()?, &[byte], offset.into())?;
            }
            Operation::Truncate(at, size) => {
                let size = Some(size.into());
                let changes = SetAttr {
                    size,
                    ..SetAttr::default()
                };
                // The kernel knows what can be truncated, and does not ask for anything else.
                drop(self.open(at)?);
                self.change(at, changes)?;
            }
            Operation::Reserve(at, size) => {
                let file = self.open(at)?;
                let len = u64::from(size) + 1;
                mirror.fallocate(&file, FallocateFlags::empty(), 0, len)?;
            }
            Operation::Chmod(at, mode) => {
                let mode = Some(mode);
                self.change(
                    at,
                    SetAttr {
                        mode,
                        ..SetAttr::default()
                    },
                )?;
            }
            Operation::Touch(at, seconds) => {
                let time = Some(SetTime::At(Time {
                    seconds,
                    nanoseconds: 5,
                }));
                let changes = SetAttr {
                    atime: time,
                    mtime: time,
                    ..SetAttr::default()
                };
                self.change(at, changes)?;
            }
            Operation::SetXattr(at, value) => {
                let (node, flags) = (self.node(at)?, XattrFlags::empty());
                mirror.setxattr(self.caller, node, "user.x".as_ref(), &[value], flags)?;
            }
            Operation::GetXattr(at) => {
                let (node, mut value) = (self.node(at)?, [0; 1]);
                mirror.getxattr(node, "user.x".as_ref(), &mut value)?;
                return Ok(value.to_vec());
            }
            Operation::RemoveXattr(at) => {
                let node = self.node(at)?;
                mirror.removexattr(self.caller, node, "user.x".as_ref())?;
            }
            Operation::Forget(at) => {
                if let Ok(node) = self.node(at) {
                    let count = self.lookups.remove(&node).unwrap();
                    assert!(mirror.forget(node, count));
                }
            }
        }
        NONE
    }

    /// Lists everything below a directory, and compares it with what the system says of it.
    fn compare(&mut self, node: NodeId, path: &Path) {
        let directory = self.mirror.open_directory(node).unwrap();
        let mut entries = Vec::new();
        let mut add = |listed: Name<'_>, entry: Option<Entry>| {
            if let Some(entry) = entry {
                entries.push((listed.name.to_owned(), entry));
            }
            true
        };
        self.mirror.list(&directory, 0, true, &mut add).unwrap();
        assert_eq!(entries.len(), fs::read_dir(path).unwrap().count());
        // All before any is read: reading one name of a file changes the others' access time.
        for (name, entry) in &entries {
            self.count(*entry);
            assert_is(&entry.attr, &path.join(name));
            assert_eq!(self.mirror.getattr(entry.node), Ok(entry.attr));
        }
        for (name, entry) in entries {
            let path = path.join(name);
            if entry.attr.file_type() == FileType::Directory {
                self.compare(entry.node, &path);
            } else if entry.attr.file_type() == FileType::RegularFile {
                let file = self.mirror.open_file(entry.node, OFlags::RDONLY).unwrap();
                let mut content = vec![0; entry.attr.size as usize];
                pread(file.fd().unwrap(), &mut content, 0).unwrap();
                assert_eq!(content, fs::read(path).unwrap());
            }
        }
    }
}

/// Asserts that attributes equal the system's.
fn assert_is(attr: &Attr, path: &Path) {
    let found = fs::symlink_metadata(path).unwrap();
    assert_eq!(attr.ino, found.ino());
    assert_eq!(attr.mode, found.mode());
    assert_eq!(u64::from(attr.nlink), found.nlink());
    assert_eq!((attr.uid, attr.gid), (found.uid(), found.gid()));
    assert_eq!(attr.size, found.size());
    assert_eq!(attr.blocks, found.blocks());
    assert_eq!(u64::from(attr.blksize), found.blksize());
    for (time, seconds, nanoseconds) in [
        (attr.mtime, found.mtime(), found.mtime_nsec()),
        (attr.ctime, found.ctime(), found.ctime_nsec()),
    ] {
        assert_eq!(
            (time.seconds, i64::from(time.nanoseconds)),
            (seconds, nanoseconds)
        );
    }
}

/// The content of a directory, except what always differs between two directories.
fn contents(path: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(below) = pending.pop() {
        let found = fs::symlink_metadata(path.join(&below)).unwrap();
        let kind = found.file_type();
        let mut xattr = [0; 1];
        let at = path.join(&below);
        let content = match () {
            () if kind.is_dir() => {
                let names = fs::read_dir(&at).unwrap();
                pending.extend(names.map(|entry| below.join(entry.unwrap().file_name())));
                vec![]
            }
            () if kind.is_symlink() => fs::read_link(&at)
                .unwrap()
                .into_os_string()
                .into_encoded_bytes(),
            () if kind.is_fifo() => vec![],
            () => fs::read(&at).unwrap(),
        };
        let xattr = rustix::fs::lgetxattr(&at, OsStr::new("user.x"), &mut xattr).map(|_| xattr);
        let (mode, links) = (found.mode(), found.nlink());
        let time = Some(found.mtime()).filter(|_| found.mtime_nsec() == 5);
        let description = format!("{mode:o} {links} {time:?} {xattr:?} {content:?}");
        all.insert(below, description);
    }
    all
}

/// Runs the operations on both directories.
fn compare(caller: Caller, operations: &[Operation]) {
    let bench = Bench::new();
    bench.mirror.rights().prepare_thread().unwrap();
    let plain = Plain(bench.outside());
    let mut mirrored = Mirrored {
        mirror: &bench.mirror,
        caller,
        lookups: BTreeMap::new(),
    };
    for operation in operations {
        let said = mirrored.apply(operation);
        assert_eq!(said, plain.apply(operation), "{operation:?}");
    }
    assert_eq!(contents(&bench.source()), contents(&bench.outside()));
    mirrored.compare(NodeId::ROOT, &bench.source());
    for (node, count) in mirrored.lookups {
        assert!(bench.mirror.forget(node, count));
    }
    assert_eq!(bench.mirror.remembered(), 0);
}

#[test]
fn the_mirror_does_what_the_system_does() {
    cases(random_cases(256), 1024, |u| {
        let operations = several(u, 1..=79, any_operation)?;
        if geteuid().is_root() {
            // As the preparation of this thread takes it away.
            let capabilities = CapabilitySet::all().difference(CapabilitySet::FSETID);
            let root = Process::of(0, 0).with(capabilities);
            root.while_waiting(|caller| compare(caller, &operations));
        }
        as_ordinary_user(|| compare(ROOT, &operations));
        Ok(())
    });
}
