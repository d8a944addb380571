//! What the source's mount does not allow, the bridge's mount does not allow either.

use std::time::SystemTime;

use super::{WAYS, mount_in};
use crate::prelude::*;

/// How what a mount can refuse ends: running a script and a program, following a link, writing.
fn attempts(at: &Path) -> [Option<Errno>; 4] {
    let run = |name: &str| Command::new(at.join(name)).status().map(drop);
    [
        run("script"),
        run("program"),
        fs::read(at.join("link")).map(drop),
        fs::write(at.join("file"), "other"),
    ]
    .map(|result| result.is_err().then(|| error_of(result)))
}

#[test]
fn what_the_mount_of_the_source_refuses() {
    let (acces, link, read_only) = (Some(Errno::ACCESS), Some(Errno::LOOP), Some(Errno::ROFS));
    for (flags, expected) in [
        (MountFlags::empty(), [None; 4]),
        (MountFlags::NOEXEC, [acces, acces, None, None]),
        (MountFlags::NOSYMFOLLOW, [None, None, link, None]),
        (MountFlags::RDONLY, [None, None, None, read_only]),
    ] {
        for way in WAYS {
            let world = needs!(World::restricted_source(flags));
            assert_eq!(attempts(&world.path("src")), expected);
            let mounted = mount_in(&world, way);
            assert_eq!(attempts(mounted.directory()), expected, "{flags:?} {way}");
            // The link itself is shown.
            let target = fs::read_link(mounted.path("link")).unwrap();
            assert_eq!(target, Path::new("script"));
            mounted.unmount();
        }
    }
}

/// The mount itself is read-only, and not only the file system in it.
#[test]
fn a_read_only_source_has_a_read_only_mount() {
    let world = needs!(World::restricted_source(MountFlags::RDONLY));
    let mounted = mount_in(&world, "auto");
    let flags = rustix::fs::statvfs(mounted.directory()).unwrap().f_flag;
    assert!(flags.contains(rustix::fs::StatVfsMountFlags::RDONLY));
    mounted.unmount();
}

/// Reading sets the time of access unless the source's mount has `noatime`.
#[test]
fn times_of_access() {
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for (flags, is_kept) in [(MountFlags::NOATIME, true), (MountFlags::empty(), false)] {
        for way in WAYS {
            let world = needs!(World::restricted_source(flags));
            let file = world.path("src/file");
            let times = fs::FileTimes::new().set_accessed(old);
            let opened = fs::File::options().write(true).open(&file).unwrap();
            opened.set_times(times).unwrap();
            drop(opened);
            let mounted = mount_in(&world, way);
            fs::read(mounted.path("file")).unwrap();
            let accessed = fs::metadata(&file).unwrap().atime();
            assert_eq!(accessed == 1_000_000_000, is_kept, "{flags:?} {way}");
            mounted.unmount();
        }
    }
}
