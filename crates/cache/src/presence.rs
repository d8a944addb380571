use std::{
    array,
    collections::HashMap,
    fs::File,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rustix::fs::{SeekFrom, seek};
use verimount_source::GRANULE;
use verimount_sync::RwLock;

/// Words of a set of granules.
const WORDS: usize = 64;

/// Granules of a chunk: those of 512 MiB.
const CHUNK: u64 = WORDS as u64 * 64;

/// Which granules of a file are data and not holes, as far as this process knows, and which it has used. What
/// is asked for first is looked up in the file, so that memory is needed only for the parts that are read.
#[derive(Debug, Default)]
pub(crate) struct Presence(RwLock<HashMap<u64, Arc<Chunk>>>);

#[derive(Debug)]
struct Chunk {
    here: [AtomicU64; WORDS],
    used: [AtomicU64; WORDS],
}

impl Presence {
    /// Whether a granule is here; it counts as used.
    pub(crate) fn use_granule(&self, granule: u64, file: &File) -> bool {
        let chunk = self.chunk(granule, file);
        let (word, bit) = place(granule);
        let is_here = chunk.here[word].load(Relaxed) & bit != 0;
        if is_here && chunk.used[word].load(Relaxed) & bit == 0 {
            chunk.used[word].fetch_or(bit, Relaxed);
        }
        is_here
    }

    pub(crate) fn insert(&self, granule: u64, file: &File) {
        let (word, bit) = place(granule);
        self.chunk(granule, file).here[word].fetch_or(bit, Relaxed);
    }

    pub(crate) fn remove(&self, granule: u64) {
        let (word, bit) = place(granule);
        if let Some(chunk) = self.known(granule) {
            chunk.here[word].fetch_and(!bit, Relaxed);
        }
    }

    /// Whether a granule was used since this was asked last.
    pub(crate) fn take_used(&self, granule: u64) -> bool {
        let (word, bit) = place(granule);
        let is_used = |chunk: Arc<Chunk>| chunk.used[word].fetch_and(!bit, Relaxed) & bit != 0;
        self.known(granule).is_some_and(is_used)
    }

    /// What is known of the granules around this one, if anybody has asked.
    fn known(&self, granule: u64) -> Option<Arc<Chunk>> {
        self.0.read().get(&(granule / CHUNK)).cloned()
    }

    fn chunk(&self, granule: u64, file: &File) -> Arc<Chunk> {
        let number = granule / CHUNK;
        if let Some(chunk) = self.known(granule) {
            return chunk;
        }
        let chunk = Chunk::of(file, number * CHUNK..(number + 1) * CHUNK);
        let mut chunks = self.0.write();
        chunks.entry(number).or_insert(Arc::new(chunk)).clone()
    }
}

impl Chunk {
    fn of(file: &File, granules: Range<u64>) -> Self {
        let chunk = Self {
            here: array::from_fn(|_| AtomicU64::new(0)),
            used: array::from_fn(|_| AtomicU64::new(0)),
        };
        for data in data_ranges(file, granules.clone()) {
            debug_assert!(granules.start <= data.start && data.end <= granules.end);
            for granule in data {
                let (word, bit) = place(granule);
                chunk.here[word].fetch_or(bit, Relaxed);
            }
        }
        chunk
    }
}

fn place(granule: u64) -> (usize, u64) {
    let bit = granule % CHUNK;
    ((bit / 64) as usize, 1 << (bit % 64))
}

/// Runs of these granules of which every byte is data. If the system fails to tell, there are none.
pub(crate) fn data_ranges(file: &File, granules: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let granules = granules.start..granules.end.min(size.div_ceil(GRANULE));
    let mut next = granules.start * GRANULE;
    std::iter::from_fn(move || {
        while next < granules.end * GRANULE {
            let data = seek(file, SeekFrom::Data(next)).ok()?;
            let hole = seek(file, SeekFrom::Hole(data)).ok()?;
            // A file ends with a hole; its last granule may be short.
            let end = if hole >= size {
                granules.end
            } else {
                (hole / GRANULE).min(granules.end)
            };
            next = hole.max(data + 1);
            let whole = data.div_ceil(GRANULE)..end;
            if !whole.is_empty() {
                return Some(whole);
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init, reason = "one run of granules")]

    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn whole_granules_of_data_are_here() {
        let file = tempfile::tempfile().unwrap();
        let size = 10 * GRANULE + 5000;
        file.set_len(size).unwrap();
        let data = vec![1; 2 * GRANULE as usize];
        file.write_all_at(&data, GRANULE).unwrap();
        // Halves of granules.
        file.write_all_at(&data[..GRANULE as usize / 2], 5 * GRANULE)
            .unwrap();
        file.write_all_at(&data[..GRANULE as usize / 2], 7 * GRANULE + GRANULE / 2)
            .unwrap();
        file.write_all_at(&data[..5000], 10 * GRANULE).unwrap();
        let ranges: Vec<_> = data_ranges(&file, 0..100).collect();
        assert_eq!(ranges, [1..3, 10..11]);
        let ranges: Vec<_> = data_ranges(&file, 2..10).collect();
        assert_eq!(ranges, [2..3]);

        let presence = Presence::default();
        let here = (0..11).filter(|granule| presence.use_granule(*granule, &file));
        assert_eq!(here.collect::<Vec<_>>(), [1, 2, 10]);
        presence.insert(5, &file);
        presence.remove(1);
        assert!(presence.use_granule(5, &file) && !presence.use_granule(1, &file));
        assert!(presence.take_used(5) && !presence.take_used(5));
        assert!(!presence.use_granule(u64::MAX / GRANULE, &file));
    }
}
