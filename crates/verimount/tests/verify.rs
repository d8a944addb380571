//! Verifying lists exactly the bad ranges, and the files in them.

use std::{
    collections::BTreeSet,
    fs,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use verimount::{
    BuildOptions, Content, ErrorKind, FileDigest, Identity, ImageFormat, Location, OpenOptions,
    ReadAt, ReadError, Report, RomfsOptions, SealOptions, VerifyOptions, build, seal,
};
use verimount_testkit::{
    RomfsImage, World, flip_at, noise, overwrite, position_of, random_numbers, seed,
};
use verimount_verity::{BadReason, BlockKind};

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
    digest: FileDigest,
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
    let digest = build(&tree, &image, &romfs()).unwrap().digest.unwrap();
    let bytes = fs::read(&image).unwrap();
    let places = FILES.iter().map(|(name, size)| {
        let content = fs::read(tree.join(name)).unwrap();
        let start = position_of(&content, &bytes) as u64;
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

/// What is reported of a range.
#[derive(Debug, PartialEq, Eq)]
struct Bad {
    range: Range<u64>,
    place: String,
    files: BTreeSet<PathBuf>,
}

fn found(report: &Report) -> Vec<Bad> {
    let bad = report.bad.iter().map(|finding| Bad {
        range: finding.range.clone(),
        place: match &finding.reason {
            BadReason::Mismatch(mismatch) => match mismatch.place {
                BlockKind::Data => "data".to_owned(),
                BlockKind::Tree(level) => format!("tree level {level}"),
            },
            BadReason::Unreadable(error) => panic!("{error}"),
        },
        files: finding.files.iter().cloned().collect(),
    });
    bad.collect()
}

/// Verifies a file.
#[track_caller]
fn verified(path: &Path, options: &OpenOptions) -> Report {
    let content = Content::open(path, options).unwrap();
    content.verify(&VerifyOptions::default()).unwrap()
}

/// The options for an image of romfs without compression.
fn romfs() -> BuildOptions {
    BuildOptions {
        format: ImageFormat::Romfs(RomfsOptions::default()),
        ..BuildOptions::default()
    }
}

impl Sample {
    /// Changes these bytes, verifies, and changes them back.
    fn verify_with_flips(&self, positions: &[u64]) -> Report {
        let file = fs::File::options().write(true).open(&self.image).unwrap();
        for &position in positions {
            let flipped = self.bytes[position as usize] ^ 0x40;
            file.write_all_at(&[flipped], position).unwrap();
        }
        let report = verified(&self.image, &OpenOptions::new().digest(self.digest));
        for &position in positions {
            let right = self.bytes[position as usize];
            file.write_all_at(&[right], position).unwrap();
        }
        report
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
        is_good(&report);
        report.size.next_multiple_of(65_536)
    }
}

#[track_caller]
fn is_good(report: &Report) {
    assert!(report.is_good() && report.bad.is_empty(), "{report:?}");
}

/// Bad bytes are found, and all files in them can be named.
#[track_caller]
fn is_bad(report: &Report) -> Vec<Bad> {
    assert!(!report.is_good(), "{report:?}");
    assert!(report.unnamed.is_none(), "{report:?}");
    found(report)
}

fn block_of(position: u64) -> Range<u64> {
    let start = position / BLOCK * BLOCK;
    start..start + BLOCK
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
            let report = sample.verify_with_flips(&[position]);
            let bad = is_bad(&report);
            assert_eq!(bad.len(), 1, "{name} {at}: {bad:?}");
            assert_eq!(bad[0].range, block_of(position), "{name} {at}");
            assert_eq!(bad[0].place, "data");
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
            assert_eq!((report.bad_ranges, report.bad_bytes), (1, BLOCK));
        }
    }
    is_good(&sample.verify_with_flips(&[]));
}

/// A block inside a large file belongs to no other file.
#[test]
fn neighbours_become_one_range_and_others_do_not() {
    let sample = sample();
    let large = sample.place("a/large");
    let first = large.start.next_multiple_of(BLOCK) + 10 * BLOCK;
    let report = sample.verify_with_flips(&[
        first,
        first + BLOCK + 1,
        first + 2 * BLOCK - 1,
        first + 2 * BLOCK,
        first + 4 * BLOCK,
    ]);
    let bad = |range| Bad {
        range,
        place: "data".to_owned(),
        files: [PathBuf::from("a/large")].into(),
    };
    assert_eq!(
        is_bad(&report),
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
    let size = sample.verify_with_flips(&[]).size;
    let leaves = size.div_ceil(LEAF);
    let directories = [".", "a", "b", "c", "d"].map(PathBuf::from);
    let directories = directories.iter().collect();
    for leaf in 0..leaves {
        let report = sample.verify_with_flips(&[tree + BLOCK + leaf * BLOCK + 5]);
        let bad = found(&report);
        assert_eq!(bad.len(), 1, "{leaf}: {bad:?}");
        assert_eq!(bad[0].range, leaf * LEAF..size.min((leaf + 1) * LEAF));
        assert_eq!(bad[0].place, "tree level 0");
        let files = sample.files_in(&bad[0].range);
        if bad[0].range.end > sample.index().start {
            // Neither the index is left nor all headers.
            assert!(report.unnamed.is_some(), "{leaf}");
            assert_eq!(bad[0].files, [PathBuf::from("a/large")].into());
        } else {
            assert!(report.unnamed.is_none(), "{leaf}");
            let surplus: BTreeSet<_> = bad[0].files.difference(&files).collect();
            assert!(surplus.is_subset(&directories), "{leaf}: {bad:?}");
            assert!(bad[0].files.is_superset(&files), "{leaf}: {bad:?}");
        }
    }
    let bad = found(&sample.verify_with_flips(&[tree + 17]));
    assert_eq!(bad.len(), 1, "{bad:?}");
    assert_eq!(bad[0].range, 0..size);
    assert_eq!(bad[0].place, "tree level 1");
}

/// The superblock and the index lead to all names. One of them is enough.
#[test]
fn names_are_found_despite_any_bad_block() {
    let sample = sample();
    let files_of = |positions: &[u64]| {
        let mut files = BTreeSet::new();
        for bad in is_bad(&sample.verify_with_flips(positions)) {
            files.extend(bad.files);
        }
        files
    };
    let small = sample.place("b/block").start;
    let large = sample.place("a/large").start + 1_000_000;
    let expected = files_of(&[small, large]);
    assert!(expected.contains(Path::new("a/large")));
    assert!(expected.contains(Path::new("b/block")));
    for lost in [0, 8, 500, sample.index().start, sample.index().start + 40] {
        let files = files_of(&[lost, small, large]);
        let missing: Vec<_> = expected.difference(&files).collect();
        assert!(missing.is_empty(), "{lost}: {missing:?} are not named");
    }
    // With neither, nothing tells that it is an image.
    let files = files_of(&[0, sample.index().start, small, large]);
    assert_eq!(files, BTreeSet::new());
}

/// All headers may be in the same bad block as the superblock.
#[test]
fn the_only_file_is_named() {
    let world = World::new();
    let tree = world.directory("tree");
    fs::write(tree.join("only"), noise(100_000, 1)).unwrap();
    let image = world.path("image");
    build(&tree, &image, &romfs()).unwrap();
    for position in [0, 40960] {
        overwrite(&image, position, &[0; 4096]);
    }
    let bad = is_bad(&verified(&image, &OpenOptions::new().unpinned()));
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
    let unsealed = BuildOptions {
        seal: None,
        ..romfs()
    };
    build(&tree, &plain, &unsealed).unwrap();
    let plain = fs::read(plain).unwrap();
    let before = noise(64 << 10, 2);
    let file = world.write("file", [before, plain].concat());
    let options = SealOptions {
        append: true,
        ..SealOptions::default()
    };
    seal(&file, &options).unwrap();
    overwrite(&file, 0, b"-rom1fs-");
    let bad = is_bad(&verified(&file, &OpenOptions::new().unpinned()));
    assert!(bad[0].files.is_empty());
}

#[test]
fn any_file_is_verified_not_only_images() {
    let world = World::new();
    let bytes = noise(1_000_000, 1);
    for append in [false, true] {
        let file = world.write("file", &bytes);
        let options = SealOptions {
            append,
            ..SealOptions::default()
        };
        let sealed = seal(&file, &options).unwrap();
        let Identity::FileDigest(digest) = sealed.identity else {
            panic!("it is sealed for fs-verity");
        };
        let verify = || verified(&file, &OpenOptions::new().digest(digest));
        is_good(&verify());
        for at in [500_000, 0] {
            flip_at(&file, at);
            let bad = is_bad(&verify());
            assert_eq!(bad[0].range, block_of(at));
            assert!(bad[0].files.is_empty());
        }
    }
}

/// A file that nobody may write.
struct Unwritable(Vec<u8>);

impl ReadAt for Unwritable {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        buf.copy_from_slice(&self.0[offset as usize..][..buf.len()]);
        Ok(())
    }
}

/// A sealed file, and options that repair from it.
fn good_copy(world: &World) -> (PathBuf, OpenOptions) {
    let good = world.write("good", noise(100_000, 1));
    let options = SealOptions {
        append: true,
        ..SealOptions::default()
    };
    let made = seal(&good, &options).unwrap();
    let Identity::FileDigest(digest) = made.identity else {
        unreachable!("it is a seal of fs-verity")
    };
    let options = OpenOptions::new().digest(digest).mirror(&good).repair(true);
    (good, options)
}

#[test]
fn an_end_of_a_seal_that_cannot_be_repaired_stays_bad() {
    let world = World::new();
    let (good, options) = good_copy(&world);
    let mut bytes = fs::read(&good).unwrap();
    let descriptor = bytes.len() - BLOCK as usize;
    bytes[descriptor + 20] ^= 1;
    let location = Location::source("file", Unwritable(bytes));
    let content = Content::open(location, &options).unwrap();
    let error = content.verify(&VerifyOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongContent, "{error}");
}

#[test]
fn what_can_be_reached_again_counts_as_nothing_repaired() {
    let world = World::new();
    let (good, options) = good_copy(&world);
    let file = world.path("file");
    let content = Content::open(&file, &options).unwrap();
    fs::copy(&good, &file).unwrap();
    let report = content.verify(&VerifyOptions::default()).unwrap();
    assert!(report.is_good());
    assert_eq!(report.repaired, None);
}

#[test]
fn an_image_that_is_cut_off_is_told_from_one_without_a_seal() {
    let world = World::new();
    let tree = world.path("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), noise(100_000, 1)).unwrap();
    let (good, cut) = (world.path("good"), world.path("cut"));
    let made = build(&tree, &good, &BuildOptions::default()).unwrap();
    fs::write(&cut, &fs::read(&good).unwrap()[..50_000]).unwrap();
    let options = OpenOptions::new().digest(made.digest.unwrap());
    let alone = Content::open(&cut, &options).unwrap_err();
    let mirrored = Content::open(&cut, &options.mirror(&good)).unwrap();
    let first = mirrored.verify(&VerifyOptions::default()).unwrap_err();
    for error in [alone, first] {
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
}
