//! A machine that loses power while a file is repaired.

use std::{fs, io, ops::Range, sync::Arc};

use verimount::{Content, Location, OpenOptions, ReadAt, ReadError, Report, VerifyOptions};
use verimount_source::{Ask, Fetch, Given, Hint, WriteAt};
use verimount_testkit::{Random, Recorder, Recording, is_exhaustive, seed};

use crate::image::Image;

/// A disk that is repaired as files are, with a log of all writes.
struct Disk(Arc<Recorder>);

impl Fetch for Disk {
    fn length(&self) -> u64 {
        self.0.size()
    }

    fn fetch(&self, buf: &mut [u8], offset: u64, ask: Ask<'_>) -> Result<Given, ReadError> {
        self.0.fetch(buf, offset, ask)
    }

    fn stream(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        self.0.stream(range, take)
    }

    fn hint(&self, range: Range<u64>, hint: Hint) {
        self.0.hint(range, hint);
    }

    fn distrust(&self, range: Range<u64>, given: &Given) -> u32 {
        self.0.distrust(range, given)
    }

    fn mend(&self, right: &[u8], offset: u64) -> io::Result<()> {
        let written = self.0.write_durable_at(right, offset);
        written.map_err(io::Error::other)
    }
}

/// Some 25 blocks, of whole sectors.
const SIZE: usize = 199 * 512;

#[test]
fn after_a_power_cut_at_any_write_it_can_be_repaired() {
    let image = Image::of_size(SIZE);
    let folder = tempfile::tempdir().unwrap();
    let mirror = folder.path().join("mirror");
    fs::write(&mirror, &image.sealed).unwrap();
    let rounds = if is_exhaustive() { 40 } else { 3 };
    let first = seed();
    for seed in (0..rounds).map(|round| first.wrapping_add(round)) {
        let damaged = damaged(&image, seed);
        let recording = Recording::new(vec![damaged]);
        let disk = recording.devices().next().unwrap();
        let report = repair(disk, &image, &mirror);
        assert!(report.bad_ranges > 0 && report.is_good(), "seed {seed}");
        assert!(recording.crash_now().all_survives()[0] == image.sealed);
        for point in recording.crash_points() {
            for state in point.states(seed) {
                let again = Recording::new(state);
                let disk = again.devices().next().unwrap();
                let report = repair(disk, &image, &mirror);
                assert!(
                    report.is_good(),
                    "seed {seed}, after {} writes",
                    point.events
                );
                assert!(again.crash_now().all_survives()[0] == image.sealed);
            }
        }
    }
}

/// The file with wrong sectors in some of its blocks.
fn damaged(image: &Image, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = image.sealed.clone();
    let blocks = image.blocks();
    for _ in 0..1 + random.below(6) {
        let block = &blocks[random.below(blocks.len())];
        for at in (block.start..block.end).step_by(512) {
            if random.coin() || at == block.start {
                bytes[at + random.below(512)] ^= 1 << random.below(8);
            }
        }
    }
    // Twice the same bit may have been flipped.
    if bytes == image.sealed {
        bytes[0] ^= 1;
    }
    bytes
}

fn repair(disk: Arc<Recorder>, image: &Image, mirror: &std::path::Path) -> Report {
    let options = OpenOptions::new()
        .digest(image.digest)
        .mirror(mirror)
        .repair(true);
    let opened = Content::open(Location::source("disk", Disk(disk)), &options).unwrap();
    opened.verify(&VerifyOptions::default()).unwrap()
}
