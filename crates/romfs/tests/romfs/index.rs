//! The header index: the reads that it saves, and that all damage to it is detected.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use verimount_romfs::{Entries, Error, Romfs};
use verimount_source::{Counting, ReadAt, ReadError};
use verimount_testkit::{
    flat_romfs,
    plain_tree::{What, one_of_everything},
};

use crate::{
    crafted::fix_checksum,
    golden, image_of_everything,
    model::{build, in_image},
};

/// A source that records the highest offset read.
struct Furthest<S> {
    inner: S,
    end: AtomicU64,
}

impl<S: ReadAt> ReadAt for Furthest<S> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.end.fetch_max(offset + buf.len() as u64, Relaxed);
        self.inner.read_exact_at(buf, offset)
    }
}

/// Whether listing the root reads behind the accessible bytes, where the index is.
pub(crate) fn is_indexed(image: impl ReadAt) -> bool {
    let end = AtomicU64::new(0);
    let furthest = Furthest { inner: image, end };
    let romfs = Romfs::open(&furthest).unwrap();
    furthest.end.store(0, Relaxed);
    romfs.entries(romfs.root()).unwrap();
    furthest.end.load(Relaxed) > romfs.size().into()
}

/// The offset of the index.
fn start(image: &[u8]) -> usize {
    let romfs = Romfs::open(image).unwrap();
    assert!(is_indexed(image));
    (romfs.size() as usize).next_multiple_of(1024)
}

/// The end of the index according to its counts.
fn end(image: &[u8]) -> usize {
    let start = start(image);
    let count = |at: usize| {
        let at = start + at;
        u32::from_be_bytes(image[at..at + 4].try_into().unwrap()) as usize
    };
    start + 32 + 12 * count(8) + 16 * count(12) + count(16)
}

#[test]
fn directories_are_listed_with_one_read_each() {
    let counted = Counting::new(image_of_everything());
    let romfs = Romfs::open(&counted).unwrap();
    assert_eq!(counted.counts().requests, 2, "superblock, index header");
    romfs.walk(|_, _| Ok::<_, Error>(())).unwrap();
    assert_eq!(
        counted.counts().requests,
        2 + 1 + 3,
        "directory records, directories that are not empty"
    );
}

#[test]
fn without_an_index_headers_close_together_are_read_together() {
    let counted = Counting::new(golden::bytes(golden::GENROMFS));
    let romfs = Romfs::open(&counted).unwrap();
    assert_eq!(
        counted.counts().requests,
        1,
        "the superblock, with the root's header"
    );
    romfs.walk(|_, _| Ok::<_, Error>(())).unwrap();
    // The two directories; the root's seven headers in two reads, and the target of `a`; those of
    // `sub` in one.
    assert_eq!(counted.counts().requests, 1 + 2 + (2 + 1) + 1);
}

#[test]
fn a_long_chain_is_read_little_more_than_once() {
    const COUNT: u64 = 20_000;
    let names: Vec<_> = (0..COUNT).map(|number| number.to_string()).collect();
    let image = flat_romfs(names.iter().map(String::as_str));
    let size = image.len() as u64;
    let counted = Counting::new(image);
    let romfs = Romfs::open(&counted).unwrap();
    let entries = romfs.entries(romfs.root()).unwrap();
    let listed = entries.iter_from(0).map(|entry| entry.name);
    assert!(listed.eq(names.iter().map(String::as_bytes)));
    let counts = counted.counts();
    assert!(counts.bytes < size + size / 8, "{counts:?} of {size}");
    assert!(counts.requests <= COUNT / 1000, "{counts:?}");
}

#[test]
fn an_image_without_its_index_has_the_same_tree() {
    let image = image_of_everything();
    let romfs = Romfs::open(&image[..start(&image)]).unwrap();
    assert!(!is_indexed(&image[..start(&image)]));
    romfs.check_index().unwrap();
    assert_eq!(in_image(&romfs).unwrap(), one_of_everything());
}

#[test]
fn bytes_after_the_image_are_ignored() {
    let mut image = image_of_everything();
    image.extend([0xa5; 5000]);
    let romfs = Romfs::open(image).unwrap();
    romfs.check_index().unwrap();
    assert_eq!(in_image(&romfs).unwrap(), one_of_everything());

    let mut plain = golden::bytes(golden::GENROMFS);
    plain.extend([0xa5; 5000]);
    assert!(!is_indexed(plain));
}

#[test]
fn every_damaged_byte_is_noticed() {
    let image = image_of_everything();
    let magic = start(&image)..start(&image) + 8;
    for at in start(&image)..end(&image) {
        for flip in [0x01, 0x10, 0x80, 0xff] {
            let mut image = image.clone();
            image[at] ^= flip;
            let noticed = match Romfs::open(&image[..]) {
                Ok(_) if magic.contains(&at) => !is_indexed(&image[..]),
                Ok(romfs) => matches!(romfs.check_index(), Err(Error::Corrupt(_))),
                Err(error) => matches!(error, Error::Corrupt(_) | Error::Unsupported(_)),
            };
            assert!(noticed, "byte {at} xor {flip:#x}");
        }
    }
}

#[test]
fn every_truncation_of_the_index_is_noticed() {
    let image = image_of_everything();
    let header_end = start(&image) + 32;
    for len in start(&image)..end(&image) {
        match Romfs::open(&image[..len]) {
            Ok(_) => assert!(
                len < header_end && !is_indexed(&image[..len]),
                "{len} bytes"
            ),
            Err(error) => {
                assert!(len >= header_end, "{len} bytes");
                assert!(matches!(error, Error::Corrupt(_)), "{error}");
            }
        }
    }
    assert!(is_indexed(&image[..end(&image)]));
}

#[test]
fn impossible_counts_take_no_memory() {
    let image = image_of_everything();
    for count_at in [8, 12, 16] {
        let mut image = image.clone();
        let at = start(&image) + count_at;
        image[at..at + 4].fill(0xff);
        assert!(matches!(Romfs::open(image), Err(Error::Corrupt(_))));
    }
}

#[test]
fn an_index_has_directories_to_a_bound() {
    for (count, fits) in [(1_u32 << 20, true), ((1 << 20) + 1, false)] {
        let mut image = image_of_everything();
        let at = start(&image);
        image[at + 8..at + 12].copy_from_slice(&count.to_be_bytes());
        image.resize(at + (16 << 20), 0);
        match Romfs::open(image) {
            Ok(romfs) => {
                assert!(fits);
                let result = romfs.entries(romfs.root());
                assert!(matches!(result, Err(Error::Corrupt(_))), "they are zeros");
            }
            Err(error) => assert!(!fits && matches!(error, Error::Unsupported(_)), "{error}"),
        }
    }
}

/// The offsets in the index of [`golden::ours`] of its directory records, the root's entry records,
/// and their names.
const DIRECTORIES: usize = 0x420;
const RECORDS: usize = DIRECTORIES + 2 * 12;
const NAMES: usize = RECORDS + 4 * 16;

/// Lists the root of [`golden::ours`] after overwriting the bytes at this offset.
fn list_with(at: usize, bytes: &[u8]) -> Result<Entries, Error> {
    let mut image = golden::ours();
    image[at..at + bytes.len()].copy_from_slice(bytes);
    let romfs = Romfs::open(image).unwrap();
    romfs.entries(romfs.root())
}

#[test]
fn the_index_is_checked_without_the_headers() {
    assert_eq!(list_with(NAMES, b"a").unwrap().len(), 4);
    assert_eq!(list_with(NAMES, b"alink").unwrap().len(), 4);
    let word = |word: u32| word.to_be_bytes();
    let corrupt: &[(&str, usize, &[u8])] = &[
        ("a name with a slash", NAMES, b"/"),
        ("a name with a NUL", NAMES, b"\0"),
        ("a name for the directory itself", NAMES, b"."),
        ("a name twice", NAMES + 5, b"sub"),
        ("an empty name", RECORDS + 16, &word(0)),
        ("names out of order", RECORDS + 16, &word(9)),
        ("a name far outside", RECORDS + 16, &word(u32::MAX)),
        ("a hard link", RECORDS + 4, &word(0x60)),
        ("a header outside", RECORDS + 3 * 16 + 4, &word(0x179)),
        ("data that is not its own", RECORDS + 8, &word(0x60 + 176)),
        ("data before its header", RECORDS + 8, &word(0x50)),
        ("data outside", RECORDS + 12, &word(0x170 - 0x80 + 1)),
        ("a size of a directory", RECORDS + 3 * 16 + 12, &word(1)),
        ("a number of a directory", RECORDS + 3 * 16 + 8, &word(1)),
        ("names of no entry", DIRECTORIES + 12 + 8, &word(12)),
        ("entries out of order", DIRECTORIES + 12 + 4, &word(6)),
        ("names out of order", DIRECTORIES + 12 + 8, &word(13)),
        (
            "a first entry that is not the first",
            DIRECTORIES + 4,
            &word(1),
        ),
        ("a directory out of order", DIRECTORIES + 12, &word(0x10)),
        ("a directory off the grid", DIRECTORIES + 12, &word(0xf8)),
        ("a directory that is not the root", DIRECTORIES, &word(0x30)),
    ];
    for (what, at, bytes) in corrupt {
        let result = list_with(*at, bytes);
        assert!(
            matches!(result, Err(Error::Corrupt(_))),
            "{what}: {result:?}"
        );
    }
}

#[test]
fn the_first_name_starts_where_the_names_start() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("long"), "").unwrap();
    let mut image = build(folder.path(), 1024);
    // After the header and one directory record: the record of the only entry.
    let at = start(&image) + 32 + 12;
    image[at..at + 4].copy_from_slice(&1_u32.to_be_bytes());
    let romfs = Romfs::open(image).unwrap();
    assert!(matches!(
        romfs.entries(romfs.root()),
        Err(Error::Corrupt(_))
    ));
}

#[test]
fn names_belong_to_entries() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    let mut image = build(folder.path(), 1024);
    // One byte more of names than the root's only entry has, assigned to the empty directory.
    let at = start(&image) + 16;
    image[at..at + 4].copy_from_slice(&6_u32.to_be_bytes());
    let romfs = Romfs::open(image).unwrap();
    assert!(matches!(
        romfs.entries(romfs.root()),
        Err(Error::Corrupt(_))
    ));
}

#[test]
fn a_directory_that_nothing_leads_to_is_noticed() {
    // `sub` becomes a pipe, in both the headers and the index.
    let mut image = golden::ours();
    image[0xf3] = 0x07;
    fix_checksum(&mut image[0xf0..0x110]);
    image[RECORDS + 3 * 16 + 7] = 0xf7;
    let romfs = Romfs::open(image).unwrap();
    assert_eq!(in_image(&romfs).unwrap()[Path::new("sub")].what, What::Fifo);
    let error = romfs.check_index().unwrap_err();
    assert!(
        error.to_string().contains("2 directories, of which 1"),
        "{error}"
    );
}

#[test]
fn an_index_lists_entries_to_a_bound() {
    let too_many = (1_u32 << 20) + 1;
    let mut image = golden::ours();
    let counts = [1, too_many, too_many].map(u32::to_be_bytes).concat();
    image[0x408..0x414].copy_from_slice(&counts);
    image.resize(32 << 20, 0);
    let romfs = Romfs::open(image).unwrap();
    assert!(matches!(
        romfs.entries(romfs.root()),
        Err(Error::Unsupported(_))
    ));
}

#[test]
fn an_index_of_another_tree_is_not_taken_for_this_one() {
    let image = image_of_everything();
    let other = golden::ours();
    assert_ne!(start(&image), start(&other));
    let mut mixed = image[..start(&image)].to_vec();
    mixed.extend(&other[start(&other)..]);
    let romfs = Romfs::open(mixed).unwrap();
    assert!(matches!(romfs.check_index(), Err(Error::Corrupt(_))));
}

#[test]
fn the_index_is_read_through_any_source() {
    let image: Box<dyn ReadAt> = Box::new(image_of_everything());
    let romfs = Romfs::open(image).unwrap();
    assert_eq!(in_image(&romfs).unwrap(), one_of_everything());
}
