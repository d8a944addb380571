//! `verify` lists exactly the bad ranges.

use std::ops::Range;

use crate::prelude::*;

const BLOCK: u64 = 4096;

/// The amount of data below one level-0 tree block.
const LEAF: u64 = 128 * BLOCK;

/// Names and sizes of the files. Some share blocks with others; none does with the header index, as the last
/// one ends at a block boundary.
const FILES: [(&str, usize); 8] = [
    ("a/large", 3_000_000),
    ("a/medium", 9_000),
    ("b/block", 4096),
    ("b/more than a block", 4097),
    ("c/small 1", 700),
    ("c/small 2", 900),
    ("c/small 3", 100),
    ("d/last", 8192),
];

/// An image with the positions of its files.
struct Sample {
    /// Keeps the image.
    _world: World,
    image: PathBuf,
    digest: String,
    bytes: Vec<u8>,
    /// The range of each file's content.
    places: Vec<(&'static str, Range<u64>)>,
}

fn sample() -> Sample {
    let world = World::new();
    let tree = world.directory("tree");
    for (number, (name, size)) in (1..).zip(FILES) {
        let path = tree.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, noise(size, number)).unwrap();
    }
    let image = world.path("image");
    let digest = verimount(args!["build --format romfs", &tree, &image]).digest();
    let bytes = fs::read(&image).unwrap();
    let places = FILES.iter().map(|(name, size)| {
        let content = fs::read(tree.join(name)).unwrap();
        let found = bytes
            .windows(64)
            .position(|window| window == &content[..64]);
        let start = found.unwrap() as u64;
        (*name, start..start + *size as u64)
    });
    Sample {
        places: places.collect(),
        _world: world,
        image,
        digest,
        bytes,
    }
}

/// The output of `--json`.
#[derive(Debug, PartialEq, Eq)]
struct Bad {
    range: Range<u64>,
    place: String,
    files: BTreeSet<PathBuf>,
}

fn report(ended: &Ended) -> (Value, Vec<Bad>) {
    let json: Value = ended.json();
    let bad = json["bad"].as_array().unwrap().iter().map(|bad| Bad {
        range: bad["start"].as_u64().unwrap()..bad["end"].as_u64().unwrap(),
        place: bad["place"].as_str().unwrap().to_owned(),
        files: bad["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| file.as_str().unwrap().into())
            .collect(),
    });
    let bad = bad.collect();
    (json, bad)
}

impl Sample {
    /// Changes these bytes, verifies, and changes them back.
    fn verify_with_flips(&self, positions: &[u64]) -> Ended {
        let file = fs::File::options().write(true).open(&self.image).unwrap();
        for &position in positions {
            let flipped = self.bytes[position as usize] ^ 0x40;
            file.write_all_at(&[flipped], position).unwrap();
        }
        let ended = verimount(args![
            "verify --json",
            &self.image,
            "--digest",
            &self.digest
        ]);
        for &position in positions {
            let right = self.bytes[position as usize];
            file.write_all_at(&[right], position).unwrap();
        }
        ended
    }

    /// The files with content in a range, and those whose header is in it, about which the test
    /// knows only that they lie in the same blocks as what surrounds them.
    fn files_in(&self, range: &Range<u64>) -> BTreeSet<PathBuf> {
        let overlaps = |place: &Range<u64>| place.start < range.end && range.start < place.end;
        let names = self.places.iter().filter(|(_, place)| overlaps(place));
        names.map(|(name, _)| name.into()).collect()
    }

    /// Where the header index is.
    fn index(&self) -> Range<u64> {
        let image = RomfsImage(self.bytes.clone());
        let start = image.index();
        let [directories, entries, names] = [8, 12, 16].map(|at| image.word(start + at));
        let len = 32 + 12 * directories + 16 * entries + names;
        start as u64..start as u64 + u64::from(len)
    }

    fn place(&self, name: &str) -> Range<u64> {
        let found = self.places.iter().find(|(other, _)| *other == name);
        found.unwrap().1.clone()
    }

    /// Where the stored tree is: its root block, then the blocks of level 0.
    fn tree(&self) -> u64 {
        let report = self.verify_with_flips(&[]);
        let (json, _) = report_of_good(&report);
        json["size"].as_u64().unwrap().next_multiple_of(65_536)
    }
}

fn report_of_good(ended: &Ended) -> (Value, Vec<Bad>) {
    ended.succeeds_quietly();
    let (json, bad) = report(ended);
    assert_eq!(json["ok"], true);
    assert_eq!(bad, []);
    (json, bad)
}

fn block_of(position: u64) -> Range<u64> {
    let start = position / BLOCK * BLOCK;
    start..start + BLOCK
}

#[test]
fn an_undamaged_image_passes() {
    let sample = sample();
    let (json, _) = report_of_good(&sample.verify_with_flips(&[]));
    assert_eq!(json["digest"], *sample.digest);
    assert_eq!(json["bad_bytes"], 0);
    assert_eq!(json["bad_ranges"], 0);
    assert_eq!(json["file"], *sample.image.to_str().unwrap());
    let text = verimount(args!["verify", &sample.image]);
    let text = text.succeeds_quietly().text();
    assert!(text.contains(&sample.digest), "{text}");
    assert_eq!(text.lines().count(), 1);
}

/// The block of each changed byte, and the files in it.
#[test]
fn changed_data_is_named_with_its_files() {
    let sample = sample();
    let seed = seed();
    for (number, (name, place)) in (0..).zip(&sample.places) {
        let len = place.end - place.start;
        let random = random_numbers(3, len, seed ^ number);
        for at in [0, len - 1].into_iter().chain(random) {
            let position = place.start + at;
            let ended = sample.verify_with_flips(&[position]);
            let (json, bad) = report(&ended);
            assert_eq!(bad.len(), 1, "{name} {at}: {bad:?}");
            assert_eq!(bad[0].range, block_of(position), "{name} {at}");
            assert_eq!(bad[0].place, "data");
            ended.reports_bad_data();
            assert_eq!(ended.stderr, "", "{name} {at}");
            let content_of = sample.files_in(&bad[0].range);
            assert!(content_of.contains(Path::new(name)));
            let missing: Vec<_> = content_of.difference(&bad[0].files).collect();
            assert!(missing.is_empty(), "{name} {at}: {missing:?} are not named");
            // More can only be those whose headers are in the block, right before their content.
            for file in bad[0].files.difference(&content_of) {
                let start = sample
                    .places
                    .iter()
                    .find(|(other, _)| Path::new(other) == file)
                    .map_or(bad[0].range.start, |(_, place)| place.start - 1);
                assert!(bad[0].range.contains(&start), "{name} {at}: {file:?}");
            }
            assert_eq!(json["ok"], false);
            assert_eq!(json["bad_ranges"], 1);
            assert_eq!(json["bad_bytes"], BLOCK);
        }
    }
    report_of_good(&sample.verify_with_flips(&[]));
}

/// A block inside a large file belongs to no other file.
#[test]
fn neighbours_become_one_range_and_others_do_not() {
    let sample = sample();
    let large = sample.place("a/large");
    let first = large.start.next_multiple_of(BLOCK) + 10 * BLOCK;
    let ended = sample.verify_with_flips(&[
        first,
        first + BLOCK + 1,
        first + 2 * BLOCK - 1,
        first + 2 * BLOCK,
        first + 4 * BLOCK,
    ]);
    ended.reports_bad_data();
    let bad = |range| Bad {
        range,
        place: "data".to_owned(),
        files: [PathBuf::from("a/large")].into(),
    };
    assert_eq!(
        report(&ended).1,
        [
            bad(first..first + 3 * BLOCK),
            bad(first + 4 * BLOCK..first + 5 * BLOCK)
        ]
    );
}

/// A changed byte of the tree makes all data below its block bad, and the report names the tree.
#[test]
fn a_changed_tree_is_named() {
    let sample = sample();
    let tree = sample.tree();
    let (json, _) = report(&sample.verify_with_flips(&[]));
    let size = json["size"].as_u64().unwrap();
    let leaves = size.div_ceil(LEAF);
    let directories = [".", "a", "b", "c", "d"].map(PathBuf::from);
    let directories = directories.iter().collect();
    for leaf in 0..leaves {
        let ended = sample.verify_with_flips(&[tree + BLOCK + leaf * BLOCK + 5]);
        ended.reports_bad_data();
        let (_, bad) = report(&ended);
        assert_eq!(bad.len(), 1, "{leaf}: {bad:?}");
        assert_eq!(bad[0].range, leaf * LEAF..size.min((leaf + 1) * LEAF));
        assert_eq!(bad[0].place, "tree level 0");
        let files = sample.files_in(&bad[0].range);
        if bad[0].range.end > sample.index().start {
            // Neither the index is left nor all headers.
            assert!(
                ended.stderr.starts_with("note: not all"),
                "{leaf}: {ended:?}"
            );
            assert_eq!(bad[0].files, [PathBuf::from("a/large")].into());
        } else {
            assert_eq!(ended.stderr, "", "{leaf}");
            let surplus: BTreeSet<_> = bad[0].files.difference(&files).collect();
            assert!(surplus.is_subset(&directories), "{leaf}: {bad:?}");
            assert!(bad[0].files.is_superset(&files), "{leaf}: {bad:?}");
        }
    }
    let ended = sample.verify_with_flips(&[tree + 17]);
    let (_, bad) = report(&ended);
    assert_eq!(bad.len(), 1, "{bad:?}");
    assert_eq!(bad[0].range, 0..size);
    assert_eq!(bad[0].place, "tree level 1");
}

/// The superblock and the index lead to all names. One of them is enough.
#[test]
fn names_are_found_despite_any_bad_block() {
    let sample = sample();
    let files_of = |positions: &[u64]| {
        let ended = sample.verify_with_flips(positions);
        ended.reports_bad_data();
        let mut files = BTreeSet::new();
        report(&ended)
            .1
            .into_iter()
            .for_each(|bad| files.extend(bad.files));
        (files, ended.stderr)
    };
    let small = sample.place("b/block").start;
    let large = sample.place("a/large").start + 1_000_000;
    let (expected, _) = files_of(&[small, large]);
    assert!(expected.contains(Path::new("a/large")));
    assert!(expected.contains(Path::new("b/block")));
    for lost in [0, 8, 500, sample.index().start, sample.index().start + 40] {
        let (files, said) = files_of(&[lost, small, large]);
        assert_eq!(said, "", "{lost}");
        let missing: Vec<_> = expected.difference(&files).collect();
        assert!(missing.is_empty(), "{lost}: {missing:?} are not named");
    }
    // With neither, nothing tells that it is an image.
    let (files, said) = files_of(&[0, sample.index().start, small, large]);
    assert_eq!((files, said), (BTreeSet::new(), String::new()));
}

/// All headers may be in the same bad block as the superblock.
#[test]
fn the_only_file_is_named() {
    let world = World::new();
    let tree = world.directory("tree");
    fs::write(tree.join("only"), noise(100_000, 1)).unwrap();
    let image = world.path("image");
    verimount(args!["build --format romfs", &tree, &image]).succeeds();
    let storage = fs::File::options().write(true).open(&image).unwrap();
    storage.write_all_at(&[0; 4096], 0).unwrap();
    storage.write_all_at(&[0; 4096], 40960).unwrap();
    let ended = verimount(args!["verify --json --unpinned", &image]);
    ended.reports_bad_data();
    assert_eq!(ended.stderr, "");
    let (_, bad) = report(&ended);
    let files: Vec<_> = bad.iter().flat_map(|bad| &bad.files).collect();
    assert_eq!(files, [".", "only", "only"].map(Path::new));
}

/// An index at the end need not be that of the whole file.
#[test]
fn an_image_inside_another_file_is_not_taken_for_it() {
    let world = World::new();
    let plain = world.path("plain");
    let tree = world.directory("tree");
    for name in ["one", "two"] {
        fs::write(tree.join(name), noise(5000, 1)).unwrap();
    }
    verimount(args!["build --format romfs --no-seal", &tree, &plain]).succeeds();
    let plain = fs::read(plain).unwrap();
    let before = noise(64 << 10, 2);
    let file = world.write("file", [before, plain].concat());
    verimount(args!["seal --append", &file]).succeeds_quietly();
    let storage = fs::File::options().write(true).open(&file).unwrap();
    storage.write_all_at(b"-rom1fs-", 0).unwrap();
    let ended = verimount(args!["verify --json --unpinned", &file]);
    ended.reports_bad_data();
    assert_eq!(ended.stderr, "");
    assert!(report(&ended).1[0].files.is_empty());
}

#[test]
fn the_text_report_says_the_same() {
    let sample = sample();
    let position = sample.place("a/large").start + 1_000_000;
    let file = fs::File::options().write(true).open(&sample.image).unwrap();
    let flipped = !sample.bytes[position as usize];
    file.write_all_at(&[flipped], position).unwrap();
    let ended = verimount(args!["verify", &sample.image]);
    ended.reports_bad_data();
    let text = ended.text();
    let start = block_of(position).start;
    assert!(
        text.contains(&format!("4096 bad bytes at {start}: ")),
        "{text}"
    );
    assert!(text.contains("  in a/large\n"), "{text}");
    assert!(text.contains("expected"), "{text}");
    assert!(text.contains(" bytes are bad"), "{text}");
}

#[test]
fn any_file_is_verified_not_only_images() {
    let world = World::new();
    let bytes = noise(1_000_000, 1);
    for append in [false, true] {
        let file = world.write("file", &bytes);
        let mut seal = args!["seal", &file];
        seal.extend(append.then(|| "--append".into()));
        let digest = verimount(seal).digest();
        let verify = || verimount(args!["verify --json", &file, "--digest", &digest]);
        report_of_good(&verify());
        let opened = fs::File::options().write(true).open(&file).unwrap();
        for at in [500_000, 0] {
            opened.write_all_at(&[!bytes[at]], at as u64).unwrap();
            let ended = verify();
            ended.reports_bad_data();
            assert_eq!(ended.stderr, "", "there are no files to be named");
            let (_, bad) = report(&ended);
            assert_eq!(bad[0].range, block_of(at as u64));
            assert!(bad[0].files.is_empty());
        }
    }
}

/// JSON has only text: names that are not UTF-8 must not prevent the report, nor look like others.
#[test]
fn names_that_are_not_text_are_reported() {
    let world = World::new();
    let tree = world.directory("tree");
    let content = noise(10_000, 1);
    fs::write(tree.join(OsStr::from_bytes(b"name \xff")), &content).unwrap();
    let image = world.root().join(OsStr::from_bytes(b"image \xfe"));
    verimount(args!["build --format romfs", &tree, &image]).succeeds();
    let mut bytes = fs::read(&image).unwrap();
    let start = bytes
        .windows(64)
        .position(|window| window == &content[..64]);
    bytes[start.unwrap() + 5000] ^= 1;
    fs::write(&image, bytes).unwrap();
    let ended = verimount(args!["verify --json", &image]);
    ended.reports_bad_data();
    let (json, bad) = report(&ended);
    assert!(json["file"].as_str().unwrap().ends_with(r"image \xfe"));
    assert_eq!(bad[0].files, [PathBuf::from(r"name \xff")].into());
}

#[test]
fn without_a_tree_there_is_nothing_to_verify() {
    let world = World::new();
    let image = world.sealed_image("image");
    verimount(args!["verify", &image, "--unverified"]).is_wrong_usage();
}
