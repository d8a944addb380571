//! A volume after a crash and recovery.

use std::{num::NonZeroUsize, ops::ControlFlow, sync::Arc};

use anyhow::{Result, ensure};
use verimount_integrity::{Devices, Error, Integrity, Key, OpenOptions, SECTOR, Volume};
use verimount_source::MemoryStorage;
use verimount_testkit::noise;

use super::{
    KEY_SEED,
    kind::Kind,
    model::Found,
    sequence::{SECTORS, Sequence},
};
use crate::integritysetup::{JOURNAL_MAC, KEY_SIZE};

/// The result of opening a volume and recalculating tags.
#[derive(Debug)]
pub(super) struct Recovered {
    /// The contents of its sectors.
    pub(super) found: Vec<Found>,
    /// The contents of its disks afterwards.
    pub(super) disks: Vec<Vec<u8>>,
}

impl Recovered {
    /// Recovers a volume from the contents of its disks.
    ///
    /// # Errors
    /// The volume cannot be opened, or a check finds other bad blocks than reading.
    pub(super) fn new(kind: &Kind, sequence: &Sequence, disks: Vec<Vec<u8>>) -> Result<Self> {
        let storages: Vec<_> = disks
            .into_iter()
            .map(MemoryStorage::new)
            .map(Arc::new)
            .collect();
        let metadata = storages[0].clone();
        let devices = match storages.get(1) {
            Some(data) => Devices::with_data_device(metadata, data.clone()),
            None => Devices::new(metadata),
        };
        let volume = Volume::open(devices, &open_options(kind)?)?;
        volume.recalculate(&mut |_| ControlFlow::Continue(()))?;
        let found = read(&volume, sequence)?;
        ensure!(
            bad_sectors(&volume)? == mismatches(&found),
            "a check finds other bad blocks than reading"
        );
        drop(volume);
        Ok(Self {
            found,
            disks: storages.iter().map(|disk| disk.to_vec()).collect(),
        })
    }
}

fn open_options(kind: &Kind) -> Result<OpenOptions> {
    let key = || Key::new(noise(KEY_SIZE, KEY_SEED));
    let journal_key = kind.has_journal_mac.then(key).transpose()?;
    Ok(OpenOptions {
        mode: kind.mode,
        integrity: Integrity {
            journal_mac: journal_key.map(|key| (JOURNAL_MAC, key)),
            ..Integrity::default()
        },
        ..OpenOptions::default()
    })
}

fn read(volume: &Volume, sequence: &Sequence) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut block = vec![0; (sequence.block_sectors * SECTOR) as usize];
    for first in (0..SECTORS).step_by(sequence.block_sectors as usize) {
        let sectors = first..first + sequence.block_sectors;
        match volume.read_at(&mut block, first * SECTOR) {
            Ok(()) => found.extend(sectors.zip(block.chunks(SECTOR as usize)).map(
                |(sector, bytes)| {
                    let generation = sequence.generation(sector, bytes);
                    generation.map_or(Found::Garbage, Found::Generation)
                },
            )),
            Err(Error::Mismatch { .. }) => found.extend(sectors.map(|_| Found::Mismatch)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

fn mismatches(found: &[Found]) -> Vec<u64> {
    let sectors = (0..).zip(found);
    let bad = sectors.filter(|(_, found)| **found == Found::Mismatch);
    bad.map(|(sector, _)| sector).collect()
}

fn bad_sectors(volume: &Volume) -> Result<Vec<u64>> {
    let mut bad = Vec::new();
    let mut go_on = |_| ControlFlow::Continue(());
    volume.check(
        NonZeroUsize::MIN,
        &mut |range| bad.extend(range.sectors),
        &mut go_on,
    )?;
    Ok(bad)
}
