use anyhow::{Result, bail, ensure};
use verimount_integrity::Mode;

use super::sequence::{SECTORS, Sequence, WRITES_PER_FLUSH};

/// The content of a sector of a recovered volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The content of this write.
    Generation(u64),
    /// Content that no write has written there.
    Garbage,
    /// None: its block does not match its tag.
    Mismatch,
}

/// The possible contents of a volume's sectors when its machine is killed.
#[derive(Debug)]
pub(super) struct Model {
    mode: Mode,
    sequence: Sequence,
    /// All writes up to this one are durable.
    flushed: u64,
    /// The last of these writes, by sector.
    generations: Vec<u64>,
}

impl Model {
    pub(super) fn new(mode: Mode, sequence: Sequence) -> Self {
        Self {
            mode,
            sequence,
            flushed: 0,
            generations: vec![0; SECTORS as usize],
        }
    }

    /// Records that all writes up to this one are durable.
    pub(super) fn flush(&mut self, generation: u64) {
        for generation in self.flushed + 1..=generation {
            apply(&self.sequence, generation, &mut self.generations);
            self.flushed = generation;
        }
    }

    /// The last write that is known to be durable.
    pub(super) fn flushed(&self) -> u64 {
        self.flushed
    }

    /// Whether the contents show that the machine was killed between two flushes, when some of the writes
    /// between them were done.
    ///
    /// # Errors
    /// A sector or block has content that it may not have.
    pub(super) fn check(&mut self, found: &[Found]) -> Result<bool> {
        // A write begins when the flush before it has returned, even if its report has not arrived.
        if let Some(newest) = found.iter().filter_map(|found| found.generation()).max() {
            self.flush(Sequence::flushed_before(newest));
        }
        for (sector, found) in (0..).zip(found) {
            self.check_sector(sector, *found)?;
        }
        if self.mode != Mode::Bitmap {
            let blocks = found.chunks(self.sequence.block_sectors as usize);
            for (number, block) in blocks.enumerate() {
                let is_whole = block.iter().all(|sector| sector == &block[0]);
                ensure!(is_whole, "block {number} is torn: {block:?}");
            }
        }
        Ok(self.is_amid_writes(found))
    }

    fn check_sector(&self, sector: u64, found: Found) -> Result<()> {
        let flushed = self.generations[sector as usize];
        let up_to = self.flushed;
        match found {
            Found::Generation(generation) if generation == flushed => {}
            Found::Generation(generation)
                if generation > up_to && self.sequence.write(generation).contains(&sector) => {}
            Found::Mismatch if self.mode == Mode::Direct && self.may_be_under_way(sector) => {}
            _ => bail!(
                "sector {sector} is {found:?}, and was last flushed with generation {flushed}, \
                 when all up to {up_to} were flushed"
            ),
        }
        Ok(())
    }

    /// Whether a write to a sector may be in flight: between the next two flushes, or after them if none of
    /// its blocks can be read yet.
    fn may_be_under_way(&self, sector: u64) -> bool {
        (self.flushed + 1..=self.flushed + 2 * WRITES_PER_FLUSH)
            .any(|generation| self.sequence.write(generation).contains(&sector))
    }

    fn is_amid_writes(&self, found: &[Found]) -> bool {
        let mut done = self.generations.clone();
        for generation in self.flushed + 1..=self.flushed + WRITES_PER_FLUSH {
            apply(&self.sequence, generation, &mut done);
        }
        let is_begun = found.iter().any(|found| match found {
            Found::Generation(generation) => *generation > self.flushed,
            Found::Garbage => false,
            Found::Mismatch => true,
        });
        let is_done = found
            .iter()
            .zip(done)
            .all(|(found, done)| *found == Found::Generation(done));
        is_begun && !is_done
    }
}

impl Found {
    fn generation(self) -> Option<u64> {
        match self {
            Self::Generation(generation) => Some(generation),
            Self::Garbage | Self::Mismatch => None,
        }
    }
}

fn apply(sequence: &Sequence, generation: u64, generations: &mut [u64]) {
    for sector in sequence.write(generation) {
        generations[sector as usize] = generation;
    }
}

#[cfg(test)]
mod tests {
    use super::{super::kind::KINDS, *};

    fn sequence() -> Sequence {
        let kind = KINDS.iter().find(|kind| kind.block_size == 4096);
        Sequence::new(3, kind.unwrap())
    }

    /// The contents after all writes up to one.
    fn written(up_to: u64) -> Vec<Found> {
        let mut generations = vec![0; SECTORS as usize];
        for generation in 1..=up_to {
            apply(&sequence(), generation, &mut generations);
        }
        generations.into_iter().map(Found::Generation).collect()
    }

    /// The result for `found` when all writes up to the second flush are durable.
    fn check(mode: Mode, found: &[Found]) -> Result<bool> {
        let mut model = Model::new(mode, sequence());
        model.flush(2 * WRITES_PER_FLUSH);
        model.check(found)
    }

    /// The first sector that a write changes since the last flush.
    fn first_of(generation: u64) -> usize {
        sequence().write(generation).start as usize
    }

    #[test]
    fn what_was_flushed_must_be_there_and_more_may_be() {
        for mode in [Mode::Journal, Mode::Bitmap, Mode::Direct] {
            assert!(!check(mode, &written(2 * WRITES_PER_FLUSH)).unwrap());
            assert!(check(mode, &written(2 * WRITES_PER_FLUSH + 5)).unwrap());
            assert!(!check(mode, &written(3 * WRITES_PER_FLUSH)).unwrap());
            check(mode, &written(2 * WRITES_PER_FLUSH - 1)).unwrap_err();
        }
    }

    #[test]
    fn what_is_found_says_what_was_flushed() {
        // The first write after the fourth flush is present, and one before that flush is missing.
        let mut found = written(4 * WRITES_PER_FLUSH + 1);
        let lost = first_of(4 * WRITES_PER_FLUSH);
        check(Mode::Bitmap, &found).unwrap();
        found[lost] = written(4 * WRITES_PER_FLUSH - 1)[lost];
        check(Mode::Bitmap, &found).unwrap_err();
    }

    #[test]
    fn a_sector_has_what_was_written_to_it() {
        let next = 2 * WRITES_PER_FLUSH + 1;
        let sectors = sequence().write(next);
        let elsewhere = (sectors.end % SECTORS) as usize;
        for wrong in [Found::Generation(next), Found::Garbage] {
            let mut found = written(2 * WRITES_PER_FLUSH);
            found[elsewhere] = wrong;
            check(Mode::Bitmap, &found).unwrap_err();
        }
    }

    #[test]
    fn only_the_bitmap_lets_a_block_be_torn() {
        let next = 2 * WRITES_PER_FLUSH + 1;
        let mut found = written(2 * WRITES_PER_FLUSH);
        found[first_of(next)] = Found::Generation(next);
        assert!(check(Mode::Bitmap, &found).unwrap());
        check(Mode::Journal, &found).unwrap_err();
        check(Mode::Direct, &found).unwrap_err();
    }

    #[test]
    fn only_direct_mode_lets_a_block_mismatch_and_only_under_way() {
        let damaged = |sector: usize| {
            let mut found = written(2 * WRITES_PER_FLUSH);
            let start = sector / 8 * 8;
            found[start..start + 8].fill(Found::Mismatch);
            found
        };
        let under_way = damaged(first_of(2 * WRITES_PER_FLUSH + 1));
        assert!(check(Mode::Direct, &under_way).unwrap());
        check(Mode::Journal, &under_way).unwrap_err();
        check(Mode::Bitmap, &under_way).unwrap_err();
        let is_idle = |sector: &u64| {
            let mut writes = 2 * WRITES_PER_FLUSH + 1..=4 * WRITES_PER_FLUSH;
            writes.all(|generation| !sequence().write(generation).contains(sector))
        };
        let idle = (0..SECTORS).find(is_idle).unwrap();
        check(Mode::Direct, &damaged(idle as usize)).unwrap_err();
    }
}
