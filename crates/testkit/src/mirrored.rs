//! Directories that tests of bridges mirror.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
};

use rustix::mount::{MountFlags, mount, mount_remount};

use crate::{World, finish, root_or_skip, shell_as};

/// A policy for [`World::open_source`].
pub const DENYING_POLICY: &str = r#"
    log_denials = true
    [[rule]]
    name = "secrets"
    action = "deny"
    path = "secrets/**"
    [[rule]]
    action = "deny"
    access = "write"
    path = "fixed/**"
"#;

/// Makes the files of a restricted source. Another process does, since a file cannot be run as long as somebody may write
/// to it, such as a child that has just been started beside.
const LAYOUT: &str = r"
    printf '#!/bin/sh\ntrue\n' > script; cp /bin/true program; chmod 755 script program
    ln -s script link; echo content > file
";

impl World {
    /// One with an empty source `src` and a mount point `mnt`; `None`, after a note, if mounting is impossible.
    pub fn with_source() -> Option<Self> {
        let world = Self::with_mount_point()?;
        world.directory("src");
        Some(world)
    }

    /// One as [`Self::with_source`] makes it, with `secrets/key`, `fixed/file`, `pub/file` and `pub/dir/file` in the
    /// source, with all permissions for all users.
    pub fn open_source() -> Option<Self> {
        let world = Self::with_source()?;
        let src = world.path("src");
        for file in ["secrets/key", "fixed/file", "pub/file", "pub/dir/file"] {
            let file = src.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, file.file_name().unwrap().as_encoded_bytes()).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        }
        for directory in ["", "secrets", "fixed", "pub", "pub/dir"] {
            fs::set_permissions(src.join(directory), Permissions::from_mode(0o777)).unwrap();
        }
        Some(world)
    }

    /// One as [`Self::with_source`] makes it, whose source everybody may change, with a file of root's. Only root can
    /// share a bridge.
    pub fn shared_source() -> Option<Self> {
        if !root_or_skip() {
            return None;
        }
        let world = Self::with_source()?;
        fs::set_permissions(world.path("src"), Permissions::from_mode(0o777)).unwrap();
        world.write("src/file", "content");
        Some(world)
    }

    /// One as [`Self::with_source`] makes it, whose source is a tmpfs mounted with these flags, with a few files; only
    /// root can make one.
    pub fn restricted_source(flags: MountFlags) -> Option<Self> {
        if !root_or_skip() {
            return None;
        }
        let world = Self::with_source()?;
        let src = world.path("src");
        mount("tmpfs", &src, "tmpfs", MountFlags::empty(), None).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-ec", LAYOUT]).current_dir(&src);
        finish(shell).succeeds();
        mount_remount(&src, flags, "").unwrap();
        Some(world)
    }
}

/// Reads, lists and creates a file of a [`World::shared_source`], as users who another one must not affect: an ordinary
/// user, and root.
#[track_caller]
pub fn others_can_work(mounted: &Path) {
    for uid in [4321, 0] {
        let script = "cat file; ls | grep file; echo new > new$(id -u); cat new$(id -u)";
        let ended = shell_as(uid, uid, &[], mounted, script);
        assert_eq!(ended.succeeds().text(), "contentfile\nnew\n");
        fs::remove_file(mounted.join(format!("new{uid}"))).unwrap();
    }
}
