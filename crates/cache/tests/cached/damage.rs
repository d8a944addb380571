//! Whatever is in the cache's files, reads give the right bytes as long as the server lives.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

use verimount_cache::{Cached, Key, Part};
use verimount_source::{Fetch, MendableFile, ReadAt, ReadError};
use verimount_testkit::{Doubtful, Random, noise};
use verimount_verity::{Sealed, Trust, VerifiedReader, VerifyOptions};

use crate::{Content, GRANULE, LARGE, cache, folder};

/// Reads content through a full cache after `damage` was done to its file. Returns whether something of the
/// cache was rejected.
fn heals(content: &Content, damage: impl Fn(&Path)) -> bool {
    let (folder, server) = (folder(), content.server());
    let full = cache(folder.path(), LARGE);
    content.assert_read_by(&content.open(&full, &server));
    let file = content.file(&full);
    drop(full);
    damage(&file);
    let damaged = cache(folder.path(), LARGE);
    content.assert_read_by(&content.open(&damaged, &server));
    let was_rejected = damaged.stats().rejected > 0;
    // It was repaired, not only read.
    let repaired = cache(folder.path(), LARGE);
    let off = content.server();
    off.switch_off();
    content.assert_read_by(&content.open(&repaired, &off));
    assert_eq!(repaired.stats().rejected, 0);
    was_rejected
}

#[test]
fn flipped_bits_are_healed() {
    let content = Content::new(noise(700_000, 1));
    let size = content.sealed.len() as u64;
    let mut random = Random::new(2);
    let sampled = (0..40).map(|_| random.below(size as usize) as u64);
    let ends = [0, 699_999, size - 4096, size - 1];
    for position in ends.into_iter().chain(sampled) {
        heals(&content, |file| {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .open(file)
                .unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, position).unwrap();
            file.write_all_at(&[byte[0] ^ 0x40], position).unwrap();
        });
    }
}

#[test]
fn many_flipped_bits_are_healed() {
    let content = Content::new(noise(700_000, 3));
    let was_rejected = heals(&content, |file| {
        let mut bytes = fs::read(file).unwrap();
        bytes.iter_mut().step_by(1000).for_each(|byte| *byte ^= 1);
        fs::write(file, bytes).unwrap();
    });
    assert!(was_rejected);
}

#[test]
fn other_lengths_are_healed() {
    let content = Content::new(noise(700_000, 4));
    let size = content.sealed.len() as u64;
    for len in [
        0,
        1,
        GRANULE,
        GRANULE + 1,
        700_000,
        size - 1,
        size + 1,
        3 * size,
    ] {
        heals(&content, |file| {
            let file = OpenOptions::new().write(true).open(file).unwrap();
            file.set_len(len).unwrap();
        });
    }
}

#[test]
fn other_content_is_healed() {
    let content = Content::new(noise(700_000, 5));
    let other = Content::new(noise(700_000, 6));
    for bytes in [
        other.sealed.clone(),
        vec![0; content.sealed.len()],
        noise(1_000_000, 7),
        content.data.clone(),
    ] {
        heals(&content, |file| fs::write(file, &bytes).unwrap());
    }
}

/// What a crash leaves of writes that were never made durable: any part of them.
#[test]
fn any_part_of_the_writes_is_enough() {
    let content = Content::new(noise(2_000_000, 8));
    let mut random = Random::new(9);
    for _ in 0..20 {
        let lost: Vec<u64> = (0..content.sealed.len() as u64)
            .step_by(4096)
            .filter(|_| random.below(3) == 0)
            .collect();
        let is_hole = random.below(2) == 0;
        heals(&content, |file| {
            let file = OpenOptions::new().write(true).open(file).unwrap();
            for page in &lost {
                if is_hole {
                    crate::eviction::punch(&file, *page, 4096);
                } else {
                    file.write_all_at(&[0; 4096], *page).unwrap();
                }
            }
        });
    }
}

/// The file is damaged between two reads of one process.
#[test]
fn damage_while_it_is_used_is_healed() {
    let content = Content::new(noise(1_000_000, 10));
    let (folder, server) = (folder(), content.server());
    let cache = cache(folder.path(), LARGE);
    let reader = content.open(&cache, &server);
    content.assert_read_by(&reader);
    for len in [0, 5000, 2_000_000] {
        let file = OpenOptions::new()
            .write(true)
            .open(content.file(&cache))
            .unwrap();
        file.set_len(len).unwrap();
        content.assert_read_by(&reader);
    }
    fs::remove_file(content.file(&cache)).unwrap();
    content.assert_read_by(&reader);
}

/// Without the server, what is wrong is an error and not wrong bytes.
#[test]
fn without_the_server_damage_is_an_error() {
    let content = Content::new(noise(1_000_000, 11));
    let (folder, server) = (folder(), content.server());
    let cache = cache(folder.path(), LARGE);
    let reader = content.open(&cache, &server);
    content.assert_read_by(&reader);
    server.switch_off();
    let file = OpenOptions::new()
        .write(true)
        .open(content.file(&cache))
        .unwrap();
    file.write_all_at(&[0; 10], 300_000).unwrap();
    assert!(reader.read_exact_at(&mut [0; 4096], 299_008).is_err());
    // Only the granule with it is lost.
    reader.read_exact_at(&mut [0; 4096], 0).unwrap();
    reader.read_exact_at(&mut [0; 4096], 600_000).unwrap();
}

/// As all that is kept is checked, without the server.
#[test]
fn what_a_reader_of_the_copy_alone_finds_wrong_is_dropped() {
    let content = Content::new(noise(700_000, 5));
    let (folder, server) = (folder(), content.server());
    let cache = cache(folder.path(), LARGE);
    content.assert_read_by(&content.open(&cache, &server));
    let file = OpenOptions::new().write(true).open(content.file(&cache));
    file.unwrap().write_all_at(b"wrong", 300_000).unwrap();
    let object = cache.existing(&content.key(), Part::Data).unwrap();
    let sealed = Sealed::open_appended(Arc::new(object.clone())).unwrap();
    let seal = sealed.accepted_by(&Trust::Digest(content.digest)).unwrap();
    let reader = VerifiedReader::new(seal, VerifyOptions::default()).unwrap();
    let read = reader.read_exact_at(&mut [0; 10], 300_000);
    assert!(matches!(read, Err(ReadError::Rejected(_))));
    let is_here = |at: u64| object.data_ranges(at..at + 1).next().is_some();
    assert_eq!([0, 300_000, 600_000].map(is_here), [true, false, true]);
}

/// As what was fetched from a server is in memory for a while.
#[test]
fn what_the_source_has_wrong_is_dropped_there_too() {
    let content = Content::new(noise(700_000, 12));
    let folder = folder();
    let cache = cache(folder.path(), LARGE);
    let source = Arc::new(Doubtful::copy(content.sealed.clone(), [5, 300_000]));
    let size = content.sealed.len() as u64;
    let object = cache.object(&content.key(), Part::Data, size).unwrap();
    let sealed = Sealed::open_appended(Arc::new(Cached::new(source, object))).unwrap();
    let seal = sealed.accepted_by(&Trust::Digest(content.digest)).unwrap();
    let reader = VerifiedReader::new(seal, VerifyOptions::default()).unwrap();
    content.assert_read_by(&reader);
}

/// As copies on this machine are among the places of what is kept.
#[test]
fn the_source_is_mended() {
    let folder = folder();
    let cache = cache(folder.path(), LARGE);
    let path = folder.path().join("file");
    fs::write(&path, [1; 100]).unwrap();
    let source = Arc::new(MendableFile::open(&path).unwrap());
    let object = cache.object(&Key::new("key").unwrap(), Part::Data, 100);
    let cached = Cached::new(source, object.unwrap());
    cached.mend(&[2; 20], 50).unwrap();
    let expected = [[1; 50].as_slice(), &[2; 20], &[1; 30]].concat();
    assert_eq!(fs::read(&path).unwrap(), expected);
}
