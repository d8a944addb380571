//! Corrupted images: reading them never panics, hangs or returns wrong results.

use std::{
    ops::ControlFlow,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use arbtest::arbitrary::{self, Unstructured};
use verimount_romfs::{Error, NodeId, Romfs};
use verimount_source::{Counting, ReadAt, ReadError};
use verimount_testkit::{Unreadable, cases, romfs_decoder::Decoder, several, weighted};

use crate::{crafted::fix_checksum, golden, image_of_everything, model::in_image};

/// More reads than any of these images, of at most about 6 KB, can need.
const MANY_READS: u64 = 100_000;

/// Exercises all operations on an image, and returns whether all of them succeeded.
fn exercise(image: &[u8]) -> Result<(), Error> {
    salvage(image);
    let counted = Counting::new(image);
    let romfs = Romfs::open(&counted)?;
    for offset in (0..=image.len() + 32).step_by(16) {
        let id = NodeId::from_raw(offset.try_into().unwrap()).unwrap();
        let _ = romfs.node(id);
        let _ = romfs.entries(id);
    }
    let listed = in_image(&romfs);
    let checked = romfs.check_index();
    assert!(counted.counts().requests < MANY_READS);
    listed?;
    checked
}

/// Salvages the image, with and without its superblock.
fn salvage(image: &[u8]) {
    for range in [0..0, 0..1] {
        let counted = Counting::new(Unreadable::new(image, range));
        if let Ok(romfs) = Romfs::open_damaged(&counted) {
            let _ = romfs.walk_damaged(|_| ControlFlow::Continue(()));
        }
        assert!(counted.counts().requests < MANY_READS);
    }
}

/// One image without an index and one with.
static IMAGES: LazyLock<[Vec<u8>; 2]> =
    LazyLock::new(|| [golden::bytes(golden::GENROMFS), image_of_everything()]);

#[test]
fn truncated_images_are_refused() {
    for image in &*IMAGES {
        let size = Decoder::new(image).size();
        for len in 0..size {
            assert!(exercise(&image[..len]).is_err(), "{len} of {size} bytes");
        }
        exercise(&image[..size]).unwrap();
        exercise(image).unwrap();
    }
}

#[test]
fn every_damaged_byte_of_a_header_is_noticed() {
    for image in &*IMAGES {
        let decoder = Decoder::new(image);
        let headers = decoder.header_ranges();
        for at in headers.into_iter().flatten().chain(0..32) {
            for flip in [0x01, 0x10, 0x80, 0xff] {
                let mut image = image.clone();
                image[at] ^= flip;
                assert!(exercise(&image).is_err(), "byte {at} xor {flip:#x}");
            }
        }
    }
}

/// A source that fails after some reads.
struct Failing<'a> {
    image: &'a [u8],
    reads_left: AtomicUsize,
}

impl ReadAt for Failing<'_> {
    fn size(&self) -> u64 {
        self.image.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let left = &self.reads_left;
        let last = left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        if last.is_err() {
            return Err(ReadError::Rejected("not this one".into()));
        }
        self.image.read_exact_at(buf, offset)
    }
}

#[test]
fn a_failing_read_is_never_ignored() {
    for image in &*IMAGES {
        let attempt = |reads| {
            let reads_left = AtomicUsize::new(reads);
            let romfs = Romfs::open(Failing { image, reads_left })?;
            romfs.check_index()?;
            in_image(&romfs)
        };
        let mut reads = 0;
        while let Err(error) = attempt(reads) {
            assert!(
                matches!(error, Error::Source(ReadError::Rejected(_))),
                "{error}"
            );
            reads += 1;
        }
        assert!(reads > 10, "only {reads} reads");
        assert_eq!(attempt(reads).unwrap(), Decoder::new(image).tree());
    }
}

/// Bytes to overwrite in a header, and their position in it.
fn damage(u: &mut Unstructured<'_>) -> arbitrary::Result<(usize, Vec<u8>)> {
    weighted(
        u,
        &[
            (3, &|u| {
                Ok((u.choose_index(4)? * 4, word(u)?.to_be_bytes().to_vec()))
            }),
            (1, &|u| {
                Ok((
                    u.choose_index(32)?,
                    several(u, 1..=3, Unstructured::arbitrary)?,
                ))
            }),
        ],
    )
}

fn word(u: &mut Unstructured<'_>) -> arbitrary::Result<u32> {
    // Mostly offsets of other headers.
    let offset = u.int_in_range(0..=0x1ff)? * 16;
    Ok(match u.int_in_range(0..=4)? {
        0 => offset,
        1 => offset + u.int_in_range(0..=15)?,
        2 => u32::MAX,
        3 => u32::MAX - 15,
        _ => u.arbitrary()?,
    })
}

/// An index with random contents. If it passes the check, it yields the tree of the headers.
#[test]
fn damaged_indexes_do_no_harm() {
    cases(2000, 64, |u| {
        let mut image = IMAGES[1].clone();
        let decoder = Decoder::new(&IMAGES[1]);
        let index = &mut image[decoder.size().next_multiple_of(1024)..];
        for (at, bytes) in several(u, 1..=5, damage)? {
            // Whole words first, as the header, counts and records consist of words.
            let start = u.choose_index(index.len() / 4 - 8)? * 4 + at;
            index[start..start + bytes.len()].copy_from_slice(&bytes);
        }
        if exercise(&image).is_ok() {
            let romfs = Romfs::open(image.as_slice()).unwrap();
            assert_eq!(in_image(&romfs).unwrap(), decoder.tree());
        }
        Ok(())
    });
}

/// Headers with random contents but valid checksums.
#[test]
fn damaged_headers_do_no_harm() {
    cases(2000, 64, |u| {
        let original = u.choose(&*IMAGES)?;
        let mut image = original.clone();
        let headers = Decoder::new(original).header_ranges();
        for (at, bytes) in several(u, 1..=5, damage)? {
            let header = &mut image[u.choose(&headers)?.clone()];
            for (old, new) in header[at..].iter_mut().zip(bytes) {
                *old = new;
            }
            fix_checksum(header);
        }
        let size = 512.min(image.len());
        fix_checksum(&mut image[..size]);
        let _ = exercise(&image);
        // Also without the index, which may have hidden the damage from the reader.
        let _ = exercise(&image[..Decoder::new(original).size()]);
        Ok(())
    });
}
