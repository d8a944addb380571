//! What the source's mount does not allow an ordinary user.

use rustix::mount::mount_remount;

use crate::prelude::*;

/// Without root, `noexec` is kept, and `nosymfollow` is kept or refused.
#[test]
fn restrictions_of_an_ordinary_users_bridge() {
    let world = needs!(World::restricted_source(MountFlags::NOEXEC));
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
    if ended.status.success() {
        let mut read = user.program(Path::new("cat"));
        let read = read.arg(mnt.join("link")).output().unwrap();
        assert!(!read.status.success(), "{read:?}");
    } else {
        ended.fails_saying("the source is mounted with nosymfollow, which this fusermount3");
    }
}
