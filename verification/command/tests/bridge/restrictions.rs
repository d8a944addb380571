//! What the source's mount does not allow an ordinary user.

use rustix::mount::{mount as mount_system, mount_remount};

use super::world;
use crate::prelude::*;

/// Makes the files. Another process does, since a file cannot be run as long as somebody may write to it, such as
/// a child that has just been started beside.
const LAYOUT: &str = r"
    printf '#!/bin/sh\ntrue\n' > script; cp /bin/true program; chmod 755 script program
    ln -s script link; echo content > file
";

/// A world whose source is a tmpfs mounted with these flags, with a few files; only root can make one.
fn world_with_source(flags: MountFlags) -> Option<World> {
    if !root_or_skip() {
        return None;
    }
    let world = world()?;
    let src = world.path("src");
    mount_system("tmpfs", &src, "tmpfs", MountFlags::empty(), None).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-ec", LAYOUT]).current_dir(&src);
    finish(shell).succeeds();
    mount_remount(&src, flags, "").unwrap();
    Some(world)
}

/// Without root, `noexec` is kept, and `nosymfollow` is kept or refused.
#[test]
fn restrictions_of_an_ordinary_users_bridge() {
    let world = needs!(world_with_source(MountFlags::NOEXEC));
    let (user, src, mnt) = (User::ordinary(&world), world.path("src"), world.path("mnt"));
    user.own(&mnt);
    let mounted = Daemon::bridge_as(user.command(), &src, &mnt, &[]);
    let mut run = user.program(&mnt.join("script"));
    let ended = run.output().unwrap();
    // As `setpriv` reports it.
    assert_eq!(ended.status.code(), Some(126), "{ended:?}");
    mounted.unmount();
    mount_remount(&src, MountFlags::NOSYMFOLLOW, "").unwrap();
    let ended = verimount_as(&user, crate::args!["bridge", &src, &mnt]);
    match ended.status.success() {
        true => {
            let mut read = user.program(Path::new("cat"));
            let read = read.arg(mnt.join("link")).output().unwrap();
            assert!(!read.status.success(), "{read:?}");
        }
        false => {
            ended.fails_saying("the source is mounted with nosymfollow, which this fusermount3");
        }
    }
}
