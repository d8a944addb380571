//! Images made by an attacker, with valid checksums and hashes: the author of a seal can write anything
//! into the image. They are refused with one line, in bounded time and memory.

mod images;

use self::images::{deep, defects, doubling};
use crate::prelude::*;
use verimount_testkit::romfs_image::{DIRECTORY, FILE};

/// The private memory that the command may use, in bytes. More is refused, which ends it in a way that no
/// test takes for an error message.
const MEMORY: u64 = 200 << 20;

/// The command with its memory bounded.
fn bounded() -> Command {
    let prlimit = tools::find("prlimit").expect("util-linux is part of every system");
    let mut command = Command::new(prlimit);
    command.arg(format!("--data={MEMORY}")).arg(binary());
    command
}

fn run(arguments: impl IntoIterator<Item = OsString>) -> Ended {
    let mut command = bounded();
    command.args(arguments);
    finish(command)
}

/// An image to be changed: directories inside each other, files, a link.
fn sample(world: &World) -> RomfsImage {
    let tree = world.directory("tree");
    fs::create_dir_all(tree.join("outer/inner")).unwrap();
    fs::create_dir(tree.join("second")).unwrap();
    fs::write(tree.join("outer/inner/deep"), "deep\n").unwrap();
    for name in ["abc", "abd", "xyz"] {
        fs::write(tree.join(name), name).unwrap();
    }
    std::os::unix::fs::symlink("abc", tree.join("link")).unwrap();
    let image = world.path("sample");
    verimount(args!["build --format romfs --no-seal", &tree, &image]).succeeds();
    RomfsImage(fs::read(image).unwrap())
}

/// What users do with an image whose author they trust.
#[track_caller]
fn is_refused(world: &World, what: &str, image: &RomfsImage) {
    eprintln!("{what}");
    let path = world.write("image", &image.0);
    verimount(args!["seal --append", &path]).succeeds_quietly();
    run(args!["ls", &path]).fails();
    let copy = world.path("copy");
    run(args!["extract", &path, &copy]).fails();
    for entry in fs::read_dir(world.root()).unwrap() {
        let name = entry.unwrap().file_name();
        let ours = ["tree", "sample", "image", "copy", "mnt"];
        assert!(
            ours.iter().any(|our| name == *our),
            "{name:?} was written outside"
        );
    }
    let _ = fs::remove_dir_all(&copy);
    // The bytes are those that were sealed; whether the image is a sound one is said, too.
    let verified = run(args!["verify", &path]);
    assert!(
        matches!(verified.status.code(), Some(0 | 1)),
        "{verified:?}"
    );
    assert!(verified.stderr.lines().count() <= 1 && !verified.stderr.contains("panicked"));
    run(args!["cat", &path, "no such file"]).fails();
    if fuse_or_skip() {
        mounted_and_walked(world, &path);
    }
    fs::remove_file(path).unwrap();
}

/// Mounts it, if possible, and walks through it for a while: that must end.
#[track_caller]
fn mounted_and_walked(world: &World, image: &Path) {
    let directory = world.path("mnt");
    if !directory.exists() {
        fs::create_dir(&directory).unwrap();
    }
    match Daemon::start(bounded(), image, &directory, &["--unpinned"]) {
        Ok(mut daemon) => {
            daemon.bites_after(Duration::from_secs(60));
            walk_for_a_while(&directory);
            assert!(!daemon.unmount().contains("panicked"));
        }
        Err(said) => {
            assert_eq!(said.lines().count(), 1, "{said}");
            assert!(said.starts_with("verimount: "), "{said}");
        }
    }
}

/// Reads everything, as `cp -r` would; stops at some point in an endless tree.
fn walk_for_a_while(root: &Path) {
    const STEPS: usize = 2000;
    let mut pending = vec![root.to_owned()];
    for _ in 0..STEPS {
        let path = needs!(pending.pop());
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        if metadata.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten();
            pending.extend(entries.flatten().map(|entry| entry.path()));
        } else if metadata.is_symlink() {
            let _ = fs::read_link(&path);
        } else {
            let _ = File::open(&path).and_then(|file| file.read_at(&mut [0; 4096], 0));
        }
    }
}

#[test]
fn defects_are_refused() {
    let world = World::new();
    for (what, image) in defects(&sample(&world)) {
        is_refused(&world, what, &image);
    }
}

/// The reason for refusals is the defect, and nothing else that the tests do.
#[test]
fn the_samples_are_sound_but_for_what_is_changed() {
    let world = World::new();
    let sample = sample(&world);
    for (image, lines) in [
        (&sample, 8),
        (&sample.clone().without_index(), 8),
        (&deep(1000), 999),
        (&doubling(1), 2),
    ] {
        let path = world.write("image", &image.0);
        verimount(args!["seal --append", &path]).succeeds_quietly();
        let listed = run(args!["ls", &path]);
        assert_eq!(listed.succeeds_quietly().text().lines().count(), lines);
    }
}

/// The index and the headers have different trees, each valid: a reader of one sees other files than a
/// reader of the other. Only `verify` compares both.
#[test]
fn an_index_that_shows_another_tree_is_found() {
    let world = World::new();
    let sample = sample(&world);
    let [abc, abd] = ["abc", "abd"].map(|name| sample.index_record(&sample.header(name)));
    let mut exchanged = sample.clone();
    for word in [4, 8, 12] {
        exchanged.set_word(abc + word, sample.word(abd + word));
        exchanged.set_word(abd + word, sample.word(abc + word));
    }
    let path = world.write("image", &exchanged.0);
    verimount(args!["seal --append", &path]).succeeds_quietly();
    assert_eq!(run(args!["cat", &path, "abc"]).text(), "abd");
    for json in [&["--json"][..], &[]] {
        let verify = args!["verify", &path; json.iter()];
        let ended = run(verify);
        ended.reports_bad_data();
        ended.says("disagree");
    }
}

/// Two files, one inside the other: they are copied only while that takes no more bytes
/// than the image has.
#[test]
fn overlapping_files_take_no_more_than_the_image() {
    let world = World::new();
    let (first, second) = (RomfsImage::ROOT + 32, RomfsImage::ROOT + 64);
    let mut image = RomfsImage::crafted(&[
        (
            RomfsImage::ROOT,
            first as u32 | DIRECTORY | 8,
            RomfsImage::ROOT as u32,
            ".",
        ),
        (first, second as u32 | FILE, 0, "first"),
        (second, FILE, 0, "second"),
    ]);
    let size = image.word(8);
    let up_to_end = size - first as u32 - 32;
    let (first, second) = (image.header("first"), image.header("second"));
    image.change(&first, 2, up_to_end);
    for (excess, fits) in [(0, true), (1, false)] {
        image.change(&second, 2, size - up_to_end + excess);
        let path = world.write("image", &image.0);
        let copy = world.path(if fits { "fits" } else { "does not fit" });
        let ended = run(args!["extract", &path, &copy, "--unverified"]);
        if fits {
            ended.succeeds_quietly();
            let len = |name: &str| fs::metadata(copy.join(name)).unwrap().len();
            assert_eq!(len("first") + len("second"), u64::from(size));
        } else {
            ended.fails();
            ended.notes("overlap");
            assert_eq!(fs::metadata(copy.join("second")).unwrap().len(), 0);
        }
    }
}

/// Files that are huge, but sparse: their sizes are plausible.
fn sparse(world: &World, image: &RomfsImage, len: u64) -> PathBuf {
    let path = world.write("sparse", &image.0);
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(len).unwrap();
    path
}

#[test]
fn huge_sizes_that_are_there() {
    let world = World::new();
    let sample = sample(&world);
    // 4 GiB of image, all of it there.
    let mut large = sample.clone().without_index();
    large.set_word(8, u32::MAX);
    large.fix_superblock();
    let path = sparse(&world, &large, 1 << 32);
    run(args!["ls", &path, "--unverified"]).succeeds_quietly();

    // An index whose counts are all believable.
    let index = sample.index();
    for (word, count) in [
        (8, 1 << 20),
        (12, 1 << 20),
        (16, 1 << 27),
        (12, u32::MAX),
        (16, u32::MAX),
    ] {
        let mut large = sample.clone();
        large.set_word(index + word, count);
        let path = sparse(&world, &large, 1 << 40);
        run(args!["ls", &path, "--unverified"]).fails();
        run(args!["cat", &path, "abc", "--unverified"]).fails();
    }
    // One directory with as many entries as there may be, and names as long.
    let mut one = sample.clone();
    for (word, count) in [(8, 1), (12, 1 << 20), (16, 1 << 27)] {
        one.set_word(index + word, count);
    }
    let path = sparse(&world, &one, 1 << 40);
    run(args!["ls", &path, "--unverified"]).fails();
}

/// A descriptor with a wrong size of the data.
#[test]
fn sizes_in_descriptors() {
    let world = World::new();
    let image = world.sealed_image("image");
    let sealed = fs::read(&image).unwrap();
    let descriptor = sealed.len() - 4096;
    let sizes = [
        0,
        1,
        4096,
        1 << 20,
        1 << 32,
        1 << 40,
        (1 << 63) - 1,
        1 << 63,
        u64::MAX,
    ];
    for size in sizes {
        let mut bytes = sealed.clone();
        bytes[descriptor + 8..descriptor + 16].copy_from_slice(&size.to_le_bytes());
        fs::write(&image, &bytes).unwrap();
        for subcommand in ["verify", "ls"] {
            run(args![subcommand, &image]).fails();
        }
        // As large as it says, without taking storage.
        if size == 1 << 40 {
            let file = File::options().write(true).open(&image).unwrap();
            file.set_len(size).unwrap();
            run(args!["ls", &image]).fails();
        }
    }
}
