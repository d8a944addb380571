//! Equal trees give equal romfs images, and what these lose is said, or refused.

use std::time::SystemTime;

use crate::prelude::*;

fn built(world: &World, tree: &Path, options: &[&str]) -> Vec<u8> {
    let image = world.path("built");
    verimount(args!["build --format romfs", tree, &image; options.iter()]).succeeds();
    let bytes = fs::read(&image).unwrap();
    fs::remove_file(image).unwrap();
    bytes
}

#[test]
fn equal_trees_give_equal_images() {
    let world = World::new();
    let first = world.directory("first");
    create(&first, false);
    // Other times, another order of making it, and other owners.
    let second = world.directory("second");
    create(&second, true);
    if is_root() {
        give_away(&second);
    }
    for options in [
        &[][..],
        &["--no-seal"],
        &["--block-size", "1K", "--volume-name", "name"],
        &["--block-size", "64K", "--tree-block-size", "1K"],
        &["--hash-alg", "sha512", "--salt", "0123456789abcdef"],
    ] {
        let image = built(&world, &first, options);
        assert!(built(&world, &first, options) == image, "{options:?}");
        assert!(built(&world, &second, options) == image, "{options:?}");
    }
}

/// Each of these is part of the image.
#[test]
fn other_trees_give_other_images() {
    let world = World::new();
    let tree = world.directory("tree");
    let file = tree.join("file");
    fs::write(&file, "content").unwrap();
    let image = built(&world, &tree, &[]);
    let differs = |what: &str| assert!(built(&world, &tree, &[]) != image, "{what}");

    fs::write(&file, "Content").unwrap();
    differs("content");
    fs::write(&file, "content").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    differs("executable");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::hard_link(&file, tree.join("another")).unwrap();
    differs("another name");
    fs::remove_file(tree.join("another")).unwrap();
    fs::rename(&file, tree.join("renamed")).unwrap();
    differs("name");
    fs::rename(tree.join("renamed"), &file).unwrap();
    assert!(built(&world, &tree, &[]) == image);
    assert!(built(&world, &tree, &["--volume-name", "x"]) != image);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A tree that loses only times if root has made it.
fn plain_tree(world: &World) -> PathBuf {
    let tree = world.directory("tree");
    for name in ["a", "b", "c", "d", "e"] {
        fs::write(tree.join(name), name).unwrap();
        set_mode(&tree.join(name), 0o644);
    }
    tree
}

/// The notes that `build` prints with these options, except the one about owners, which depends on the user
/// who runs the tests.
fn notes(world: &World, tree: &Path, options: &[&str]) -> Vec<String> {
    let ended = verimount(args!["build --format romfs", tree, world.path("image"); options.iter()]);
    let notes = ended.succeeds().stderr.lines().map(str::to_owned);
    notes.filter(|note| !note.contains("owners")).collect()
}

const TIMES: &str = "note: romfs does not store times: all become 1970-01-01";

#[test]
fn each_kind_of_loss_is_reported_once() {
    let world = World::new();
    let tree = plain_tree(&world);
    assert_eq!(notes(&world, &tree, &[]), [TIMES]);
    for name in ["a", "b", "c", "d"] {
        set_mode(&tree.join(name), 0o664);
    }
    set_mode(&tree.join("e"), 0o4755);
    let expected = [
        TIMES,
        "note: romfs does not store the permissions of 4: a (0664 becomes 0644), \
         b (0664 becomes 0644), c (0664 becomes 0644), …",
        "note: romfs does not store the set-user-id, set-group-id or sticky bits of 1: e (4755)",
    ];
    assert_eq!(notes(&world, &tree, &[]), expected);
    if is_root() {
        give_away(&tree);
        let ended = verimount(args!["build --format romfs", &tree, world.path("image")]);
        let note = "note: romfs does not store the owners of 5: a (1234:5678), b (1234:5678), ";
        ended.succeeds().notes(note);
    }
}

/// Names come from untrusted users, and long ones would hide the rest.
#[test]
fn examples_are_short_and_plain() {
    let world = World::new();
    let tree = world.directory("tree");
    let folder = tree.join("f".repeat(90));
    fs::create_dir(&folder).unwrap();
    let name = "two\nlines, é".to_owned() + &"x".repeat(50);
    fs::write(folder.join(&name), "").unwrap();
    set_mode(&folder.join(&name), 0o666);
    let note = notes(&world, &tree, &[]).pop().unwrap();
    let end = r"/two\nlines, é".to_owned() + &"x".repeat(50) + " (0666 becomes 0644)";
    assert!(note.ends_with(&end), "{note}");
    assert!(note.contains(" of 1: …fff"), "{note}");
}

#[test]
fn widening_permissions_needs_an_option() {
    let world = World::new();
    let tree = plain_tree(&world);
    let (secret, folder) = (tree.join("b"), tree.join("folder"));
    fs::create_dir(&folder).unwrap();
    for (path, private, public) in [
        (&secret, 0o600, 0o644),
        (&secret, 0o640, 0o644),
        (&folder, 0o700, 0o755),
        (&tree, 0o700, 0o755),
    ] {
        set_mode(path, private);
        let build = || verimount(args!["build --format romfs", &tree, world.path("image")]);
        let ended = world.unchanged_by(build);
        let name = path.strip_prefix(&tree).unwrap().to_str().unwrap();
        let name = if name.is_empty() { "." } else { name };
        ended.fails_saying(&format!("1: {name} ({private:04o} becomes {public:04o});"));
        ended.notes("--widen-permissions");

        let notes = notes(&world, &tree, &["--widen-permissions"]).join("; ");
        assert!(notes.contains("read protection of 1: "), "{notes:?}");
        fs::remove_file(world.path("image")).unwrap();
        set_mode(path, public);
    }
    assert_eq!(notes(&world, &tree, &[]), [TIMES]);
}

#[test]
fn strict_refuses_any_loss() {
    let world = World::new();
    let tree = plain_tree(&world);
    let image = world.path("image");
    let refused = |strict: &str, words: &str| {
        let build = || verimount(args!["build --format romfs", strict, &tree, &image]);
        world.unchanged_by(build).fails_saying(words);
    };
    refused("--strict", "does not store times");
    refused("--strict=times", "does not store times");
    refused("--strict=holes,times", "does not store times");
    verimount(args![
        "build --format romfs --strict=permissions",
        &tree,
        &image
    ])
    .succeeds();
    set_mode(&tree.join("c"), 0o444);
    refused("--strict=permissions", "c (0444 becomes 0644)");

    set_mode(&tree.join("c"), 0o644);
    if is_root() {
        for path in ["a", "b", "c", "d", "e", ""] {
            let file = File::open(tree.join(path)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        verimount(args!["build --format romfs --strict", &tree, &image]).succeeds_quietly();
    }
}

/// Building an image of a file that cannot be stored fails, prints the path, and keeps an older image.
#[track_caller]
fn is_refused(world: &World, tree: &Path, what: &Path) {
    let image = world.write("image", "an older image");
    let ended = verimount(args!["build --format romfs --force", tree, &image]);
    // A name of any length is shown.
    ended.fails_saying(what.to_str().unwrap());
    assert_eq!(fs::read(&image).unwrap(), b"an older image");
    let beside = fs::read_dir(world.root()).unwrap();
    assert_eq!(beside.count(), 2, "something is left behind");
}

#[test]
fn files_that_do_not_fit_are_named() {
    let world = World::new();
    let tree = world.directory("tree");
    let name = tree.join("n".repeat(128));
    fs::write(&name, "").unwrap();
    is_refused(&world, &tree, &name);
    fs::remove_file(&name).unwrap();

    let huge = tree.join("huge");
    File::create(&huge).unwrap().set_len(1 << 32).unwrap();
    is_refused(&world, &tree, &huge);
    // Each of these fits, but not both.
    for name in ["another", "huge"] {
        let file = File::create(tree.join(name)).unwrap();
        file.set_len(3 << 30).unwrap();
    }
    is_refused(&world, &tree, &huge);
}
