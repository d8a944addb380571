//! Files that are in several places. What is served while places fail, `verimount` tests by itself; mounts are in `mounting`.

use crate::prelude::*;

/// A damaged file with its seal, a good copy, and its content.
fn damaged(world: &World) -> (PathBuf, PathBuf, Vec<u8>) {
    let content = noise(1_000_000, 1);
    let (file, copy) = (world.write("file", &content), world.write("copy", &content));
    for file in [&file, &copy] {
        verimount(args!["seal", file]).succeeds_quietly();
    }
    flip_at(&file, 300_000);
    // A block of the tree, and the descriptor.
    let seal = world.path("file.verity");
    flip_at(&seal, 5000);
    flip_at(&seal, fs::metadata(&seal).unwrap().len() - 4000);
    (file, copy, content)
}

/// Who may not look whether it exists is not told that it does not.
#[test]
fn a_mirror_that_does_not_exist_is_told() {
    let world = World::new();
    let image = world.sealed_image("image");
    let user = User::ordinary(&world);
    let hidden = world.directory("hidden");
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o000)).unwrap();
    let verify = |mirror: &Path| {
        verimount_as(
            &user,
            args!["verify", &image, "--unpinned", "--mirror", mirror],
        )
    };
    verify(&world.path("missing")).notes("missing does not exist");
    let ended = verify(&hidden.join("copy"));
    assert!(!ended.stderr.contains("does not exist"), "{ended:?}");
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_file_and_its_tree_are_repaired() {
    let world = World::new();
    let (file, copy, content) = damaged(&world);
    let digest = verimount(args!["digest", &copy]).digest();
    verimount(args![
        "verify", &file, "--digest", &digest, "--mirror", &copy
    ])
    .fails_saying("file");
    let repair = args![
        "verify",
        &file,
        "--digest",
        &digest,
        "--repair-from",
        &copy,
        "--json"
    ];
    let json = verimount(repair).succeeds().json();
    assert_eq!(json["ok"], true);
    assert_eq!(json["repaired"], json!({"ranges": 3, "bad_bytes": 0}));
    assert!(fs::read(&file).unwrap() == content);
    let seals = ["file.verity", "copy.verity"].map(|name| fs::read(world.path(name)).unwrap());
    assert!(seals[0] == seals[1]);
    verimount(args!["verify", &file, "--digest", &digest]).succeeds_quietly();
}

/// Nobody else has it.
#[test]
fn a_signature_outlives_a_damaged_descriptor() {
    let world = World::new();
    let (file, copy) = (world.sealed_image("file"), world.sealed_image("copy"));
    let digest = verimount(args!["verify", &copy, "--json"]).json()["digest"].clone();
    let (_, key) = world.keys("signer");
    verimount(args!["sign", &file, "--key", &key]).succeeds();
    flip_at(&file, fs::metadata(&file).unwrap().len() - 4000);
    let before = fs::read(&file).unwrap();
    let digest = digest.as_str().unwrap();
    let repair = args!["verify", &file, "--digest", digest, "--repair-from", &copy];
    verimount(repair).fails_saying("corrupt");
    assert!(fs::read(&file).unwrap() == before);
}

#[test]
fn what_is_bad_in_a_file_is_bad_whatever_its_mirrors_have() {
    let world = World::new();
    let image = world.sealed_image("image");
    let copy = world.sealed_image("copy");
    let digest = verimount(args!["verify", &image, "--json"]).json()["digest"].clone();
    let digest = digest.as_str().unwrap();
    flip_where(&image, b"Hello, world!\n");
    let cat = args!["cat", &image, HELLO, "--digest", digest, "--mirror", &copy];
    assert_eq!(verimount(cat).succeeds().text(), "Hello, world!\n");
    let options = args!["verify", &image, "--digest", digest, "--mirror", &copy];
    verimount(options).reports_bad_data().says("  in hello");
    // What is bad everywhere stays so.
    flip_where(&copy, b"Hello, world!\n");
    let repair = args!["verify", &image, "--digest", digest, "--repair-from", &copy];
    verimount(repair).reports_bad_data().says("are still bad");
}

#[test]
fn another_file_is_no_mirror() {
    let world = World::new();
    let image = world.sealed_image("image");
    let digest = verimount(args!["verify", &image, "--json"]).json()["digest"].clone();
    let other = world.write("other", noise(50_000, 2));
    verimount(args!["seal --append", &other]).succeeds_quietly();
    flip_where(&image, b"Hello, world!\n");
    let cat = args![
        "cat",
        &image,
        HELLO,
        "--digest",
        digest.as_str().unwrap(),
        "--mirror",
        &other
    ];
    verimount(cat).fails();
}
