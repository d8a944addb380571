//! File systems that are full or cannot be written.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rustix::{
    mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount},
    process::geteuid,
};
use tempfile::TempDir;
use verimount_cache::Part;
use verimount_testkit::{flip_at, noise, skip};

use crate::{Content, LARGE, cache, folder};

/// A file system of 16 MiB.
struct Small(TempDir);

impl Small {
    /// `None`, after a note, for a user who may not mount.
    fn mount() -> Option<Self> {
        if !geteuid().is_root() {
            skip("only root can mount a small file system");
            return None;
        }
        let folder = folder();
        let options = c"size=16m,mode=755";
        match mount(
            "tmpfs",
            folder.path(),
            "tmpfs",
            MountFlags::empty(),
            options,
        ) {
            Ok(()) => Some(Self(folder)),
            Err(error) => {
                skip(format_args!(
                    "a small file system cannot be mounted: {error}"
                ));
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn make_read_only(&self) {
        mount_remount(self.path(), MountFlags::RDONLY, "").unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = unmount(self.path(), UnmountFlags::DETACH);
    }
}

/// Takes all that is free.
fn fill(folder: &Path) -> PathBuf {
    let path = folder.join("other");
    let mut size = 4 << 20;
    while size > 1024 {
        let mut bytes = fs::read(&path).unwrap_or_default();
        bytes.resize(bytes.len() + size, 1);
        if fs::write(&path, &bytes).is_err() {
            bytes.truncate(bytes.len() - size);
            fs::write(&path, &bytes).unwrap();
            size /= 2;
        }
    }
    path
}

#[test]
fn a_small_file_system_is_not_filled() {
    let Some(small) = Small::mount() else {
        return;
    };
    let content = Content::new(noise(24 << 20, 1));
    let cache = cache(small.path(), LARGE);
    content.assert_read_by(&content.open(&cache, &content.server()));
    assert_eq!(cache.stats().failures, 0);
    assert!(cache.stats().written > 16 << 20);
}

#[test]
fn a_full_file_system_does_not_fail_reads() {
    let Some(small) = Small::mount() else {
        return;
    };
    let content = Content::new(noise(4 << 20, 2));
    let cache = cache(small.path(), LARGE);
    let (server, mut buf) = (content.server(), [0; 10]);
    let reader = content.open(&cache, &server);
    // Some room was granted before another program takes it.
    verimount_source::ReadAt::read_exact_at(&reader, &mut buf, 0).unwrap();
    let other = fill(small.path());
    content.assert_read_by(&reader);
    assert!(cache.stats().failures > 0);
    fs::remove_file(other).unwrap();
    content.assert_read_by(&reader);
}

#[test]
fn a_cache_that_cannot_be_written_is_read() {
    let Some(small) = Small::mount() else {
        return;
    };
    let kept = Content::new(noise(1 << 20, 3));
    let other = Content::new(noise(1 << 20, 4));
    let written = cache(small.path(), LARGE);
    kept.assert_read_by(&kept.open(&written, &kept.server()));
    other.assert_read_by(&other.open(&written, &other.server()));
    flip_at(&other.file(&written), 300_000);
    drop(written);
    small.make_read_only();
    let cache = cache(small.path(), LARGE);
    let off = kept.server();
    off.switch_off();
    kept.assert_read_by(&kept.open(&cache, &off));
    // What is wrong cannot be dropped, and is read from the server.
    other.assert_read_by(&other.open(&cache, &other.server()));
    let absent = Content::new(noise(1000, 5));
    assert!(cache.object(&absent.key(), Part::Data, 100).is_none());
}
