//! A directory and its mirror.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::mpsc::channel,
    thread,
};

use rustix::{
    io::Errno,
    process::Gid,
    thread::{
        CapabilitiesSecureBits, CapabilitySet, capabilities, capabilities_secure_bits, gettid,
        set_capabilities, set_capabilities_secure_bits, set_thread_groups,
    },
};
use verimount_bridge::{Caller, Entry, Mirror, MirrorOptions, NewFile, NodeId};
use verimount_sys::{set_thread_fs_gid, set_thread_fs_uid};
use verimount_testkit::skip;

/// Root.
pub(crate) const ROOT: Caller = Caller {
    uid: 0,
    gid: 0,
    pid: 1,
    request: 0,
};

/// A new file with all requested permissions.
pub(crate) fn new_file(mode: u32) -> NewFile {
    NewFile {
        caller: ROOT,
        mode,
        umask: 0,
    }
}

/// Sets permissions as root. A thread that has changed a mirror is without `CAP_FSETID` and without groups, so
/// that it would lose a set-group-id bit here, too.
pub(crate) fn set_mode(path: &Path, mode: u32) {
    thread::scope(|scope| {
        scope.spawn(|| {
            let root = Process::of(0, 0).with(CapabilitySet::FOWNER | CapabilitySet::FSETID);
            root.assume();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        });
    });
    assert_eq!(fs::metadata(path).unwrap().mode() & 0o7777, mode);
}

/// A directory, its mirror, and a directory beside it that must never be reached.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) mirror: Mirror,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(MirrorOptions::default())
    }

    pub(crate) fn with(options: MirrorOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("source")).unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        let mirror = Mirror::open(&folder.path().join("source"), options).unwrap();
        Self { folder, mirror }
    }

    /// The path of the mirrored directory.
    pub(crate) fn source(&self) -> PathBuf {
        self.folder.path().join("source")
    }

    /// The path of a directory outside of it.
    pub(crate) fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    /// Looks up a path, name by name.
    pub(crate) fn find(&self, path: impl AsRef<Path>) -> Result<Entry, Errno> {
        let mut entry = None;
        for name in path.as_ref() {
            let parent = entry.map_or(NodeId::ROOT, |entry: Entry| entry.node);
            entry = Some(self.mirror.lookup(parent, name)?);
        }
        Ok(entry.expect("a path has names"))
    }
}

/// Whether this is root, as some tests need; prints a note if not.
pub(crate) fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip("only root can do this");
    }
    is_root
}

/// Runs `work` in a thread without root's capabilities, as an ordinary user's.
pub(crate) fn as_ordinary_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut sets = capabilities(None).unwrap();
            sets.effective = CapabilitySet::empty();
            set_capabilities(None, sets).unwrap();
            work()
        });
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// A process that uses the mirror.
pub(crate) struct Process {
    uid: u32,
    gid: u32,
    groups: Vec<Gid>,
    capabilities: CapabilitySet,
}

impl Process {
    /// One without capabilities and supplementary groups.
    pub(crate) fn of(uid: u32, gid: u32) -> Self {
        Self {
            uid,
            gid,
            groups: Vec::new(),
            capabilities: CapabilitySet::empty(),
        }
    }

    pub(crate) fn in_groups(self, groups: &[u32]) -> Self {
        let groups = groups.iter().copied().map(Gid::from_raw).collect();
        Self { groups, ..self }
    }

    pub(crate) fn with(self, capabilities: CapabilitySet) -> Self {
        Self {
            capabilities,
            ..self
        }
    }

    /// Does `work` on behalf of the process, a thread of this one, which waits meanwhile.
    pub(crate) fn while_waiting<T>(&self, work: impl FnOnce(Caller) -> T) -> T {
        thread::scope(|scope| {
            let (tell, told) = channel();
            let (end, ended) = channel::<()>();
            scope.spawn(move || {
                self.assume();
                tell.send(gettid().as_raw_nonzero().get().cast_unsigned())
                    .unwrap();
                // Until the sender is dropped.
                let _ = ended.recv();
            });
            let caller = Caller {
                uid: self.uid,
                gid: self.gid,
                pid: told.recv().unwrap(),
                request: 0,
            };
            let result = work(caller);
            drop(end);
            result
        })
    }

    fn assume(&self) {
        let bits = capabilities_secure_bits().unwrap();
        set_capabilities_secure_bits(bits | CapabilitiesSecureBits::NO_SETUID_FIXUP).unwrap();
        set_thread_groups(&self.groups).unwrap();
        set_thread_fs_gid(self.gid);
        set_thread_fs_uid(self.uid);
        let mut sets = capabilities(None).unwrap();
        sets.effective = sets.permitted.intersection(self.capabilities);
        set_capabilities(None, sets).unwrap();
    }
}
