//! A tree that this process has mounted.

use std::{
    fs::File,
    io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
};

use rustix::process::geteuid;
use tempfile::TempDir;
use verimount_mount::{EndSignals, MountOptions, attach, unmount_lazily};
use verimount_serve::{ImageFs, Served, VerifiedTree};
use verimount_testkit::fuse_or_skip;
use verimount_tree::Tree;

pub(crate) struct MountedTree {
    directory: TempDir,
    serving: Option<JoinHandle<io::Result<()>>>,
}

impl MountedTree {
    /// Mounts `tree`, as root for all users. `None`, after a note, if this process cannot mount.
    pub(crate) fn new(tree: impl Tree + 'static) -> Option<Self> {
        if !fuse_or_skip() {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let options = MountOptions {
            source_name: "made up".to_owned(),
            read_only: true,
            allow_other: geteuid().is_root(),
            threads: NonZeroUsize::new(2).unwrap(),
            awake: false,
            no_exec: false,
            no_symfollow: false,
            native: false,
            suid: false,
            dev: false,
        };
        let tree = VerifiedTree::new(Box::new(tree), None, Arc::default());
        let fs = ImageFs::new(Arc::new(tree), Served::default());
        let mounted = attach(Arc::new(fs), directory.path(), &options).unwrap();
        let signals = EndSignals::new(None).unwrap();
        let serving = thread::spawn(move || mounted.wait(signals));
        Some(Self {
            directory,
            serving: Some(serving),
        })
    }

    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root().join(path)
    }

    pub(crate) fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        File::open(self.path(path))
    }

    /// Unmounts it and waits for its end. The unmount is lazy, as a process that another test starts
    /// briefly has all open files.
    pub(crate) fn unmount(mut self) {
        unmount_lazily(self.root(), None).unwrap();
        let serving = self.serving.take().unwrap();
        serving.join().unwrap().unwrap();
    }
}

impl Drop for MountedTree {
    fn drop(&mut self) {
        if self.serving.is_some() {
            // The test has failed, and may still have files open.
            let _ = unmount_lazily(self.root(), None);
        }
    }
}
