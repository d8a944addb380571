//! What is built, and what is replaced; no incomplete file is left behind.

use rustix::fs::FileType;

use crate::prelude::*;

#[test]
fn the_digest_is_the_images() {
    let world = World::new();
    let tree = world.directory("tree");
    create(&tree, false);
    let (image, plain) = (world.path("image"), world.path("plain"));
    let digest = verimount(args!["build", &tree, &image]).digest();
    let unsealed = verimount(args!["build --no-seal", &tree, &plain]);
    assert_eq!(unsealed.succeeds().text(), "");
    assert_eq!(verimount(args!["digest", &plain]).digest(), digest);
    assert_eq!(verimount(args!["seal --append", &plain]).digest(), digest);
    assert!(fs::read(image).unwrap() == fs::read(plain).unwrap());
}

#[test]
fn other_files_are_replaced_only_by_force() {
    let world = World::new();
    let tree = world.directory("tree");
    fs::write(tree.join("file"), "content").unwrap();
    let image = world.write("image", "precious");
    let build = || verimount(args!["build", &tree, &image]);
    let ended = world.unchanged_by(build);
    ended.fails_saying("image: it exists and is not an image");
    ended.notes("--force");
    verimount(args!["build --force", &tree, &image]).succeeds();
    let made = fs::read(&image).unwrap();

    // An older image, a damaged one, and a file that has nothing to lose.
    let mut damaged = made.clone();
    damaged[1024 + 12] ^= 1;
    for older in [&made[..], &damaged, &made[..2000], &[]] {
        fs::write(&image, older).unwrap();
        build().succeeds();
        assert!(fs::read(&image).unwrap() == made);
    }
}

#[test]
fn a_tree_too_deep_is_refused() {
    let world = World::new();
    let tree = world.directory("tree");
    let mut path = tree.clone();
    for _ in 0..1030 {
        path.push("d");
    }
    fs::create_dir_all(&path).unwrap();
    let ended = verimount(args!["build", &tree, world.path("image")]);
    ended.fails_saying("nested");
    assert!(!world.path("image").exists());
    // As deep as it may be, it is stored and read.
    fs::remove_dir_all(&tree).unwrap();
    let path: PathBuf = [tree.as_path()]
        .into_iter()
        .chain([Path::new("d"); 1000])
        .collect();
    fs::create_dir_all(&path).unwrap();
    verimount(args!["build", &tree, world.path("image")]).succeeds();
    let listed = verimount(args!["ls", world.path("image")]);
    assert_eq!(listed.succeeds_quietly().text().lines().count(), 1000);
}

#[test]
fn unreadable_files_are_named() {
    let world = World::new();
    let tree = world.directory("tree");
    for unreadable in ["file", "folder"] {
        let path = tree.join(unreadable);
        match unreadable {
            "file" => fs::write(&path, "secret").unwrap(),
            _ => fs::create_dir(&path).unwrap(),
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        let user = User::ordinary(&world);
        user.own(world.root());
        let build = args!["build", &tree, world.path("image")];
        let ended = world.unchanged_by(|| verimount_as(&user, build));
        ended.fails_saying(path.to_str().unwrap());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let _ = fs::remove_file(&path);
    }
}

#[test]
fn only_directories_and_archives_are_built() {
    let world = World::new();
    let file = world.write("file", "content");
    // Nobody ever writes to it.
    let fifo = world.path("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let dangling = world.path("dangling");
    symlink("nowhere", &dangling).unwrap();
    for tree in [&file, &fifo, &dangling, &world.path("missing")] {
        let build = || verimount(args!["build", tree, world.path("image")]);
        world
            .unchanged_by(build)
            .fails_saying(tree.to_str().unwrap());
    }
}

/// Only a regular file is replaced by the image, not a device or a pipe.
#[test]
fn an_image_replaces_only_files() {
    let world = World::new();
    let tree = world.directory("tree");
    let folder = world.directory("folder");
    let fifo = world.path("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let missing = world.path("missing/image");
    let inside_a_file = world.write("file", "content").join("image");
    for image in [&folder, &fifo, &missing, &inside_a_file, &world.path("..")] {
        let build = || verimount(args!["build", &tree, image]);
        world.unchanged_by(build).fails();
    }
    assert!(!fs::metadata(&fifo).unwrap().is_file());
}

#[test]
fn readers_of_a_replaced_image_are_not_disturbed() {
    let world = World::new();
    let tree = world.directory("tree");
    let older = world.write("older", "an older image");
    let another_name = world.path("another name");
    fs::hard_link(&older, &another_name).unwrap();
    verimount(args!["build --force", &tree, &older]).succeeds();
    assert_eq!(fs::read(another_name).unwrap(), b"an older image");
    verimount(args!["verify", &older]).succeeds_quietly();
}

/// In such a directory a user may add files, but not replace those of others.
#[test]
fn no_file_is_left_if_the_name_cannot_be_taken() {
    needs!(root_or_skip());
    let world = World::new();
    let tree = world.directory("tree");
    let sticky = world.directory("sticky");
    fs::set_permissions(&sticky, fs::Permissions::from_mode(0o1777)).unwrap();
    let image = sticky.join("image");
    fs::write(&image, "of somebody else").unwrap();
    let user = User::ordinary(&world);
    let build = || verimount_as(&user, args!["build --force", &tree, &image]);
    world.unchanged_by(build).fails_saying("ermitted");
}

#[test]
fn an_unwritable_directory_stays_unchanged() {
    let world = World::new();
    let tree = world.directory("tree");
    let folder = world.directory("folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    let user = User::ordinary(&world);
    let build = || verimount_as(&user, args!["build", &tree, folder.join("image")]);
    world.unchanged_by(build).fails_saying("ermission denied");
}

/// The image must not become part of itself or of the next one.
#[test]
fn an_image_inside_its_own_tree_stays_the_same() {
    let world = World::new();
    let tree = world.directory("tree");
    fs::write(tree.join("file"), "content").unwrap();
    let image = tree.join("image");
    let mut results = Vec::new();
    for _ in 0..2 {
        let ended = verimount(args!["build", &tree, &image]);
        results.push((ended.status.code(), fs::read(&image).ok()));
    }
    assert!(
        results[0] == results[1],
        "the second image has the first in it"
    );
}
