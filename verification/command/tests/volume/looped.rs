//! A file system on a loop device on the disk: the kernel is the user then.

use super::{flip_where, json, mount, world};
use crate::prelude::*;

#[test]
fn a_file_system_on_it() {
    needs!(root_or_skip());
    for (mode, direct) in [
        ("journal", true),
        ("bitmap", false),
        ("bitmap", true),
        ("direct", true),
    ] {
        let world = needs!(world());
        let path = world.path("vol.img");
        verimount(args!["volume format", &path, "--size", "64M"]).succeeds_quietly();
        let tree = world.directory("tree");
        create(&tree, true);
        // Longer than ext4 has them.
        fs::remove_file(tree.join("long target")).unwrap();
        let ext4 = world.directory("ext4");
        let mounted = mount(&world, &["--mode", mode]);
        let device = needs!(Loop::new(&mounted.path("disk"), direct));
        let made = needs!(device.run("mkfs.ext4", &["-q"]));
        made.succeeds();
        let files = KernelMount::ext4(&device, &ext4);
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(&tree).arg(&ext4);
        finish(copy).succeeds();
        drop(files);
        device.run("fsck.ext4", &["-f", "-n"]).unwrap().succeeds();
        drop(device);
        mounted.unmount();
        verimount(args!["volume check", &path]).succeeds_quietly();
        // Nothing is read from what the kernel has kept.
        let mounted = mount(&world, &["--mode", mode]);
        let device = Loop::new(&mounted.path("disk"), direct).unwrap();
        let files = KernelMount::ext4(&device, &ext4);
        assert_same(
            &snapshot(&ext4.join("tree")).unwrap(),
            &snapshot(&tree).unwrap(),
        );
        drop(files);
        drop(device);
        mounted.unmount();
    }
}

#[test]
fn a_changed_byte_below_a_file_system() {
    needs!(root_or_skip());
    let world = needs!(world());
    let path = world.path("vol.img");
    verimount(args!["volume format", &path, "--size", "64M"]).succeeds_quietly();
    let ext4 = world.directory("ext4");
    let content = noise(1 << 20, 1);
    let mounted = mount(&world, &[]);
    let device = needs!(Loop::new(&mounted.path("disk"), true));
    let made = needs!(device.run("mkfs.ext4", &["-q"]));
    made.succeeds();
    let files = KernelMount::ext4(&device, &ext4);
    fs::write(ext4.join("bad"), &content).unwrap();
    fs::write(ext4.join("good"), noise(1 << 20, 2)).unwrap();
    drop(files);
    drop(device);
    mounted.unmount();
    let mounted = mount(&world, &[]);
    flip_where(&path, &content[40_960..45_056]);
    let device = Loop::new(&mounted.path("disk"), true).unwrap();
    let files = KernelMount::ext4(&device, &ext4);
    super::error_of(fs::read(ext4.join("bad")));
    assert!(fs::read(ext4.join("good")).unwrap() == noise(1 << 20, 2));
    drop(files);
    drop(device);
    let status = json(args!["status --json", mounted.directory()], 1);
    assert!(status["mismatches"].as_u64() > Some(0));
    mounted.unmount();
}
