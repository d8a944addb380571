//! How soon changes made in the source become visible.

use rustix::fs::{StatxFlags, statx};

use super::{CachePolicy, WAYS, in_all_ways, mount_cached, mount_in, status, world_on_ext4};
use crate::prelude::*;

#[test]
fn strict_shows_changes_at_once() {
    for way in WAYS {
        let world = needs!(World::with_source());
        let src = world.path("src");
        fs::write(src.join("file"), "one").unwrap();
        let mounted = mount_cached(&world, way, CachePolicy::Strict);
        let mnt = mounted.directory();
        for round in 0..50 {
            assert_eq!(fs::read(mnt.join("file")).unwrap().len(), 3 + round);
            assert!(!mnt.join(format!("new {round}")).exists());
            fs::write(src.join("file"), "x".repeat(4 + round)).unwrap();
            fs::write(src.join(format!("new {round}")), "").unwrap();
            assert!(mnt.join(format!("new {round}")).exists());
            assert_eq!(
                fs::metadata(mnt.join("file")).unwrap().len(),
                4 + round as u64
            );
            assert_eq!(fs::read_dir(mnt).unwrap().count(), 2 + round);
            let mode = 0o600 | round as u32 & 7;
            fs::set_permissions(src.join("file"), PermissionsExt::from_mode(mode)).unwrap();
            let seen = fs::metadata(mnt.join("file")).unwrap().permissions().mode();
            assert_eq!(seen & 0o777, mode);
        }
        mounted.unmount();
    }
}

/// Content is seen by the next open; names and attributes when the kernel's cache expires, after a second
/// of a clock that does not advance evenly on a busy machine.
#[test]
fn normal_shows_changes_soon() {
    in_all_ways(|way| {
        let world = needs!(World::with_source());
        let src = world.path("src");
        fs::write(src.join("file"), "one").unwrap();
        fs::write(src.join("other"), "").unwrap();
        let mounted = mount_in(&world, way);
        let mnt = mounted.directory();
        for round in 0..20_u8 {
            // Of the same length, so that only times tell.
            fs::write(src.join("file"), [round; 3]).unwrap();
            assert_eq!(fs::read(mnt.join("file")).unwrap(), [round; 3]);
        }
        assert_eq!(fs::read_dir(mnt).unwrap().count(), 2);
        assert!(!mnt.join("new").exists());
        fs::metadata(mnt.join("other")).unwrap();
        fs::write(src.join("new"), "new").unwrap();
        fs::write(src.join("other"), "longer").unwrap();
        eventually("the new length is seen", || {
            fs::metadata(mnt.join("other")).unwrap().len() == 6
        });
        eventually("the new file is seen", || mnt.join("new").exists());
        assert_eq!(fs::read(mnt.join("new")).unwrap(), b"new");
        eventually("the new file is listed", || {
            fs::read_dir(mnt).unwrap().count() == 3
        });
        fs::remove_file(src.join("new")).unwrap();
        eventually("the file is seen to be gone", || !mnt.join("new").exists());
        assert_eq!(
            error_of(File::open(mnt.join("new"))),
            rustix::io::Errno::NOENT
        );
        mounted.unmount();
    });
}

/// Only the first store to a mapped page changes the times of a file.
#[test]
fn a_new_open_sees_stores_through_mappings() {
    let script = "\
import mmap, os, sys, time
source, mirror = sys.argv[1:]
with open(source, 'r+b') as file:
    pages = mmap.mmap(file.fileno(), 4096)
for letter in b'abcd':
    pages[0] = letter
    # A file that has just changed is a case of its own.
    while time.time() - os.stat(source).st_ctime < 0.05:
        time.sleep(0.001)
    for _ in range(2):
        with open(mirror, 'rb') as file:
            seen = file.read(1)[0]
            assert seen == letter, (seen, letter)
";
    for way in WAYS {
        let world = needs!(World::with_source());
        let source = world.write("src/file", [b'-'; 4096]);
        let mounted = mount_in(&world, way);
        let ended = needs!(python(script, &[&source, &mounted.path("file")]));
        ended.succeeds();
        mounted.unmount();
    }
}

/// If times are whole seconds, a change may leave them the same.
#[test]
fn a_new_open_sees_two_changes_within_a_second() {
    for way in WAYS {
        let world = needs!(world_on_ext4(&["-I", "128"]));
        let mounted = mount_in(&world, way);
        for round in 0..50_u8 {
            world.write("src/file", [round; 3]);
            for _ in 0..2 {
                assert_eq!(fs::read(mounted.path("file")).unwrap(), [round; 3]);
            }
        }
        mounted.unmount();
    }
}

#[test]
fn an_unchanged_file_is_relayed_once() {
    let world = needs!(world_on_ext4(&[]));
    world.write("src/file", "content");
    let mounted = mount_in(&world, "never");
    let relayed = || {
        status(mounted.directory())["relayed"]["reads"]
            .as_u64()
            .unwrap()
    };
    eventually("the kernel keeps the pages", || {
        let before = relayed();
        assert_eq!(fs::read(mounted.path("file")).unwrap(), b"content");
        relayed() == before
    });
    mounted.unmount();
}

/// Also if the name now refers to another file.
#[test]
fn a_file_that_others_replace() {
    for way in WAYS {
        let world = needs!(World::with_source());
        let src = world.path("src");
        fs::write(src.join("file"), "before").unwrap();
        let mounted = mount_cached(&world, way, CachePolicy::Strict);
        let opened = File::open(mounted.path("file")).unwrap();
        fs::write(src.join("new"), "after").unwrap();
        fs::rename(src.join("new"), src.join("file")).unwrap();
        assert_eq!(fs::read(mounted.path("file")).unwrap(), b"after");
        let mut content = [0; 6];
        opened.read_exact_at(&mut content, 0).unwrap();
        assert_eq!(&content, b"before");
        drop(opened);
        mounted.unmount();
    }
}

/// If only the mount changes the source, its changes are visible at once.
#[test]
fn exclusive_shows_own_changes_at_once() {
    for way in WAYS {
        let world = needs!(World::with_source());
        fs::write(world.path("src/file"), "one").unwrap();
        let mounted = mount_cached(&world, way, CachePolicy::Exclusive);
        let mnt = mounted.directory();
        for round in 0..20_usize {
            assert_eq!(fs::read_dir(mnt).unwrap().count(), 1 + round);
            fs::write(mnt.join("file"), "x".repeat(round)).unwrap();
            assert_eq!(fs::metadata(mnt.join("file")).unwrap().len(), round as u64);
            assert_eq!(fs::read(mnt.join("file")).unwrap().len(), round);
            fs::write(mnt.join(format!("new {round}")), "new").unwrap();
            fs::rename(
                mnt.join(format!("new {round}")),
                mnt.join(format!("{round}")),
            )
            .unwrap();
            assert!(!mnt.join(format!("new {round}")).exists());
        }
        mounted.unmount();
    }
}

/// Attributes are fresh even if the kernel does not know that they have changed.
#[test]
fn cleared_set_id_bits_are_seen_at_once() {
    for way in WAYS {
        let world = needs!(World::with_source());
        let mounted = mount_cached(&world, way, CachePolicy::Exclusive);
        let path = mounted.path("file");
        fs::write(&path, "one").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o4755)).unwrap();
        let mode = || {
            let found = statx(CWD, &path, AtFlags::empty(), StatxFlags::MODE);
            found.unwrap().stx_mode & 0o7777
        };
        assert_eq!(mode(), 0o4755);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"two").unwrap();
        drop(file);
        assert_eq!(mode(), 0o755);
        mounted.unmount();
    }
}
