//! What a seal costs is bounded by what is read, whatever its numbers say: counted in bytes, not in time.

use std::{num::NonZeroUsize, sync::Arc};

use verimount_source::{Counting, FileSource, ReadAt, Scratch};
use verimount_testkit::{Random, go_on, noise, random_cases};
use verimount_verity::{
    BlockSize, Error, SealLayout, Sealed, TreeParams, Trust, VerifiedReader, VerifyOptions,
    dm_verity::{self, HashArea},
    seal,
};

/// The most bytes that are read to open a seal: its end with a signature, and the topmost block of a tree.
const MOST_TO_OPEN: u64 = 64 << 10;

/// The largest block of a tree, in bytes, and the most levels.
const LARGEST_BLOCK: u64 = 64 << 10;
const MOST_LEVELS: u64 = 8;

fn options() -> VerifyOptions {
    VerifyOptions {
        tree_readahead: 0,
        cache_bytes: 0,
        ..VerifyOptions::default()
    }
}

type Counted = Arc<Counting<Vec<u8>>>;

fn counted(bytes: &[u8]) -> Counted {
    Arc::new(Counting::new(bytes.to_vec()))
}

fn read(sources: &[Counted]) -> u64 {
    sources.iter().map(|source| source.counts().bytes).sum()
}

/// The bytes of a new file.
fn written(write: impl FnOnce(&std::fs::File)) -> Vec<u8> {
    let file = tempfile::tempfile().unwrap();
    write(&file);
    let source = FileSource::new(file).unwrap();
    let mut bytes = vec![0; source.size() as usize];
    source.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Changes some bytes near the beginning or the end, where the numbers are.
fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..random.below(4) {
        let near = random.below(bytes.len().min(600));
        let at = if random.coin() {
            near
        } else {
            bytes.len() - 1 - near
        };
        bytes[at] = random.choose(&[0, 1, 7, 12, 16, 0x7f, 0xff]);
    }
    if random.below(8) == 0 {
        let len = random.below(bytes.len() + 4096);
        bytes.resize(len, 0);
    }
}

/// Reads single bytes at random places, none of which costs more than a block of data and one of each level of the tree.
fn check_reads(reader: &VerifiedReader, sources: &[Counted], random: &mut Random) -> usize {
    let mut scratch = Scratch::default();
    let size = reader.size() as usize;
    let mut right = 0;
    for _ in 0..8 {
        let before = read(sources);
        let at = random.below(size.max(1));
        right += usize::from(
            reader
                .read_borrowed(&mut scratch, at as u64, 1.min(size))
                .is_ok(),
        );
        let taken = read(sources) - before;
        assert!(taken <= LARGEST_BLOCK * (1 + MOST_LEVELS), "{taken}");
    }
    right
}

#[test]
fn no_seal_costs_more_than_its_blocks() {
    let mut right = 0;
    for seed in 0..random_cases(300) {
        let mut random = Random::new(seed.into());
        let data = noise(random.below(100_000), 1);
        let params = TreeParams {
            block_size: BlockSize::from_log2(random.choose(&[10, 11, 12, 13])).unwrap(),
            ..TreeParams::default()
        };
        let mut sidecar = written(|file| {
            let layout = SealLayout::Sidecar;
            seal(&data, file, layout, &params, NonZeroUsize::MIN, &mut go_on).unwrap();
        });
        change(&mut sidecar, &mut random);
        let sources = [counted(&data), counted(&sidecar)];
        let opened = Sealed::open_sidecar(sources[0].clone(), sources[1].clone())
            .and_then(|sealed| sealed.accepted_by(&Trust::Unpinned))
            .and_then(|seal| VerifiedReader::new(seal, options()));
        assert!(read(&sources) <= MOST_TO_OPEN, "seed {seed}");
        if let Ok(reader) = opened {
            right += check_reads(&reader, &sources, &mut random);
        }
    }
    assert!(right > 0);
}

#[test]
fn no_hash_area_costs_more_than_its_blocks() {
    let mut right = 0;
    for seed in 0..random_cases(300) {
        let mut random = Random::new(seed.into());
        let data = noise(4096 * (1 + random.below(300)), 1);
        let mut hashes = written(|file| {
            let params = dm_verity::Params::default();
            dm_verity::seal(
                &data,
                file,
                SealLayout::Sidecar,
                &params,
                NonZeroUsize::MIN,
                &mut go_on,
            )
            .unwrap();
        });
        change(&mut hashes, &mut random);
        let sources = [counted(&data), counted(&hashes)];
        let open = || HashArea::open_beside(sources[0].clone(), sources[1].clone(), 0);
        let root = open().and_then(|area| area.root_hash_unverified());
        let opened = match root {
            Ok(Some(root)) => open()
                .and_then(|area| area.accepted_by(root.as_bytes()))
                .and_then(|seal| VerifiedReader::new(seal, options())),
            Ok(None) => continue,
            Err(error) => Err::<VerifiedReader, Error>(error),
        };
        assert!(read(&sources) <= 3 * MOST_TO_OPEN, "seed {seed}");
        if let Ok(reader) = opened {
            right += check_reads(&reader, &sources, &mut random);
        }
    }
    assert!(right > 0);
}
