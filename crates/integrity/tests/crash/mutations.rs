//! Every flush, durable write, ordering and failure check on which a volume's consistency depends, and a
//! patch that removes it.
//!
//! Patching the sources keeps them free of test hooks. A patch that no longer applies is an error,
//! and a test finds it.

/// A change of a source file that the crash simulation must notice.
pub(super) struct Mutation {
    /// The file, in the crate's sources.
    pub(super) file: &'static str,
    /// What is removed.
    pub(super) name: &'static str,
    /// The lowest seed with which it is noticed.
    pub(super) seed: u64,
    /// The text to replace, which the source has exactly once.
    before: &'static str,
    /// Its replacement.
    after: &'static str,
}

impl Mutation {
    /// The source with the change.
    ///
    /// # Panics
    /// If the source does not have the text to replace exactly once.
    pub(super) fn apply(&self, source: &str) -> String {
        let count = source.matches(self.before).count();
        let Self { file, name, .. } = self;
        assert_eq!(count, 1, "occurrences of the text for \"{name}\" in {file}");
        source.replace(self.before, self.after)
    }
}

pub(super) const MUTATIONS: [Mutation; 51] = [
    Mutation {
        file: "storage.rs",
        name: "flush of the data device",
        seed: 1,
        before: "
            if let Some(data) = &devices.data {
                data.flush()?;
            }
",
        after: "",
    },
    Mutation {
        file: "storage.rs",
        name: "flush of the metadata device, if there are two devices",
        seed: 1,
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
        name: "tags written back before the flush",
        seed: 0,
        before: "
        self.tags.write_back(WriteBack::All)?;
        self.storage.flush()
",
        after: "
        self.storage.flush()?;
        self.tags.write_back(WriteBack::All)
",
    },
    Mutation {
        file: "blocks.rs",
        name: "flush after data and tags",
        seed: 0,
        before: "
        self.tags.write_back(WriteBack::All)?;
        self.storage.flush()
",
        after: "
        self.tags.write_back(WriteBack::All)
",
    },
    Mutation {
        file: "volume/saved_superblock.rs",
        name: "durable write of the superblock",
        seed: 1,
        before: "write_metadata_durable",
        after: "write_metadata",
    },
    Mutation {
        file: "bitmap.rs",
        name: "durable write of a new bitmap",
        seed: 10,
        before: "storage.write_metadata_durable(&bits",
        after: "storage.write_metadata(&bits",
    },
    Mutation {
        file: "bitmap.rs",
        name: "durable write of a bit",
        seed: 1,
        before: "self.storage.write_metadata_durable(",
        after: "self.storage.write_metadata(",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "bits set before a write",
        seed: 1,
        before: "
        self.prepare_in_place(&(sector..sector + data.len() as u64 / SECTOR))?;
        blocks.write(sector, data, tags)
",
        after: "
        blocks.write(sector, data, tags)?;
        self.prepare_in_place(&(sector..sector + data.len() as u64 / SECTOR))
",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "bits set before writing zeros",
        seed: 13,
        before: "
        self.prepare_in_place(&range)?;
        blocks.zero(range)
",
        after: "
        blocks.zero(range.clone())?;
        self.prepare_in_place(&range)
",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "bits set before a discard",
        seed: 4,
        before: "
        self.prepare_in_place(&range)?;
        blocks.discard(range)
",
        after: "
        blocks.discard(range.clone())?;
        self.prepare_in_place(&range)
",
    },
    Mutation {
        file: "volume.rs",
        name: "flush before bits are cleared",
        seed: 4,
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
        file: "volume.rs",
        name: "bits kept until tags are recalculated",
        seed: 25,
        before: "self.recalculation.position().unwrap_or(u64::MAX)",
        after: "u64::MAX",
    },
    Mutation {
        file: "volume/prepare.rs",
        name: "superblock announces the bitmap before it is written",
        seed: 1,
        before: "
        self.superblock.update(|superblock| {
            superblock.dirty_bitmap = true;
            superblock.log2_blocks_per_bitmap_bit = layout.log2_blocks_per_bit();
            if position.is_some() {
                superblock.forget_bitmap();
            }
        })?;
        let bits = layout.all_from(position.unwrap_or(u64::MAX));
        let bitmap = self.bitmap(layout, bits)?;
",
        after: "
        let bits = layout.all_from(position.unwrap_or(u64::MAX));
        let bitmap = self.bitmap(layout, bits)?;
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
        name: "bitmap marked as absent until it is written, during recalculation",
        seed: 46,
        before: "
            if position.is_some() {
                superblock.forget_bitmap();
            }
",
        after: "",
    },
    Mutation {
        file: "volume/prepare.rs",
        name: "bitmap written before the superblock describes its layout",
        seed: 52,
        before: "
        let bitmap = self.bitmap(layout, bits.clone())?;
        let is_clean = bits.is_empty();
        self.superblock.update(|superblock| {
            superblock.log2_blocks_per_bitmap_bit = layout.log2_blocks_per_bit();
            if !is_clean {
                superblock.recalculation = Some(0);
            }
        })?;
",
        after: "
        let is_clean = bits.is_empty();
        self.superblock.update(|superblock| {
            superblock.log2_blocks_per_bitmap_bit = layout.log2_blocks_per_bit();
            if !is_clean {
                superblock.recalculation = Some(0);
            }
        })?;
        let bitmap = self.bitmap(layout, bits.clone())?;
",
    },
    Mutation {
        file: "volume/prepare.rs",
        name: "recalculation recorded before the bitmap is overwritten",
        seed: 8,
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
        name: "journal written over the bitmap before the superblock announces it",
        seed: 4,
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
        name: "closing in bitmap mode: flush before the bitmap is overwritten",
        seed: 1,
        before: "
                blocks.flush()?;
                // If",
        after: "
                // If",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "closing in bitmap mode: bitmap marked as absent before it is overwritten, during recalculation",
        seed: 34,
        before: "superblock.update(Superblock::forget_bitmap)?;",
        after: "",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "closing in bitmap mode: journal written before the superblock announces it",
        seed: 1,
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
        name: "closing in direct mode: flush",
        seed: 5,
        before: "Self::Direct => blocks.flush(),
            Self::ReadOnly(_) | Self::RecoveryUnverified => Ok(()),
        }
    }
}",
        after: "Self::Direct | Self::ReadOnly(_) | Self::RecoveryUnverified => Ok(()),
        }
    }
}",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "discard in journal mode: journal emptied first",
        seed: 6,
        before: "
            journal.clear(blocks)?;
",
        after: "",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "discard in journal mode: tags durable before data",
        seed: 0,
        before: "
            blocks.flush()?;
            return blocks.zero_data(range);
",
        after: "
            return blocks.zero_data(range);
",
    },
    Mutation {
        file: "volume/consistency.rs",
        name: "discard in journal mode: journal used for tags that span two sectors",
        seed: 9,
        before: "
                self.zero(blocks, block)?;
",
        after: "
                blocks.set_discarded_tags(block)?;
",
    },
    Mutation {
        file: "volume/check.rs",
        name: "accepting blocks: flush",
        seed: 0,
        before: "
        self.flush()
",
        after: "
        Ok(())
",
    },
    Mutation {
        file: "volume/recalculate.rs",
        name: "tags durable before the superblock advances the recalculation sector",
        seed: 1,
        before: "
        self.blocks.flush()?;
",
        after: "",
    },
    Mutation {
        file: "journal/writer.rs",
        name: "flush of the journal when the volume is flushed",
        seed: 0,
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
        name: "flush of the journal before its blocks are written back",
        seed: 0,
        before: "
        self.flush()?;
        let newest",
        after: "
        let newest",
    },
    Mutation {
        file: "journal/committed.rs",
        name: "flush of written-back blocks before all sections are freed",
        seed: 0,
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
        name: "flush of written-back blocks before some sections are freed",
        seed: 0,
        before: "
        blocks.storage.flush()?;
",
        after: "",
    },
    Mutation {
        file: "journal/committed.rs",
        name: "sections kept while their tags are only in memory",
        seed: 3,
        before: ".take_while(|section| !section.has_dirty_tag(blocks))",
        after: ".take_while(|_| true)",
    },
    Mutation {
        file: "journal/committed.rs",
        name: "flush of the empty sections",
        seed: 15,
        before: "
            self.ring.flush()?;
            self.position.sequence",
        after: "
            self.position.sequence",
    },
    Mutation {
        file: "journal/ring.rs",
        name: "flush of a fresh journal",
        seed: 1,
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
        name: "flush of replayed blocks before the journal is cleared",
        seed: 0,
        before: "
        blocks.flush()?;
",
        after: "",
    },
    Mutation {
        file: "journal/replay.rs",
        name: "flush of the oldest section before the others are cleared",
        seed: 1470,
        before: "
    ring.flush()?;
    ring.write_empty(after",
        after: "
    ring.write_empty(after",
    },
    Mutation {
        file: "journal/replay.rs",
        name: "flush of the cleared journal",
        seed: 15,
        before: "
    ring.flush()?;
    Ok(Position",
        after: "
    Ok(Position",
    },
    Mutation {
        file: "format.rs",
        name: "formatting: old superblock durably erased first",
        seed: 1,
        before: "storage.write_metadata_durable(&[0; SUPERBLOCK_SIZE], 0)?;",
        after: "storage.write_metadata(&[0; SUPERBLOCK_SIZE], 0)?;",
    },
    Mutation {
        file: "format.rs",
        name: "formatting: flush before the new superblock",
        seed: 0,
        before: "
    blocks.flush()?;
    storage.write_metadata_durable(&superblock",
        after: "
    storage.write_metadata_durable(&superblock",
    },
    Mutation {
        file: "format.rs",
        name: "formatting: durable write of the new superblock",
        seed: 0,
        before: "storage.write_metadata_durable(&superblock",
        after: "storage.write_metadata(&superblock",
    },
    Mutation {
        file: "volume/grow.rs",
        name: "growing: flush of new blocks before the superblock includes them",
        seed: 0,
        before: "
    blocks.flush()?;
",
        after: "",
    },
    Mutation {
        file: "storage.rs",
        name: "no write after a failure",
        seed: 1,
        before: "        self.check_latch()?;
        change(",
        after: "        change(",
    },
    Mutation {
        file: "storage.rs",
        name: "a failure is remembered",
        seed: 0,
        before: "change(&self.devices).map_err(|error| self.latch(error.into()))",
        after: "Ok(change(&self.devices)?)",
    },
    Mutation {
        file: "storage.rs",
        name: "flushes exclude one another",
        seed: 1,
        before: "        let _durability = self.durability.lock();
",
        after: "",
    },
    Mutation {
        file: "storage.rs",
        name: "a flush is shared only with callers that arrived before it began",
        seed: 1,
        before: "before + 2",
        after: "before + 1",
    },
    Mutation {
        file: "volume.rs",
        name: "a change checks for a failure",
        seed: 0,
        before: "        self.check_writable()?;
        Ok(Change {",
        after: "        Ok(Change {",
    },
    Mutation {
        file: "volume.rs",
        name: "a change checks again after waiting for its sectors",
        seed: 3,
        before: "        let locked = self.locks.lock(sectors, Access::Exclusive);
        self.check_writable()?;
",
        after: "        self.check_writable()?;
        let locked = self.locks.lock(sectors, Access::Exclusive);
",
    },
    Mutation {
        file: "journal/writer.rs",
        name: "a flush with nothing to do checks for a failure",
        seed: 3,
        before: "        blocks.storage.check_latch()?;
        Ok(committed)",
        after: "        Ok(committed)",
    },
    Mutation {
        file: "journal/writer.rs",
        name: "a flush checks again after waiting for the journal",
        seed: 3,
        before: "        let committed = self.committed.lock();
        blocks.storage.check_latch()?;
        Ok(committed)",
        after: "        blocks.storage.check_latch()?;
        let committed = self.committed.lock();
        Ok(committed)",
    },
    Mutation {
        file: "journal/writer.rs",
        name: "blocks kept in memory until they are in the journal",
        seed: 0,
        before: "            committed.write(entries)?;
            self.pending.commit_oldest(count);
",
        after: "            self.pending.commit_oldest(count);
            committed.write(entries)?;
",
    },
    Mutation {
        file: "journal/committed.rs",
        name: "sections written before they count as committed",
        seed: 27,
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
        name: "tags stay dirty until they are stored",
        seed: 0,
        before: "            is_stored: false,
",
        after: "            is_stored: true,
",
    },
];
