//! Images that are in several places.

use crate::common::daemon::{metric, status};
use crate::prelude::*;

/// A world with a mount point, an image, a copy of it, and its digest; and the content of `file` in it, beside which there is
/// `small`.
fn world_with_copies() -> Option<(World, [PathBuf; 2], String, Vec<u8>)> {
    let world = World::with_mount_point()?;
    let tree = world.directory("tree");
    let content = noise(3_000_000, 1);
    fs::write(tree.join("file"), &content).unwrap();
    fs::write(tree.join("small"), "small").unwrap();
    let (image, copy) = (world.path("image"), world.path("copy"));
    let digest = verimount(args!["build", &tree, &image]).digest();
    fs::copy(&image, &copy).unwrap();
    Some((world, [image, copy], digest, content))
}

#[test]
fn two_damaged_copies_are_one_good_mount_and_are_repaired() {
    let Some((world, [image, copy], digest, content)) = world_with_copies() else {
        return;
    };
    let good = fs::read(&image).unwrap();
    flip_where(&image, &content[100_000..][..64]);
    flip_where(&image, &content[2_000_000..][..64]);
    // A block of the Merkle tree.
    flip_at(&image, good.len() as u64 - 10_000);
    flip_where(&copy, &content[1_000_000..][..64]);
    if is_root() {
        // Root repairs files of others, too.
        chown(&image, Some(65534), None).unwrap();
        fs::set_permissions(&image, Permissions::from_mode(0o600)).unwrap();
    }
    let mirror = copy.to_str().unwrap().to_owned();
    let options = ["--digest", &digest, "--mirror", &mirror, "--repair"];
    let daemon = Daemon::mount(&image, &world.path("mnt"), &options);
    assert!(fs::read(daemon.path("file")).unwrap() == content);
    let mnt = daemon.directory();
    eventually("it is repaired", || {
        metric(mnt, "repaired_ranges_total") == 3
    });
    let mirrors = status(mnt)["mirrors"].clone();
    assert_eq!(mirrors["places"][0]["wrong"], 3);
    assert_eq!(mirrors["places"][1]["wrong"], 0);
    assert_eq!(mirrors["places"][0]["bytes_repaired"], 3 * 4096);
    let log = daemon.unmount();
    assert!(log.contains("a copy does not match there"), "{log}");
    assert!(log.contains("a copy was repaired there"), "{log}");
    assert!(fs::read(&image).unwrap() == good);
    // Nobody has read what is wrong in the mirror.
    assert!(fs::read(&copy).unwrap() != good);
}

#[test]
fn a_tree_in_another_file_is_repaired() {
    let Some(world) = World::with_mount_point() else {
        return;
    };
    let content = noise(1_000_000, 1);
    let (file, copy) = (world.write("file", &content), world.write("copy", &content));
    for file in [&file, &copy] {
        verimount(args!["seal", file]).succeeds_quietly();
    }
    let digest = verimount(args!["digest", &copy]).digest();
    let (good, seal) = (world.path("copy.verity"), world.path("elsewhere"));
    fs::rename(world.path("file.verity"), &seal).unwrap();
    flip_at(&seal, 5000);
    let (sidecar, mirror) = (seal.to_str().unwrap(), copy.to_str().unwrap());
    let options = [
        "--digest",
        &digest,
        "--sidecar",
        sidecar,
        "--mirror",
        mirror,
        "--repair",
    ];
    let daemon = Daemon::mount(&file, &world.path("mnt"), &options);
    assert!(fs::read(daemon.path("file")).unwrap() == content);
    daemon.unmount();
    assert!(fs::read(&seal).unwrap() == fs::read(&good).unwrap());
}

#[test]
fn without_repair_nothing_is_written() {
    let Some((world, [image, copy], digest, content)) = world_with_copies() else {
        return;
    };
    flip_where(&image, &content[100_000..][..64]);
    let damaged = fs::read(&image).unwrap();
    let options = ["--digest", &digest, "--mirror", copy.to_str().unwrap()];
    let daemon = Daemon::mount(&image, &world.path("mnt"), &options);
    assert!(fs::read(daemon.path("file")).unwrap() == content);
    assert!(metric(daemon.directory(), "healed_reads_total") > 0);
    daemon.unmount();
    assert!(fs::read(&image).unwrap() == damaged);
}

/// The first server ends when a little of the image was read: too little for the rest to be read ahead.
#[test]
fn the_end_of_a_server_fails_no_read() {
    let Some((world, [image, _], digest, content)) = world_with_copies() else {
        return;
    };
    let file = fs::read(&image).unwrap();
    let servers = [(); 2].map(|()| HttpServer::honest(&*file));
    let [first, second] = servers.each_ref().map(|server| server.url("/image"));
    let options = ["--digest", &digest, "--mirror", &second, "--no-cache"];
    let daemon = Daemon::mount(first.as_ref(), &world.path("mnt"), &options);
    assert!(fs::read(daemon.path("small")).unwrap() == b"small");
    let [first, second] = servers;
    drop(first);
    assert!(fs::read(daemon.path("file")).unwrap() == content);
    assert!(metric(daemon.directory(), "healed_reads_total") > 0);
    assert_eq!(metric(daemon.directory(), "mismatches_total"), 0);
    drop(second);
    let log = daemon.unmount();
    assert!(log.contains("a copy cannot be read there"), "{log}");
}

#[test]
fn a_mount_needs_only_one_of_its_places() {
    let Some((world, [_, copy], digest, content)) = world_with_copies() else {
        return;
    };
    let copy = copy.to_str().unwrap();
    for gone in [
        "http://127.0.0.1:1/image",
        world.path("gone").to_str().unwrap(),
    ] {
        let options = ["--digest", &digest, "--mirror", copy, "--no-cache"];
        let daemon = Daemon::mount(gone.as_ref(), &world.path("mnt"), &options);
        assert!(fs::read(daemon.path("file")).unwrap() == content);
        let log = daemon.unmount();
        assert!(log.contains("a copy cannot be opened there"), "{log}");
    }
}
