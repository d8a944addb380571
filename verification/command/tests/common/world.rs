//! A folder with what most tests need: a tree, its sealed image, keys and a mount point.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::mount::{UnmountFlags, unmount};
use verimount_testkit::noise;

use super::run::verimount;
use crate::args;

/// A folder that everybody can read. It is removed at the end, after all mounts in it.
pub(crate) struct World {
    root: PathBuf,
    /// Removes `root`.
    _folder: tempfile::TempDir,
}

/// The file that every small image has, at its root.
pub(crate) const HELLO: &str = "hello";

impl World {
    /// An empty one.
    pub(crate) fn new() -> Self {
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

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A path that [`Self::listing`] does not show.
    pub(crate) fn unlisted(&self, name: &str) -> PathBuf {
        self.root.parent().unwrap().join(name)
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// An empty directory.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        path
    }

    /// A small image, not sealed.
    pub(crate) fn plain_image(&self, name: &str) -> PathBuf {
        self.write(name, &small_images().plain)
    }

    /// The same, with its seal appended.
    pub(crate) fn sealed_image(&self, name: &str) -> PathBuf {
        self.write(name, &small_images().sealed)
    }

    /// The same, with its seal beside it.
    pub(crate) fn image_with_sidecar(&self, name: &str) -> PathBuf {
        self.write(&format!("{name}.verity"), &small_images().sidecar);
        self.plain_image(name)
    }

    /// A key pair without password: public, secret.
    pub(crate) fn keys(&self, name: &str) -> (PathBuf, PathBuf) {
        let (public, secret) = (
            self.path(&format!("{name}.pub")),
            self.path(&format!("{name}.key")),
        );
        verimount(args!["keygen", &public, &secret, "--no-password"]).succeeds_quietly();
        (public, secret)
    }

    /// Everything in it: names, and the content of files.
    pub(crate) fn listing(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut listing = BTreeMap::new();
        let mut pending = vec![self.root.clone()];
        while let Some(folder) = pending.pop() {
            // What may not be looked into stays unknown.
            for entry in fs::read_dir(&folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                let file_type = fs::symlink_metadata(&path).unwrap().file_type();
                let content = match file_type.is_file() {
                    true => fs::read(&path).unwrap_or_default(),
                    false => Vec::new(),
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
    pub(crate) fn unchanged_by<T>(&self, work: impl FnOnce() -> T) -> T {
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
                let mut fusermount = std::process::Command::new("fusermount3");
                let _ = fusermount.args(["-uz", &path]).status();
            }
        }
    }
}

/// A field of the mount table, in which some characters are written in octal digits.
pub(crate) fn unescaped(field: &str) -> String {
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

/// One small image in all forms.
struct SmallImages {
    plain: Vec<u8>,
    sealed: Vec<u8>,
    sidecar: Vec<u8>,
}

/// Made once, by the command itself.
fn small_images() -> &'static SmallImages {
    static IMAGES: OnceLock<SmallImages> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let world = World::new();
        let tree = world.directory("tree");
        fs::write(tree.join(HELLO), "Hello, world!\n").unwrap();
        fs::create_dir(tree.join("folder")).unwrap();
        fs::write(tree.join("folder/noise"), noise(70_000, 1)).unwrap();
        let image = world.path("image");
        verimount(args!["build", "--no-seal", &tree, &image]).succeeds();
        let plain = fs::read(&image).unwrap();
        verimount(args!["seal", &image]).succeeds_quietly();
        let sidecar = fs::read(world.path("image.verity")).unwrap();
        verimount(args!["seal", "--append", &image]).succeeds_quietly();
        let sealed = fs::read(&image).unwrap();
        SmallImages {
            plain,
            sealed,
            sidecar,
        }
    })
}

/// The size of small images.
pub(crate) fn small_sealed_len() -> usize {
    small_images().sealed.len()
}
