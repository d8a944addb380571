//! A directory and its mirror.

use std::{
    fs,
    panic::resume_unwind,
    path::{Path, PathBuf},
    thread,
};

use rustix::{
    io::Errno,
    thread::{CapabilitySet, capabilities, set_capabilities},
};
use verimount_bridge::{Caller, Entry, Mirror, MirrorOptions, NewFile, NodeId};

/// Root.
pub(crate) const ROOT: Caller = Caller {
    uid: 0,
    gid: 0,
    pid: 1,
};

/// A new file with all requested permissions.
pub(crate) fn new_file(mode: u32) -> NewFile {
    NewFile {
        caller: ROOT,
        mode,
        umask: 0,
    }
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
        eprintln!("skipped: only root can do this");
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
