//! `verify` names the files of bad ranges in EROFS images.

use crate::prelude::*;

/// A sealed image.
struct Sample {
    world: World,
    bytes: Vec<u8>,
}

impl Sample {
    /// The image that `build` makes.
    fn built(add: impl FnOnce(&Path)) -> Self {
        let world = World::new();
        let (tree, image) = (world.directory("tree"), world.path("image"));
        add(&tree);
        verimount(args!["build --format erofs", &tree, &image]).succeeds();
        let bytes = fs::read(image).unwrap();
        Self { world, bytes }
    }

    fn position(&self, bytes: &[u8]) -> u64 {
        position_of(bytes, &self.bytes) as u64
    }

    /// The files that are named if the byte at this position is changed, and the note.
    fn named(&self, position: u64) -> (BTreeSet<String>, String) {
        let image = self.world.path("image");
        flip_at(&image, position);
        let ended = verimount(args!["verify --json --unpinned", &image]);
        flip_at(&image, position);
        ended.reports_bad_data();
        let report: Value = ended.json();
        let [bad] = report["bad"].as_array().unwrap().as_slice() else {
            panic!("{report}");
        };
        let files = bad["files"].as_array().unwrap().iter();
        let names = files.map(|file| file.as_str().unwrap().to_owned());
        (names.collect(), ended.stderr)
    }
}

fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

fn add_all_kinds(tree: &Path) {
    let path = |name: &str| -> PathBuf { tree.join(name) };
    for folder in ["folder", "later"] {
        fs::create_dir(path(folder)).unwrap();
    }
    for number in 0..300 {
        fs::write(path("folder").join(format!("an empty file {number}")), "").unwrap();
    }
    for (name, content) in [
        ("plain", noise(50_000, 1)),
        ("one of two", noise(30_000, 2)),
        ("two of two", noise(30_000, 2)),
        // In a block without directories.
        ("later/inline", noise(3900, 3)),
    ] {
        fs::write(path(name), content).unwrap();
    }
    fs::hard_link(path("plain"), path("later/hard")).unwrap();
    let sparse = File::create(path("sparse")).unwrap();
    sparse.write_all_at(&noise(5000, 4), 1 << 20).unwrap();
}

#[test]
fn files_are_named_however_they_are_stored() {
    let sample = Sample::built(add_all_kinds);
    for (content, expected) in [
        (noise(50_000, 1), names(["plain", "later/hard"])),
        (noise(30_000, 2), names(["one of two", "two of two"])),
        (noise(5000, 4), names(["sparse"])),
    ] {
        let position = sample.position(&content[..100]) + 4096;
        assert_eq!(sample.named(position), (expected, String::new()));
    }
    let (named, note) = sample.named(sample.position(&noise(3900, 3)));
    assert!(named.contains("later/inline"), "{named:?}");
    assert!(!named.contains("one of two"), "{named:?}");
    // What else is in the block has other content, which is not known now.
    assert!(
        note.starts_with("note: not all files can be named"),
        "{note}"
    );
    let (named, _) = sample.named(sample.position(b"an empty file 250"));
    assert!(named.contains("folder"), "{named:?}");
    assert!(!named.contains("sparse"), "{named:?}");
}

/// What is decompressed together belongs to one file, or to several that share the end of a cluster.
#[test]
fn files_of_compressed_images_are_named() {
    let mkfs = needs!(tools::find("mkfs.erofs"));
    let world = World::new();
    let (tree, image) = (world.directory("tree"), world.path("image"));
    let text = |word: &str| {
        (0..20_000)
            .map(|line| format!("{word} {line}\n"))
            .collect::<String>()
    };
    for name in ["first", "second", "third"] {
        fs::write(tree.join(name), text(name)).unwrap();
    }
    let mut command = Command::new(mkfs);
    command.args(["-zlz4hc", "-C4096"]).arg(&image).arg(&tree);
    finish(command).succeeds();
    verimount(args!["seal --append", &image]).succeeds_quietly();
    let bytes = fs::read(&image).unwrap();
    let sample = Sample { world, bytes };
    // What is compressed still has many words of the beginning.
    for name in ["first", "second", "third"] {
        let position = sample.position(format!("{name} 0\n").as_bytes());
        assert_eq!(sample.named(position), (names([name]), String::new()));
    }
}

#[test]
fn the_root_is_named() {
    let sample = Sample::built(|tree| {
        for number in 0..500 {
            fs::write(tree.join(format!("an empty file {number}")), "").unwrap();
        }
    });
    let (named, note) = sample.named(sample.position(b"an empty file 400"));
    assert_eq!(named.first().map(String::as_str), Some("."));
    assert!(
        note.starts_with("note: not all files can be named"),
        "{note}"
    );
}
