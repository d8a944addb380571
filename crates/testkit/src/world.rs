//! A folder for the files of a test.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::mount::{UnmountFlags, unmount};

use crate::fuse_or_skip;

/// A folder that everybody can read. It is removed at the end, after all mounts in it.
pub struct World {
    root: PathBuf,
    /// Removes `root`.
    _folder: tempfile::TempDir,
}

impl World {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The kernel names mount points without symbolic links.
        let outer = folder.path().canonicalize().unwrap();
        let root = outer.join("world");
        fs::create_dir(&root).unwrap();
        for path in [&outer, &root] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self {
            root,
            _folder: folder,
        }
    }

    /// An empty one with a mount point `mnt`; `None`, after a note, if mounting is impossible.
    pub fn with_mount_point() -> Option<Self> {
        let world = fuse_or_skip().then(Self::new)?;
        world.directory("mnt");
        Some(world)
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A path that [`Self::listing`] does not show.
    pub fn unlisted(&self, name: &str) -> PathBuf {
        self.root.parent().unwrap().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// An empty directory.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        path
    }

    /// Everything in it: names, and the content of files.
    pub fn listing(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut listing = BTreeMap::new();
        let mut pending = vec![self.root.clone()];
        while let Some(folder) = pending.pop() {
            // What may not be looked into stays unknown.
            for entry in fs::read_dir(&folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                let file_type = fs::symlink_metadata(&path).unwrap().file_type();
                let content = if file_type.is_file() {
                    fs::read(&path).unwrap_or_default()
                } else {
                    Vec::new()
                };
                if file_type.is_dir() {
                    pending.push(path.clone());
                }
                listing.insert(path, content);
            }
        }
        listing
    }

    /// Runs an action that must change nothing.
    #[track_caller]
    pub fn unchanged_by<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.listing();
        let result = work();
        let after = self.listing();
        let names = |listing: &BTreeMap<PathBuf, _>| listing.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&before), names(&after));
        assert!(before == after, "a file was changed");
        result
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // What a failed test left mounted must not be looked into while the folder is removed.
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        // The last first, which may hide others.
        let mounted = table
            .lines()
            .rev()
            .filter_map(|line| line.split(' ').nth(4))
            .map(unescaped)
            .filter(|path| Path::new(path).starts_with(&self.root));
        for path in mounted {
            let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
            if unmount(&path, flags).is_err() {
                let mut fusermount = Command::new("fusermount3");
                let _ = fusermount.args(["-uz", &path]).status();
            }
        }
    }
}

/// A field of the mount table, in which some characters are written in octal digits.
pub fn unescaped(field: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(field.to_owned(), |field, (digits, character)| {
        field.replace(digits, character)
    })
}
