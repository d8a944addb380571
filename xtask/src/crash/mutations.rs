//! Every flush, durable write, order and look for a failure that a volume's consistency rests on, and how
//! to take it away.
//!
//! The sources are patched, so that nothing in them is there for the sake of this. A patch that does
//! not fit any more is an error, and a test's business.

use anyhow::{Result, ensure};

/// A change of a source file that a crash or a failure must show.
pub(super) struct Mutation {
    /// The file, in the crate's sources.
    pub(super) file: &'static str,
    /// What is taken away.
    pub(super) name: &'static str,
    /// What is there, once.
    before: &'static str,
    /// What is there instead.
    after: &'static str,
}

impl Mutation {
    /// The source with the change.
    ///
    /// # Errors
    /// A source that does not have the place exactly once.
    pub(super) fn apply(&self, source: &str) -> Result<String> {
        let places = source.matches(self.before).count();
        ensure!(
            places == 1,
            "{}: there are {places} places for \"{}\"",
            self.file,
            self.name
        );
        Ok(source.replace(self.before, self.after))
    }
}

pub(super) const MUTATIONS: [Mutation; 51] = [
    Mutation {
        file: "storage.rs",
        name: "of a flush, the one of the data device",
        before: "
            if let Some(data) = &devices.data {
                data.flush()?;
            }
",
        after: "",
    },
    Mutation {
        file: "storage.rs",
        name: "of a flush of two devices, the one of the metadata device",
        before: "
                data.flush()?;
            }
",
        after: "
                return data.flush();
            }
",
    },
    Mutation {
        file: "blocks.rs",
        name: "tags before the flush",
        before: "
        self.tags.write_back()?;
        self.storage.flush()
",
        after: "
        self.storage.flush()?;
        self.tags.write_back()
",
    },
    Mutation {
        file: "blocks.rs",
        name: "the flush after data and tags",
        before: "
        self.tags.write_back()?;
        self.storage.flush()
",
        after: "
        self.tags.write_back()
",
    },
    Mutation {
        file: "volume/saved_superblock.rs",
        name: "that the superblock is durable",
        before: "write_metadata_durable",
        after: "write_metadata",
    },
    Mutation {
        file: "bitmap.rs",
        name: "that a new bitmap is durable",
        before: "storage.write_metadata_durable(&bits",
        after: "storage.write_metadata(&bits",
    },
    Mutation {
        file: "bitmap.rs",
        name: "that a bit is durable",
        before: "self.storage.write_metadata_durable(",
        after: "self.storage.write_metadata(",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "bits before a write",
        before: "
                bitmap.mark(&(sector..sector + data.len() as u64 / SECTOR))?;
                blocks.write(sector, data, tags)
",
        after: "
                blocks.write(sector, data, tags)?;
                bitmap.mark(&(sector..sector + data.len() as u64 / SECTOR))
",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "bits before writing zeros",
        before: "
                bitmap.mark(&range)?;
                blocks.zero(range)
",
        after: "
                blocks.zero(range.clone())?;
                bitmap.mark(&range)
",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "bits before a discard",
        before: "
                bitmap.mark(&range)?;
                blocks.discard(range)
",
        after: "
                blocks.discard(range.clone())?;
                bitmap.mark(&range)
",
    },
    Mutation {
        file: "volume/mod.rs",
        name: "a flush before bits are cleared",
        before: "
                self.consistency.flush(&self.blocks)?;
                bitmap.clear_below(self.recalculation.position().unwrap_or(u64::MAX))
",
        after: "
                bitmap.clear_below(self.recalculation.position().unwrap_or(u64::MAX))?;
                self.consistency.flush(&self.blocks)
",
    },
    Mutation {
        file: "volume/mod.rs",
        name: "bits until tags are computed anew",
        before: "self.recalculation.position().unwrap_or(u64::MAX)",
        after: "u64::MAX",
    },
    Mutation {
        file: "volume/prepare.rs",
        name: "announcing the bitmap before it is written",
        before: "
        self.superblock.update(|superblock| {
            superblock.dirty_bitmap = true;
            superblock.log2_blocks_per_bitmap_bit = layout.log2_blocks_per_bit();
            if position.is_some() {
                superblock.forget_bitmap();
            }
        })?;
        let bits = position.map_or_else(|| layout.none(), |position| layout.all_from(position));
        let storage = self.blocks.storage.clone();
        let bitmap = Bitmap::create(storage, layout, bits, self.bitmap_clear_interval)?;
",
        after: "
        let bits = position.map_or_else(|| layout.none(), |position| layout.all_from(position));
        let storage = self.blocks.storage.clone();
        let bitmap = Bitmap::create(storage, layout, bits, self.bitmap_clear_interval)?;
        self.superblock.update(|superblock| {
            superblock.dirty_bitmap = true;
            superblock.log2_blocks_per_bitmap_bit = layout.log2_blocks_per_bit();
            if position.is_some() {
                superblock.forget_bitmap();
            }
        })?;
",
    },
    Mutation {
        file: "volume/prepare.rs",
        name: "no bitmap before there is one, where tags are to be computed anew",
        before: "
            if position.is_some() {
                superblock.forget_bitmap();
            }
",
        after: "",
    },
    Mutation {
        file: "volume/prepare.rs",
        name: "the bitmap before what says how to read it",
        before: "
        let bitmap = Bitmap::create(storage, layout, bits, self.bitmap_clear_interval)?;
        let is_clean = regions.is_empty();
        self.superblock.update(|superblock| {
            superblock.log2_blocks_per_bitmap_bit = layout.log2_blocks_per_bit();
            if !is_clean {
                superblock.recalculation = Some(0);
            }
        })?;
",
        after: "
        let is_clean = regions.is_empty();
        self.superblock.update(|superblock| {
            superblock.log2_blocks_per_bitmap_bit = layout.log2_blocks_per_bit();
            if !is_clean {
                superblock.recalculation = Some(0);
            }
        })?;
        let bitmap = Bitmap::create(storage, layout, bits, self.bitmap_clear_interval)?;
",
    },
    Mutation {
        file: "volume/prepare.rs",
        name: "noting that tags are to be computed anew before the bitmap is gone",
        before: "
            self.superblock.update(|superblock| {
                superblock.recalculation = Some(0);
                superblock.forget_bitmap();
            })?;
        }
        let replayed = self.ring.initialise()?;
",
        after: "
        }
        let replayed = self.ring.initialise()?;
        if !is_clean {
            self.superblock.update(|superblock| {
                superblock.recalculation = Some(0);
                superblock.forget_bitmap();
            })?;
        }
",
    },
    Mutation {
        file: "volume/prepare.rs",
        name: "a journal in the bitmap's place before the superblock says so",
        before: "
        let replayed = self.ring.initialise()?;
        self.superblock.update(|superblock| {
            superblock.dirty_bitmap = false;
            superblock.log2_blocks_per_bitmap_bit = 0;
        })?;
",
        after: "
        self.superblock.update(|superblock| {
            superblock.dirty_bitmap = false;
            superblock.log2_blocks_per_bitmap_bit = 0;
        })?;
        let replayed = self.ring.initialise()?;
",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "closing in bitmap mode: a flush before the bitmap is gone",
        before: "
                blocks.flush()?;
                // If",
        after: "
                // If",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "closing in bitmap mode: no bitmap before it is gone, where tags are to be computed anew",
        before: "superblock.update(Superblock::forget_bitmap)?;",
        after: "",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "closing in bitmap mode: a journal before the superblock says so",
        before: "
                ring.initialise()?;
                superblock.update(|superblock| superblock.dirty_bitmap = false)
",
        after: "
                superblock.update(|superblock| superblock.dirty_bitmap = false)?;
                ring.initialise().map(|_| ())
",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "closing in direct mode: the flush",
        before: "Self::Direct => blocks.flush(),
            Self::RecoveryUnverified => Ok(()),
        }
    }
}",
        after: "Self::Direct | Self::RecoveryUnverified => Ok(()),
        }
    }
}",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "a discard in journal mode: an empty journal before it",
        before: "
                journal.clear(blocks)?;
",
        after: "",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "a discard in journal mode: tags before data",
        before: "
                blocks.flush()?;
                blocks.zero_data(range)
",
        after: "
                blocks.zero_data(range)
",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "a discard in journal mode: the journal, for tags in two sectors",
        before: "
                    self.zero(blocks, block)?;
",
        after: "
                    blocks.set_discarded_tags(block)?;
",
    },
    Mutation {
        file: "volume/check.rs",
        name: "accepting blocks: the flush",
        before: "
        self.flush()
",
        after: "
        Ok(())
",
    },
    Mutation {
        file: "volume/recalculate.rs",
        name: "tags before the superblock says how far they are right",
        before: "
        self.blocks.flush()?;
",
        after: "",
    },
    Mutation {
        file: "journal/writer.rs",
        name: "a flush of the journal when the volume is flushed",
        before: "
        self.commit(&mut committed, blocks, Extent::All)?;
        committed.flush()
",
        after: "
        self.commit(&mut committed, blocks, Extent::All)
",
    },
    Mutation {
        file: "journal/committed.rs",
        name: "a flush of the journal before its blocks come to their place",
        before: "
        self.flush()?;
        let newest",
        after: "
        let newest",
    },
    Mutation {
        file: "journal/committed.rs",
        name: "a flush of blocks in place before all sections are free",
        before: "
        blocks.flush()?;
        self.drop_oldest(self.sections.len());
",
        after: "
        self.drop_oldest(self.sections.len());
",
    },
    Mutation {
        file: "journal/committed.rs",
        name: "a flush of blocks in place before some sections are free",
        before: "
        blocks.flush_storage()?;
",
        after: "",
    },
    Mutation {
        file: "journal/committed.rs",
        name: "keeping sections whose tags are in memory",
        before: "entries.all(|entry| !blocks.has_dirty_tag(entry.sector))",
        after: "entries.all(|_| true)",
    },
    Mutation {
        file: "journal/committed.rs",
        name: "a flush of the empty sections",
        before: "
            self.ring.flush()?;
            self.position.sequence",
        after: "
            self.position.sequence",
    },
    Mutation {
        file: "journal/ring.rs",
        name: "a flush of a fresh journal",
        before: "
        self.flush()?;
        Ok(Replayed::FRESH)
",
        after: "
        Ok(Replayed::FRESH)
",
    },
    Mutation {
        file: "journal/replay.rs",
        name: "a flush of what was replayed before the journal is cleared",
        before: "
        blocks.flush()?;
",
        after: "",
    },
    Mutation {
        file: "journal/replay.rs",
        name: "a flush of the oldest section before others are cleared",
        before: "
    ring.flush()?;
    ring.write_empty(after",
        after: "
    ring.write_empty(after",
    },
    Mutation {
        file: "journal/replay.rs",
        name: "a flush of the cleared journal",
        before: "
    ring.flush()?;
    Ok(Position",
        after: "
    Ok(Position",
    },
    Mutation {
        file: "format.rs",
        name: "that there is no volume before there is a new one",
        before: "storage.write_metadata_durable(&[0; SUPERBLOCK_SIZE], place)?;",
        after: "storage.write_metadata(&[0; SUPERBLOCK_SIZE], place)?;",
    },
    Mutation {
        file: "format.rs",
        name: "a flush before the superblock of a new volume",
        before: "
    blocks.flush()?;
    storage.write_metadata_durable(&superblock",
        after: "
    storage.write_metadata_durable(&superblock",
    },
    Mutation {
        file: "format.rs",
        name: "that the superblock of a new volume is durable",
        before: "storage.write_metadata_durable(&superblock",
        after: "storage.write_metadata(&superblock",
    },
    Mutation {
        file: "volume/grow.rs",
        name: "a flush of new blocks before the superblock says that they are there",
        before: "
        blocks.flush()?;
",
        after: "",
    },
    Mutation {
        file: "storage.rs",
        name: "that nothing is written after a failure",
        before: "        self.check_latch()?;
        change(",
        after: "        change(",
    },
    Mutation {
        file: "storage.rs",
        name: "that a failure is remembered",
        before: "change(&self.devices).map_err(|error| self.latch(error.into()))",
        after: "Ok(change(&self.devices)?)",
    },
    Mutation {
        file: "storage.rs",
        name: "that flushes wait for one another",
        before: "        let _durability = self
            .durability
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
",
        after: "",
    },
    Mutation {
        file: "storage.rs",
        name: "that a flush is shared only with those who ask before it begins",
        before: "before + 2",
        after: "before + 1",
    },
    Mutation {
        file: "volume/mod.rs",
        name: "that a change looks for a failure",
        before: "        self.check_writable()?;
        Ok(Change::new",
        after: "        Ok(Change::new",
    },
    Mutation {
        file: "volume/mod.rs",
        name: "that it does so when it has waited",
        before: "        let locked = self.locks.lock(sectors, Access::Exclusive);
        self.check_writable()?;
",
        after: "        self.check_writable()?;
        let locked = self.locks.lock(sectors, Access::Exclusive);
",
    },
    Mutation {
        file: "journal/writer.rs",
        name: "that a flush with nothing to do looks for a failure",
        before: "        blocks.storage.check_latch()?;
        Ok(committed)",
        after: "        Ok(committed)",
    },
    Mutation {
        file: "journal/writer.rs",
        name: "that it does so when it has waited",
        before: "        let committed = self
            .committed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        blocks.storage.check_latch()?;
        Ok(committed)",
        after: "        blocks.storage.check_latch()?;
        let committed = self
            .committed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(committed)",
    },
    Mutation {
        file: "journal/writer.rs",
        name: "that blocks are kept until they are in the journal",
        before: "            committed.write(entries)?;
            self.pending.commit_oldest(count);
",
        after: "            self.pending.commit_oldest(count);
            committed.write(entries)?;
",
    },
    Mutation {
        file: "journal/committed.rs",
        name: "that sections are written before they count",
        before: "            self.ring.write(first.section, &bytes)?;
            self.position = position;
            self.free -= sections;
            self.sections.extend(written);
",
        after: "            self.position = position;
            self.free -= sections;
            self.sections.extend(written);
            self.ring.write(first.section, &bytes)?;
",
    },
    Mutation {
        file: "tag_cache/write_back.rs",
        name: "that tags are dirty until they are stored",
        before: "            is_stored: false,
",
        after: "            is_stored: true,
",
    },
];
