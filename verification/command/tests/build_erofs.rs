//! EROFS images keep everything, and options change what is kept.

use std::time::SystemTime;

use crate::prelude::*;

/// The image that is built with these options.
fn built(world: &World, tree: &Path, options: &[&str]) -> Vec<u8> {
    let image = world.path("built");
    // Nothing is lost, so there is nothing to say.
    assert_eq!(
        verimount(args!["build", tree, &image; options.iter()])
            .succeeds()
            .stderr,
        ""
    );
    let bytes = fs::read(&image).unwrap();
    fs::remove_file(image).unwrap();
    bytes
}

/// A tree with a few files, all with this time.
fn small_tree(world: &World, name: &str, seconds: u64) -> PathBuf {
    let tree = world.directory(name);
    fs::create_dir(tree.join("sub")).unwrap();
    fs::write(tree.join("file"), "content").unwrap();
    fs::write(tree.join("sub/program"), [1; 10_000]).unwrap();
    fs::set_permissions(tree.join("sub/program"), fs::Permissions::from_mode(0o750)).unwrap();
    set_times(&tree, seconds);
    tree
}

fn set_times(tree: &Path, seconds: u64) {
    for path in ["file", "sub/program", "sub", ""] {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let file = File::open(tree.join(path)).unwrap();
        file.set_modified(time).unwrap();
    }
}

#[test]
fn an_image_is_verified_listed_and_extracted() {
    let world = World::new();
    let tree = world.directory("tree");
    create(&tree, false);
    let (image, copy) = (world.path("image"), world.path("copy"));
    let build = args!["build --strict", &tree, &image];
    let digest = verimount(build).digest();
    verimount(args!["verify", &image, "--digest", &digest]).succeeds_quietly();
    let described = verimount(args!["info", &image]);
    described.succeeds().says("erofs");
    verimount(args!["extract", &image, &copy, "--digest", &digest]).succeeds();
    assert_same(&snapshot(&copy).unwrap(), &snapshot(&tree).unwrap());
    // It is recognised as an older image.
    assert_eq!(verimount(args!["build", &tree, &image]).digest(), digest);
}

#[test]
fn compressed_images_hold_the_same() {
    let world = World::new();
    let tree = world.directory("tree");
    create(&tree, false);
    fs::write(tree.join("text"), "the same line\n".repeat(100_000)).unwrap();
    let plain = built(&world, &tree, &[]).len();
    for options in [
        &["--compress", "lz4"][..],
        &["--compress", "lz4,9", "--cluster", "4K"],
        &["--compress", "zstd,6", "--cluster", "256K"],
    ] {
        let image = built(&world, &tree, options);
        assert!(image.len() + 1_000_000 < plain, "{}", image.len());
        let (image, copy) = (world.write("image", image), world.path("copy"));
        verimount(args!["extract", &image, &copy]).succeeds();
        assert_same(&snapshot(&copy).unwrap(), &snapshot(&tree).unwrap());
        fs::remove_dir_all(copy).unwrap();
    }
}

#[test]
fn equal_trees_give_equal_images() {
    let world = World::new();
    let tree = small_tree(&world, "tree", 1000);
    let other = small_tree(&world, "other", 1000);
    for options in [
        &[][..],
        &["--no-seal"],
        &["--block-size", "64K", "--volume-name", "name"],
        &["--block-size", "512"],
    ] {
        let image = built(&world, &tree, options);
        assert!(built(&world, &other, options) == image, "{options:?}");
    }
    let image = built(&world, &tree, &[]);
    let differs = |what: &str| assert!(built(&world, &other, &[]) != image, "{what}");
    set_times(&other, 1001);
    differs("times");
    set_times(&other, 1000);
    fs::set_permissions(other.join("file"), fs::Permissions::from_mode(0o600)).unwrap();
    differs("permissions");
    if is_root() {
        let given = small_tree(&world, "given", 1000);
        give_away(&given);
        assert!(built(&world, &given, &[]) != image);
        assert!(built(&world, &given, &["--all-root"]) == image);
        let owner = ["--owner", "1234:5678"];
        assert!(built(&world, &given, &owner) == built(&world, &tree, &owner));
    }
}

#[test]
fn options_say_what_is_kept() {
    let world = World::new();
    let tree = small_tree(&world, "tree", 1000);
    let image = built(&world, &tree, &[]);
    let more = small_tree(&world, "more", 1000);
    fs::write(more.join("left out"), "").unwrap();
    fs::create_dir(more.join("sub/cache")).unwrap();
    fs::write(more.join("sub/cache/file"), "").unwrap();
    set_times(&more, 1000);
    let exclude = ["--exclude", "left*", "--exclude", "**/cache"];
    assert!(built(&world, &more, &exclude) == image);

    set_times(&more, 2000);
    symlink("nowhere", more.join("left out too")).unwrap();
    let all = |time| [&exclude[..], &["--mtime", time]].concat();
    assert!(built(&world, &more, &all("1000")) == image);
    assert!(built(&world, &more, &all("1000.000000001")) != image);
    assert!(built(&world, &more, &all("-1")) == built(&world, &tree, &["--mtime", "-1"]));
}

#[test]
fn source_date_epoch_is_the_latest_time() {
    let world = World::new();
    let tree = small_tree(&world, "tree", 1000);
    let older = built(&world, &tree, &[]);
    let build = |epoch: &str| {
        let image = world.path("image");
        let mut command = User::Current.command();
        command.args(args!["build", &tree, &image]);
        command.env("SOURCE_DATE_EPOCH", epoch);
        let ended = finish(command);
        (ended, fs::read(&image).ok())
    };
    let (ended, image) = build("1000");
    ended.succeeds();
    assert!(image == Some(older.clone()));
    let (ended, image) = build("999");
    ended.succeeds();
    assert!(image.is_some() && image != Some(older));
    let (ended, _) = build("yesterday");
    ended.is_wrong_usage();
    ended.notes("SOURCE_DATE_EPOCH");
}

#[test]
fn options_may_stand_anywhere() {
    let world = World::new();
    let tree = small_tree(&world, "tree", 1000);
    let [one, two] = ["one", "two"].map(|name| world.path(name));
    verimount(args!["build --mtime 0", &tree, &one]).succeeds();
    verimount(args!["build", &tree, "--mtime=0", &two]).succeeds();
    assert_eq!(fs::read(one).unwrap(), fs::read(two).unwrap());
    let ended = world.unchanged_by(|| verimount(args!["build", &tree, "--mtime=0"]));
    ended
        .is_wrong_usage()
        .notes("the image to create is missing");
}

#[test]
fn what_does_not_fit_the_format_is_wrong_usage() {
    let world = World::new();
    let tree = small_tree(&world, "tree", 1000);
    for (format, option, value) in [
        ("erofs", "--block-size", "128K"),
        ("erofs", "--block-size", "3000"),
        ("erofs", "--volume-name", "more than 16 bytes"),
        ("erofs", "--cluster", "64K"),
        ("romfs", "--block-size", "512"),
        ("romfs", "--compress", "lz4"),
    ] {
        let build = args![
            "build --format",
            format,
            &tree,
            world.path("image"),
            option,
            value
        ];
        let ended = world.unchanged_by(|| verimount(build));
        ended.is_wrong_usage();
        ended.notes(option);
    }
    verimount(args![
        "build",
        &tree,
        world.path("image"),
        "--all-root",
        "--owner",
        "1:1"
    ])
    .is_wrong_usage();
}
