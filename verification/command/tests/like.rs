//! Fetching only what changed.

use crate::common::nginx::Nginx;
use crate::prelude::*;

/// Two releases of a tree, as images with these names; returns the digest of the newer one.
fn two_releases(world: &World) -> String {
    let tree = world.directory("tree");
    world.write("tree/large", noise(2 << 20, 1));
    for number in 0..200 {
        world.write(&format!("tree/small {number}"), noise(1000 + number * 7, 2));
    }
    // With times of their own, the one that most files have, which is stored once, could be another after a change.
    verimount(args!["build --mtime 0", &tree, world.path("old")]).succeeds();
    world.write("tree/another", noise(9000, 3));
    world.write("tree/small 77", noise(900, 4));
    verimount(args!["build --mtime 0", &tree, world.path("new")]).digest()
}

#[test]
fn only_what_changed_is_copied_and_mounted() {
    let world = needs!(World::with_mount_point());
    let digest = two_releases(&world);
    let server = needs!(Nginx::start(&world));
    let (old, url) = (world.path("old"), server.url("new"));

    let difference = verimount(args![
        "diff --json",
        &old,
        &url,
        "--digest",
        &digest,
        "--no-cache"
    ]);
    let difference: Value = difference.succeeds_quietly().json();
    let fetched = difference["fetched"].as_u64().unwrap();
    // The metadata, the new file, and a group of small files.
    assert!(fetched < 150_000, "{difference}");
    assert!(difference["new_blocks"].as_u64() < Some(40), "{difference}");
    let files = difference["files"].as_array().unwrap();
    assert!(files.contains(&"another".into()) && files.contains(&"small 77".into()));

    let copy = world.path("copy");
    verimount(args![
        "pull", &url, &copy, "--digest", &digest, "--like", &old
    ])
    .succeeds_quietly();
    assert!(fs::read(&copy).unwrap() == fs::read(world.path("new")).unwrap());

    // Nothing of it is trusted.
    flip_at(&old, 1 << 20);
    let mnt = world.path("mnt");
    let old = old.to_str().unwrap();
    let options = ["--digest", &digest, "--like", old, "--no-cache"];
    let mounted = Daemon::mount(Path::new(&url), &mnt, &options);
    assert_same(
        &snapshot(&mnt).unwrap(),
        &snapshot(&world.path("tree")).unwrap(),
    );
    mounted.unmount();
}

#[test]
fn what_cannot_be_used_is_said_once() {
    let world = World::new();
    let digest = two_releases(&world);
    let other = world.write("other", noise(100_000, 1));
    verimount(args!["seal --append --hash-alg sha512", &other]).succeeds();
    let server = needs!(Nginx::start(&world));
    let arguments = args![
        "pull",
        server.url("new"),
        world.path("copy"),
        "--digest",
        &digest
    ];
    let arguments = [
        arguments,
        args!["--like", &other, "--like", world.path("missing")],
    ]
    .concat();
    let pulled = verimount(arguments);
    pulled.succeeds();
    let told = &pulled.stderr;
    assert_eq!(told.matches("nothing is shared with").count(), 2, "{told}");
    assert!(told.contains("another hash, block size or salt"), "{told}");
    let compared = verimount(args![
        "diff",
        &other,
        world.path("new"),
        "--digest",
        &digest
    ]);
    compared.succeeds().says("nothing is shared");
    verimount(args![
        "diff",
        world.path("missing"),
        world.path("new"),
        "--unpinned"
    ])
    .fails_saying("missing");
}
