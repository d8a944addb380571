//! A file system on a loop device on the disk: the kernel is the user then.

use super::{Mode, format, mount};
use crate::prelude::*;

/// Sizes of files, which are their names and seeds as well.
const FILES: [usize; 5] = [0, 1, 4097, 300_000, 5_000_000];

#[test]
fn a_file_system_on_it() {
    needs!(root_or_skip());
    for (mode, direct) in [
        (Mode::Journal, true),
        (Mode::Bitmap, false),
        (Mode::Bitmap, true),
        (Mode::Direct, true),
    ] {
        let world = needs!(World::with_mount_point());
        let path = world.path("vol.img");
        format(&path, 64);
        let ext4 = world.directory("ext4");
        let mounted = mount(&world, mode);
        let device = needs!(Loop::new(&mounted.path("disk"), direct));
        let made = needs!(device.run("mkfs.ext4", &["-q"]));
        made.succeeds();
        let files = KernelMount::ext4(&device, &ext4);
        for file in FILES {
            fs::write(ext4.join(file.to_string()), noise(file, file as u64)).unwrap();
        }
        drop(files);
        device.run("fsck.ext4", &["-f", "-n"]).unwrap().succeeds();
        drop(device);
        mounted.unmount();
        // Nothing is read from what the kernel has kept.
        let mounted = mount(&world, mode);
        let device = Loop::new(&mounted.path("disk"), direct).unwrap();
        let files = KernelMount::ext4(&device, &ext4);
        for file in FILES {
            let content = fs::read(ext4.join(file.to_string())).unwrap();
            assert!(content == noise(file, file as u64), "{file}");
        }
        drop(files);
        drop(device);
        mounted.unmount();
    }
}

#[test]
fn a_changed_byte_below_a_file_system() {
    needs!(root_or_skip());
    let world = needs!(World::with_mount_point());
    let path = world.path("vol.img");
    format(&path, 64);
    let ext4 = world.directory("ext4");
    let content = noise(1 << 20, 1);
    let mounted = mount(&world, Mode::Journal);
    let device = needs!(Loop::new(&mounted.path("disk"), true));
    let made = needs!(device.run("mkfs.ext4", &["-q"]));
    made.succeeds();
    let files = KernelMount::ext4(&device, &ext4);
    fs::write(ext4.join("bad"), &content).unwrap();
    fs::write(ext4.join("good"), noise(1 << 20, 2)).unwrap();
    drop(files);
    drop(device);
    mounted.unmount();
    let mounted = mount(&world, Mode::Journal);
    flip_where(&path, &content[40_960..45_056]);
    let device = Loop::new(&mounted.path("disk"), true).unwrap();
    let files = KernelMount::ext4(&device, &ext4);
    error_of(fs::read(ext4.join("bad")));
    assert!(fs::read(ext4.join("good")).unwrap() == noise(1 << 20, 2));
    drop(files);
    drop(device);
    let status = mounted.status();
    assert!(status["mismatches"].as_u64() > Some(0));
    mounted.unmount();
}
