//! Errors of the source's file system are passed on.

use std::ffi::CString;

use rustix::mount::{mount as mount_system, mount_remount, unmount};

use super::{WAYS, for_all, in_all_ways, mount, mount_in, world_on_ext4};
use crate::prelude::*;

/// A world whose source is a file system of its own; only root can make one.
fn world_with_file_system(options: &str) -> Option<World> {
    if !root_or_skip() {
        return None;
    }
    let world = World::with_source()?;
    let options = CString::new(options).unwrap();
    mount_system(
        "tmpfs",
        world.path("src"),
        "tmpfs",
        MountFlags::empty(),
        &*options,
    )
    .unwrap();
    Some(world)
}

/// Writes until there is an error.
fn fill(path: &Path) -> io::Result<u64> {
    let mut file = File::create(path)?;
    for _ in 0..1000 {
        file.write_all(&[7; 65_536])?;
    }
    Ok(0)
}

#[test]
fn a_full_disk() {
    for way in WAYS {
        let world = needs!(world_with_file_system("size=2M,nr_inodes=20"));
        let mounted = mount_in(&world, way);
        let mnt = mounted.directory();
        let total = |at: &Path| statvfs(at).map(|usage| (usage.f_blocks, usage.f_files));
        assert_eq!(total(mnt), total(&world.path("src")));
        assert_eq!(error_of(fill(&mnt.join("large"))), Errno::NOSPC);
        let len = fs::metadata(mnt.join("large")).unwrap().len();
        assert_eq!(len, fs::metadata(world.path("src/large")).unwrap().len());
        assert!(fs::read(mnt.join("large")).unwrap() == vec![7; len as usize]);
        let file = File::create_new(mnt.join("other")).unwrap();
        let room = rustix::fs::FallocateFlags::empty();
        let reserved = rustix::fs::fallocate(&file, room, 0, 4 << 20);
        assert_eq!(reserved, Err(Errno::NOSPC));
        let made = (0..30).try_for_each(|number| fs::create_dir(mnt.join(number.to_string())));
        assert_eq!(error_of(made), Errno::NOSPC);
        // Room that is given back can be used, once the kernel has told that the file is let go.
        fs::remove_file(mnt.join("large")).unwrap();
        eventually("there is room", || {
            statvfs(mnt).is_ok_and(|usage| usage.f_bfree > usage.f_blocks / 2)
        });
        fs::write(mnt.join("other"), vec![8; 1 << 20]).unwrap();
        drop(file);
        mounted.unmount();
    }
}

/// Whatever is kept of a file that was read, its room is free soon after others have removed it.
/// Also if they are reserved for the user that a bridge would otherwise write as.
#[test]
fn reserved_blocks_stay_reserved() {
    for way in WAYS {
        for reserved_for in ["resuid=0", "resuid=65534", "resgid=65534"] {
            let world = needs!(world_on_ext4(&["-m", "40"]));
            let source = world.path("src");
            let mut remount = Command::new("mount");
            remount
                .args(["-o", &format!("remount,{reserved_for}")])
                .arg(&source);
            finish(remount).succeeds();
            fs::set_permissions(&source, Permissions::from_mode(0o777)).unwrap();
            let mounted = mount(&world, for_all(way));
            let fill = "head -c 100M /dev/zero > large";
            let ended = shell_as(4321, 4321, &[], mounted.directory(), fill);
            assert!(!ended.status.success());
            let usage = statvfs(&source).unwrap();
            let is_left = usage.f_bfree > usage.f_blocks / 3;
            mounted.unmount();
            assert!(is_left, "{way} {reserved_for}: {} are left", usage.f_bfree);
        }
    }
}

#[test]
fn files_removed_in_the_source_free_their_space() {
    in_all_ways(|way| {
        let world = needs!(world_on_ext4(&[]));
        let src = world.path("src");
        let free = || statvfs(&src).unwrap().f_bavail;
        let mounted = mount_in(&world, way);
        world.write("src/large", vec![7; 20 << 20]);
        rustix::fs::sync();
        let before = free();
        assert_eq!(fs::read(mounted.path("large")).unwrap().len(), 20 << 20);
        fs::remove_file(src.join("large")).unwrap();
        let large = (20 << 20) / statvfs(&src).unwrap().f_frsize;
        eventually("its room is free", || free() >= before + large);
        mounted.unmount();
    });
}

#[test]
fn a_source_that_cannot_be_changed() {
    for way in WAYS {
        let world = needs!(world_with_file_system(""));
        let src = world.path("src");
        fs::write(src.join("file"), "content").unwrap();
        let mounted = mount_in(&world, way);
        let mnt = mounted.directory();
        fs::read(mnt.join("file")).unwrap();
        mount_remount(&src, MountFlags::RDONLY, "").unwrap();
        let mut options = OpenOptions::new();
        for result in [
            options.write(true).open(mnt.join("file")).map(drop),
            File::create(mnt.join("file")).map(drop),
            File::create(mnt.join("new")).map(drop),
            fs::create_dir(mnt.join("new")),
            fs::remove_file(mnt.join("file")),
            fs::rename(mnt.join("file"), mnt.join("new")),
            fs::hard_link(mnt.join("file"), mnt.join("new")),
        ] {
            assert_eq!(error_of(result), Errno::ROFS);
        }
        assert_eq!(fs::read(mnt.join("file")).unwrap(), b"content");
        mounted.unmount();
    }
}

/// The mirror holds the source's file system, which stays until the mirror ends.
#[test]
fn a_source_that_is_unmounted() {
    for way in WAYS {
        let world = needs!(world_with_file_system(""));
        let src = world.path("src");
        fs::write(src.join("file"), "content").unwrap();
        let mounted = mount_in(&world, way);
        unmount(&src, UnmountFlags::empty()).unwrap();
        assert_eq!(fs::read_dir(&src).unwrap().count(), 0);
        assert_eq!(fs::read(mounted.path("file")).unwrap(), b"content");
        fs::write(mounted.path("new"), "new").unwrap();
        assert_eq!(fs::read(mounted.path("new")).unwrap(), b"new");
        mounted.unmount();
    }
}

#[test]
fn a_source_that_is_removed() {
    for way in WAYS {
        let world = needs!(World::with_source());
        let src = world.path("src");
        fs::write(src.join("file"), "content").unwrap();
        let mounted = mount_in(&world, way);
        let mnt = mounted.directory();
        let opened = File::open(mnt.join("file")).unwrap();
        fs::remove_dir_all(&src).unwrap();
        for result in [
            File::create(mnt.join("new")).map(drop),
            fs::create_dir(mnt.join("new folder")),
        ] {
            assert_eq!(error_of(result), Errno::NOENT);
        }
        assert_eq!(fs::read_dir(mnt).unwrap().count(), 0);
        let mut content = [0; 7];
        std::os::unix::fs::FileExt::read_exact_at(&opened, &mut content, 0).unwrap();
        assert_eq!(&content, b"content");
        drop(opened);
        mounted.unmount();
    }
}
