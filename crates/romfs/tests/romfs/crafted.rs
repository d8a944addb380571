//! Images assembled header by header, each with one defect but valid checksums.

use verimount_romfs::{Error, NodeId, Romfs};
use verimount_source::Scratch;
use verimount_tree::{Error as TreeError, FileType, MAX_DEPTH};

use crate::model::in_image;

const LINK: u32 = 0;
const DIRECTORY: u32 = 1;
const FILE: u32 = 2;
const SYMLINK: u32 = 3;

/// The offsets of the root's header, of its `..`, and of the first header after them.
const ROOT: u32 = 32;
pub(crate) const FIRST: u32 = 96;

pub(crate) struct Header<'a> {
    pub(crate) at: u32,
    pub(crate) next_and_mode: u32,
    pub(crate) spec: u32,
    pub(crate) size: u32,
    pub(crate) name: &'a [u8],
}

/// A file header without data.
pub(crate) fn header(at: u32, next: u32, mode: u32, spec: u32, name: &[u8]) -> Header<'_> {
    Header {
        at,
        next_and_mode: next | mode,
        spec,
        size: 0,
        name,
    }
}

/// An image of `size` bytes with a root, whose first entry's header is at [`FIRST`].
pub(crate) fn image(size: u32, headers: &[Header<'_>]) -> Vec<u8> {
    let mut image = vec![0; size as usize];
    image[..8].copy_from_slice(b"-rom1fs-");
    image[8..12].copy_from_slice(&size.to_be_bytes());
    let root = header(ROOT, ROOT + 32, DIRECTORY, ROOT, b".");
    let parent = header(ROOT + 32, FIRST, LINK, ROOT, b"..");
    for header in [root, parent].iter().chain(headers) {
        let bytes = &mut image[header.at as usize..];
        let words = [header.next_and_mode, header.spec, header.size, 0];
        for (bytes, word) in bytes.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
        bytes[16..16 + header.name.len()].copy_from_slice(header.name);
        fix_checksum(&mut bytes[..(16 + header.name.len() + 1).div_ceil(16) * 16]);
    }
    fix_checksum(&mut image[..512.min(size as usize)]);
    image
}

/// Fixes the checksum of a superblock or header.
pub(crate) fn fix_checksum(bytes: &mut [u8]) {
    bytes[12..16].fill(0);
    let words = bytes.chunks_exact(4);
    let sum = words.fold(0_u32, |sum, word| {
        sum.wrapping_add(u32::from_be_bytes(word.try_into().unwrap()))
    });
    bytes[12..16].copy_from_slice(&sum.wrapping_neg().to_be_bytes());
}

/// Asserts that reading the whole image fails as corrupt with these words, at this offset.
#[track_caller]
fn assert_corrupt(image: &[u8], at: u32, words: &str) {
    let error = Romfs::open(image)
        .and_then(|romfs| in_image(&romfs))
        .unwrap_err();
    let Error::Corrupt(corruption) = &error else {
        panic!("{error}");
    };
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!(corruption.at(), u64::from(at), "{error}");
}

/// Asserts that a walk over the image fails as corrupt with these words, as it would be endless.
#[track_caller]
fn assert_endless(image: &[u8], words: &str) {
    let error = in_image(&Romfs::open(image).unwrap()).unwrap_err();
    assert!(
        matches!(error, Error::Walk(TreeError::Corrupt(_))),
        "{error}"
    );
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn the_crafted_images_are_sound_but_for_what_they_test() {
    let sound = image(1024, &[header(FIRST, 0, FILE, 0, b"file")]);
    let romfs = Romfs::open(sound).unwrap();
    let entries = romfs.entries(romfs.root()).unwrap();
    let file = entries.get(0).unwrap();
    let expected = (&b"file"[..], FileType::RegularFile);
    assert_eq!((file.name, file.node.file_type), expected);
    assert_eq!(entries.find(b"file"), Some(file.node));
    assert_eq!(entries.find(b"fil"), None);
}

#[test]
fn superblocks_are_checked() {
    let sound = image(1024, &[header(FIRST, 0, FILE, 0, b"file")]);
    for len in [0, 7, 15] {
        assert!(matches!(Romfs::open(&sound[..len]), Err(Error::NotRomfs)));
    }
    let mut other = sound.clone();
    other[0] = b'+';
    assert!(matches!(Romfs::open(other), Err(Error::NotRomfs)));

    let with_size = |size: u32| {
        let mut image = sound.clone();
        image[8..12].copy_from_slice(&size.to_be_bytes());
        fix_checksum(&mut image[..size.min(512) as usize | 16]);
        image
    };
    for expected in [u32::MAX, 1025] {
        let opened = Romfs::open(with_size(expected));
        let Err(Error::Truncated { size, available }) = opened else {
            panic!("{opened:?}");
        };
        assert_eq!((size, available), (expected, 1024));
    }
    for size in [0, 16] {
        assert_corrupt(&with_size(size), 0, "the volume name is unterminated");
    }

    let mut image = sound.clone();
    image[500] = 1;
    assert_corrupt(&image, 0, "the superblock's checksum");

    let mut image = sound.clone();
    image[16..16 + 129].fill(b'x');
    fix_checksum(&mut image[..512]);
    assert_corrupt(&image, 0, "the volume name is unterminated");
}

#[test]
fn the_root_must_be_a_directory() {
    let file = header(ROOT, 0, FILE, 0, b"file");
    assert_corrupt(&image(1024, &[file]), ROOT, "the root is not a directory");
}

#[test]
fn chains_end() {
    let looping: &[&[(u32, u32)]] = &[
        &[(FIRST, FIRST)],
        &[(FIRST, 128), (128, FIRST)],
        &[(FIRST, 128), (128, 160), (160, 128)],
    ];
    for chain in looping {
        let names = [b"a", b"b", b"c"];
        let headers: Vec<_> = chain
            .iter()
            .zip(names)
            .map(|((at, next), name)| header(*at, *next, FILE, 0, name))
            .collect();
        let back_to = chain.last().unwrap().1;
        assert_corrupt(&image(1024, &headers), back_to, "contains a loop");
    }
    // Back to the root's own header, and to `..`.
    for back_to in [ROOT, ROOT + 32] {
        let image = image(1024, &[header(FIRST, back_to, FILE, 0, b"a")]);
        assert_corrupt(&image, back_to, "contains a loop");
    }
}

#[test]
fn directories_do_not_contain_themselves() {
    // Its first header is that of the root, its parent's other entry, or itself.
    for first in [ROOT, FIRST, FIRST + 32] {
        let image = image(
            1024,
            &[
                header(FIRST, FIRST + 32, FILE, 0, b"file"),
                header(FIRST + 32, 0, DIRECTORY, first, b"directory"),
            ],
        );
        assert_endless(
            &image,
            "directory/directory: the directory is reached by two paths",
        );
    }
}

#[test]
fn directories_do_not_share_their_entries() {
    // 60 directories whose chains all continue with the same 60 files.
    let (names, files) = ((b'A'..b'A' + 60).map(|name| [name]), FIRST + 60 * 32);
    let names: Vec<_> = names.collect();
    let mut headers = Vec::new();
    for (number, name) in (0..).zip(&names) {
        let next = |at: u32| if number == 59 { 0 } else { at + 32 };
        let (directory, file) = (FIRST + number * 32, files + number * 32);
        headers.push(header(directory, next(directory), DIRECTORY, files, name));
        headers.push(header(file, next(file), FILE, 0, name));
    }
    let image = image(4096, &headers);
    assert_endless(&image, "directories share their entries");
}

#[test]
fn directories_are_nested_to_a_bound() {
    for (count, fits) in [(MAX_DEPTH - 1, true), (MAX_DEPTH, false)] {
        let count = u32::try_from(count).unwrap();
        let headers: Vec<_> = (0..count)
            .map(|number| {
                let at = FIRST + number * 32;
                let inside = if number + 1 == count { 0 } else { at + 32 };
                header(at, 0, DIRECTORY, inside, b"d")
            })
            .collect();
        let romfs = Romfs::open(image(FIRST + count * 32, &headers)).unwrap();
        match in_image(&romfs) {
            Ok(tree) => assert!(fits && tree.len() == count as usize),
            Err(error) => {
                let is_limit = matches!(error, Error::Walk(TreeError::Unsupported(_)));
                assert!(!fits && is_limit, "{error}");
            }
        }
    }
}

#[test]
fn directories_have_entries_to_a_bound() {
    let count = (1 << 20) + 1;
    let names: Vec<_> = (0..count).map(|number| format!("{number:07}")).collect();
    let headers: Vec<_> = (FIRST..)
        .step_by(32)
        .zip(&names)
        .map(|(at, name)| header(at, at + 32, FILE, 0, name.as_bytes()))
        .collect();
    let romfs = Romfs::open(image(FIRST + count * 32, &headers)).unwrap();
    let result = romfs.entries(romfs.root());
    assert!(matches!(result, Err(Error::Unsupported(_))));
}

#[test]
fn hard_links_point_to_what_can_have_names() {
    for (target, at, words) in [
        (FIRST, FIRST, "a hard link in place of"),
        (FIRST + 32, FIRST + 32, "a hard link in place of"),
        (ROOT, ROOT, "points to a directory"),
        (FIRST + 64, FIRST + 64, "points to a directory"),
        (FIRST + 8, FIRST, "not a multiple of 16"),
        (u32::MAX, FIRST, "not a multiple of 16"),
        (u32::MAX - 15, u32::MAX - 15, "outside the image"),
        (1024, 1024, "outside the image"),
        (1008, 1008, "a name is unterminated"),
        (0, 0, "outside the image"),
    ] {
        let image = image(
            1024,
            &[
                header(FIRST, FIRST + 32, LINK, target, b"link"),
                header(FIRST + 32, FIRST + 64, LINK, FIRST + 96, b"other"),
                header(FIRST + 64, FIRST + 96, DIRECTORY, 0, b"directory"),
                header(FIRST + 96, 0, FILE, 0, b"file"),
            ],
        );
        assert_corrupt(&image, at, words);
    }
}

#[test]
fn names_are_names() {
    let long = [b'x'; 129];
    for (name, words) in [
        (&b""[..], "a name is empty"),
        (b"/", "a slash"),
        (b"a/b", "a slash"),
        (&long, "unterminated or longer than 128"),
        (b".", "neither a directory nor a hard link"),
        (b"..", "neither a directory nor a hard link"),
    ] {
        let image = image(1024, &[header(FIRST, 0, FILE, 0, name)]);
        assert_corrupt(&image, FIRST, words);
    }
    let longest = image(1024, &[header(FIRST, 0, FILE, 0, &long[..128])]);
    let romfs = Romfs::open(longest).unwrap();
    assert_eq!(
        romfs.entries(romfs.root()).unwrap().get(0).unwrap().name,
        &long[..128]
    );
}

#[test]
fn names_in_a_directory_differ() {
    let repeated = image(
        1024,
        &[
            header(FIRST, FIRST + 32, FILE, 0, b"same"),
            header(FIRST + 32, FIRST + 64, FILE, 0, b"other"),
            header(FIRST + 64, 0, FILE, 0, b"same"),
        ],
    );
    assert_corrupt(&repeated, ROOT, "two entries with the same name");
    // The root already has a `.` and a `..`. More are refused, as many directories could share them
    // undetected.
    for name in [&b"."[..], b".."] {
        let image = image(1024, &[header(FIRST, 0, LINK, ROOT, name)]);
        assert_corrupt(&image, ROOT, "two entries with the same name");
    }
}

#[test]
fn offsets_lie_inside_the_image() {
    for next in [1024, 4096, u32::MAX - 15] {
        let image = image(1024, &[header(FIRST, next, FILE, 0, b"a")]);
        assert_corrupt(&image, next, "outside the image");
    }
    for (first, at, words) in [
        (u32::MAX - 15, u32::MAX - 15, "outside the image"),
        (u32::MAX, FIRST, "not a multiple of 16"),
        (FIRST + 1, FIRST, "not a multiple of 16"),
    ] {
        let image = image(1024, &[header(FIRST, 0, DIRECTORY, first, b"a")]);
        assert_corrupt(&image, at, words);
    }
}

#[test]
fn data_lies_inside_the_image() {
    let space = 1024 - FIRST - 32;
    for (size, fits) in [(space, true), (space + 1, false), (u32::MAX, false)] {
        let file = Header {
            size,
            ..header(FIRST, 0, FILE, 0, b"a")
        };
        let image = image(1024, &[file]);
        if fits {
            in_image(&Romfs::open(image).unwrap()).unwrap();
        } else {
            assert_corrupt(&image, FIRST, "the data is outside");
        }
    }
}

#[test]
fn symbolic_links_have_targets() {
    for (size, fits) in [(0, false), (1, true), (4095, true), (4096, false)] {
        let link = Header {
            size,
            ..header(FIRST, 0, SYMLINK, 0, b"a")
        };
        let mut image = image(8192, &[link]);
        let target = FIRST as usize + 32..FIRST as usize + 32 + size as usize;
        image[target].fill(b'x');
        fix_checksum(&mut image[..512]);
        if fits {
            in_image(&Romfs::open(image).unwrap()).unwrap();
        } else {
            assert_corrupt(&image, FIRST, "invalid length");
        }
    }
    let link = Header {
        size: 3,
        ..header(FIRST, 0, SYMLINK, 0, b"a")
    };
    assert_corrupt(&image(1024, &[link]), FIRST + 32, "contains a NUL");
}

#[test]
fn operations_must_fit_the_file_type() {
    let romfs = Romfs::open(image(1024, &[header(FIRST, 0, FILE, 0, b"file")])).unwrap();
    let file = NodeId::from_raw(FIRST).unwrap();
    assert!(matches!(romfs.entries(file), Err(Error::NotADirectory(id)) if id == file));
    let node = romfs.node(file).unwrap();
    assert!(
        matches!(romfs.symlink_target(&node, &mut Scratch::default()), Err(Error::NotASymlink(id)) if id == file)
    );
    assert_eq!(NodeId::from_raw(FIRST + 8), None);
    let parent = NodeId::from_raw(ROOT + 32).unwrap();
    assert!(matches!(romfs.node(parent), Err(Error::Corrupt(_))));
    let outside = NodeId::from_raw(u32::MAX - 15).unwrap();
    assert!(matches!(romfs.node(outside), Err(Error::Corrupt(_))));
}
