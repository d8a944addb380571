//! Everything that is stored in an image can be read and extracted.

use crate::prelude::*;

/// A world with a tree that has everything, and its image.
fn built(options: &[&str]) -> (World, PathBuf, PathBuf) {
    let world = World::new();
    let tree = world.directory("tree");
    create(&tree, false);
    let image = world.path("image");
    verimount(args!["build", &tree, &image; options.iter()]).succeeds();
    (world, tree, image)
}

#[test]
fn everything_is_extracted_as_it_was() {
    for options in [
        &[][..],
        &["--block-size", "1K", "--tree-block-size", "1K"],
        &["--hash-alg", "sha512", "--salt", "00ff"],
        &["--format", "romfs"],
        &["--format", "romfs", "--block-size", "1M"],
    ] {
        let (world, tree, image) = built(options);
        let copy = world.path("copy");
        verimount(args!["extract", &image, &copy]).succeeds_quietly();
        assert_same(&snapshot(&copy).unwrap(), &snapshot(&tree).unwrap());
        // And the copy's image is the same.
        let again = world.path("again");
        verimount(args!["build", &copy, &again; options.iter()]).succeeds();
        assert!(fs::read(again).unwrap() == fs::read(image).unwrap());
    }
}

#[test]
fn everything_is_extracted_from_all_kinds_of_images() {
    let (world, tree, sealed) = built(&[]);
    let expected = snapshot(&tree).unwrap();
    let plain = world.path("plain");
    verimount(args!["build --no-seal", &tree, &plain]).succeeds();
    let beside = world.path("beside");
    fs::copy(&plain, &beside).unwrap();
    verimount(args!["seal", &beside]).succeeds_quietly();
    let elsewhere = world.path("elsewhere");
    fs::copy(world.path("beside.verity"), &elsewhere).unwrap();
    let digest = verimount(args!["digest", &plain]).digest();
    let reads = [
        args![&sealed, "--unpinned"],
        args![&sealed, "--digest", &digest],
        args![&sealed, "--unverified"],
        args![&beside, "--digest", &digest],
        args![&plain, "--unverified"],
        args![&plain, "--sidecar", &elsewhere, "--digest", &digest],
        args![&sealed, "--tree-cache", "0"],
        args![&sealed, "--tree-cache", "1T"],
    ];
    for (number, read) in reads.into_iter().enumerate() {
        let copy = world.path(&format!("copy {number}"));
        verimount([args!["extract"], read, args![&copy]].concat()).succeeds_quietly();
        assert_same(&snapshot(&copy).unwrap(), &expected);
    }
}

#[test]
fn images_of_genromfs_are_extracted() {
    let genromfs = needs!(tools::find("genromfs"));
    let (world, tree, _) = built(&[]);
    let image = world.path("theirs");
    let made = Command::new(genromfs)
        .args([
            "-d".as_ref(),
            tree.as_os_str(),
            "-f".as_ref(),
            image.as_os_str(),
        ])
        .status()
        .unwrap();
    assert!(made.success());
    verimount(args!["seal", &image]).succeeds_quietly();
    let copy = world.path("copy");
    verimount(args!["extract", &image, &copy]).succeeds_quietly();
    assert_same(&snapshot(&copy).unwrap(), &snapshot(&tree).unwrap());
}

#[test]
fn executable_bits_are_restored() {
    let (world, _, image) = built(&[]);
    let copy = world.path("copy");
    verimount(args!["extract", &image, &copy]).succeeds_quietly();
    let mode = |name: &str| fs::metadata(copy.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("bin/program"), 0o755);
    assert_eq!(mode("data/large"), 0o644);
}

/// Device nodes are skipped with a message; everything else is extracted.
#[test]
fn an_ordinary_user_extracts_all_but_devices() {
    let (world, tree, image) = built(&[]);
    let user = User::ordinary(&world);
    let home = world.directory("home");
    user.own(&home);
    let copy = home.join("copy");
    let ended = verimount_as(&user, args!["extract", &image, &copy]);
    ended.succeeds();
    if is_root() {
        ended.notes("special files, 2: ");
    }
    let mut expected = snapshot(&tree).unwrap();
    expected.retain(|_, (_, stored)| !matches!(stored, Stored::Device { .. }));
    assert_same(&snapshot(&copy).unwrap(), &expected);
}

#[test]
fn only_an_empty_directory_is_filled() {
    let world = World::new();
    let image = world.sealed_image("image");
    let full = world.directory("full");
    fs::write(full.join("file"), "").unwrap();
    let file = world.write("file", "");
    let to_full = world.path("link to full");
    symlink(&full, &to_full).unwrap();
    let to_nowhere = world.path("link to nowhere");
    symlink(world.path("nowhere"), &to_nowhere).unwrap();
    let missing = world.path("missing/folder");
    for directory in [&full, &file, &to_full, &to_nowhere, &missing] {
        let extract = || verimount(args!["extract", &image, directory]);
        world
            .unchanged_by(extract)
            .fails_saying(directory.to_str().unwrap());
    }
    let empty = world.directory("empty");
    verimount(args!["extract", &image, &empty]).succeeds_quietly();
    assert_eq!(fs::read(empty.join("hello")).unwrap(), b"Hello, world!\n");
}

#[test]
fn ls_names_everything() {
    let (_world, tree, image) = built(&[]);
    let expected = snapshot(&tree).unwrap().into_keys();
    let expected: BTreeSet<_> = expected
        .map(|path| match path.as_os_str().as_bytes() {
            b"not text \xff\xfe" => r"not text \xff\xfe".to_owned(),
            b"two\nlines" => r"two\nlines".to_owned(),
            plain => str::from_utf8(plain).unwrap().to_owned(),
        })
        .collect();
    let listed = verimount(args!["ls", &image]);
    let lines = listed.succeeds_quietly().text().lines().map(str::to_owned);
    assert_eq!(lines.clone().count(), expected.len());
    assert_eq!(lines.collect::<BTreeSet<_>>(), expected);
}

#[test]
fn ls_shows_what_is_below_a_path() {
    let (_world, tree, image) = built(&[]);
    let below: BTreeSet<_> = snapshot(&tree)
        .unwrap()
        .into_keys()
        .filter(|path| path.starts_with("data"))
        .collect();
    for path in ["data", "/data", "data/", "/data/"] {
        let listed = verimount(args!["ls", &image, path]);
        let listed = listed.succeeds_quietly().text().lines().map(PathBuf::from);
        assert_eq!(listed.collect::<BTreeSet<_>>(), below, "{path}");
    }
    for path in ["no such path", "dat", "data/large/x", "../tree"] {
        verimount(args!["ls", &image, path]).fails_saying(path);
    }
}

/// Damage elsewhere does not matter.
#[test]
fn ls_reads_only_what_is_below_a_path() {
    let world = World::new();
    let tree = world.directory("tree");
    for directory in ["damaged", "sound"] {
        fs::create_dir(tree.join(directory)).unwrap();
        // Their names alone fill more than two blocks.
        for number in 0..1000 {
            let name = format!("{directory}/{directory} {number:03}");
            fs::write(tree.join(name), "").unwrap();
        }
    }
    let image = world.path("image");
    verimount(args!["build --format romfs", &tree, &image]).succeeds();
    // As they are in the index.
    flip_where(&image, b"damaged 500damaged 501");

    verimount(args!["ls", &image]).fails_saying("does not match");
    verimount(args!["ls", &image, "damaged"]).fails_saying("does not match");
    let listed = verimount(args!["ls", &image, "sound"]);
    assert_eq!(listed.succeeds_quietly().text().lines().count(), 1001);
    let listed = verimount(args!["ls", &image, "sound/sound 007"]);
    assert_eq!(listed.succeeds_quietly().text(), "sound/sound 007\n");
}

#[test]
fn ls_shows_types_permissions_and_sizes() {
    let world = World::new();
    let tree = world.directory("tree");
    fs::create_dir(tree.join("folder")).unwrap();
    fs::write(tree.join("file"), "content").unwrap();
    fs::write(tree.join("program"), "").unwrap();
    fs::set_permissions(tree.join("program"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("file", tree.join("link")).unwrap();
    let image = world.path("image");
    verimount(args!["build --format romfs", &tree, &image]).succeeds();
    let listed = verimount(args!["ls --long", &image]);
    let date = "1970-01-01 00:00:00.000000000 +0000";
    assert_eq!(
        listed.succeeds_quietly().text(),
        format!(
            "-rw-r--r--    1     0     0            7 {date} file\n\
             drwxr-xr-x    1     0     0            0 {date} folder\n\
             lrwxrwxrwx    1     0     0            4 {date} link -> file\n\
             -rwxr-xr-x    1     0     0            0 {date} program\n"
        )
    );
}

#[test]
fn cat_prints_every_file() {
    let (_world, tree, image) = built(&[]);
    let mut everything = Vec::new();
    let mut arguments = args!["cat", &image];
    for (path, (_, stored)) in snapshot(&tree).unwrap() {
        if let Stored::File { content, .. } = stored {
            everything.extend(content);
            arguments.push(path.into());
        }
    }
    let ended = verimount(arguments);
    ended.succeeds_quietly();
    assert!(ended.stdout == everything, "other bytes");
    let absolute = verimount(args!["cat", &image, "/sizes/4097"]);
    assert_eq!(absolute.stdout, fs::read(tree.join("sizes/4097")).unwrap());
}

#[test]
fn cat_refuses_everything_but_files() {
    let (_world, _, image) = built(&[]);
    let others = [
        "/",
        ".",
        "..",
        "data",
        "data/..",
        "a link",
        "dangling",
        "fifo",
        "socket",
        "no such file",
        "data/large/x",
        "a link/x",
    ];
    for path in others {
        let ended = verimount(args!["cat", &image, path]);
        ended.fails_saying(path);
        assert!(ended.stdout.is_empty());
    }
    // What came before it was right, and is written.
    let ended = verimount(args![
        "cat",
        &image,
        "sizes/1",
        "no such file",
        "sizes/1023"
    ]);
    ended.fails();
    assert_eq!(ended.stdout.len(), 1);
}

/// As `fsverity digest` prints them, bad ones aside.
#[test]
fn digests_of_many_files() {
    let world = World::new();
    let empty = world.write("empty", "");
    let file = world.write("file", "content");
    let missing = world.path("missing");
    let all = [&empty, &missing, &file].map(|path: &PathBuf| path.as_path());
    let ended = verimount([Path::new("digest")].into_iter().chain(all));
    ended.fails_saying(missing.to_str().unwrap());
    let lines: Vec<_> = ended.text().lines().collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(
        lines[0],
        format!(
            "sha256:3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95 {}",
            empty.to_str().unwrap()
        )
    );
    if let Some(fsverity) = tools::find("fsverity") {
        let theirs = Command::new(fsverity)
            .arg("digest")
            .arg(&empty)
            .arg(&file)
            .output();
        assert_eq!(ended.stdout, theirs.unwrap().stdout);
    }
    let compact = verimount(args!["digest --compact", &empty]);
    let digits = "3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95\n";
    assert_eq!(compact.succeeds_quietly().text(), digits);
}
