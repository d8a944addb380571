use std::{collections::HashMap, fs::File, ops::Range};

use rustix::fs::{SeekFrom, seek};
use verimount_source::GRANULE;
use verimount_sync::Mutex;

/// Words of a set of granules.
const WORDS: usize = 64;

/// Granules of a chunk: those of 512 MiB.
const CHUNK: u64 = WORDS as u64 * 64;

/// Which granules of a file are data and not holes, as far as this process knows, and which it has used. What
/// is asked for first is looked up in the file, so that memory is needed only for the parts that are read.
#[derive(Debug, Default)]
pub(crate) struct Presence(Mutex<HashMap<u64, Chunk>>);

#[derive(Debug)]
struct Chunk {
    here: [u64; WORDS],
    used: [u64; WORDS],
}

impl Presence {
    /// Whether a granule is here; it counts as used.
    pub(crate) fn use_granule(&self, granule: u64, file: &File) -> bool {
        self.with(granule, file, |here, used, bit| {
            *used |= *here & bit;
            *here & bit != 0
        })
    }

    pub(crate) fn insert(&self, granule: u64, file: &File) {
        self.with(granule, file, |here, _, bit| *here |= bit);
    }

    pub(crate) fn remove(&self, granule: u64, file: &File) {
        self.with(granule, file, |here, _, bit| *here &= !bit);
    }

    /// Whether a granule was used since this was asked last.
    pub(crate) fn take_used(&self, granule: u64, file: &File) -> bool {
        self.with(granule, file, |_, used, bit| {
            let was_used = *used & bit != 0;
            *used &= !bit;
            was_used
        })
    }

    /// What `look` makes of the words of a granule, here and used, and of its bit in them.
    fn with<T>(
        &self,
        granule: u64,
        file: &File,
        look: impl FnOnce(&mut u64, &mut u64, u64) -> T,
    ) -> T {
        let number = granule / CHUNK;
        let mut chunks = self.0.lock();
        let chunk = chunks
            .entry(number)
            .or_insert_with(|| Chunk::of(file, number));
        let (word, bit) = place(granule);
        look(&mut chunk.here[word], &mut chunk.used[word], bit)
    }
}

impl Chunk {
    fn of(file: &File, number: u64) -> Self {
        let mut here = [0; WORDS];
        for granule in data_ranges(file, number * CHUNK..(number + 1) * CHUNK).flatten() {
            let (word, bit) = place(granule);
            here[word] |= bit;
        }
        let used = [0; WORDS];
        Self { here, used }
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
        // Half a granule.
        file.write_all_at(&data[..GRANULE as usize / 2], 5 * GRANULE)
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
        presence.remove(1, &file);
        assert!(presence.use_granule(5, &file) && !presence.use_granule(1, &file));
        assert!(presence.take_used(5, &file) && !presence.take_used(5, &file));
        assert!(!presence.use_granule(u64::MAX / GRANULE, &file));
    }
}
