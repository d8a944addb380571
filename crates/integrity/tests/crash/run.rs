//! Using a volume, and inspecting it after a crash.

use std::ops::Range;

use verimount_integrity::{Error, Mode, Volume};
use verimount_testkit::{Random, Recording, go_on, read_blocks};

use crate::{
    SECTOR,
    model::{Model, Stamp, bytes_of, stamp_of},
    scenario::{Action, Memory, Scenario, devices_of},
};

/// The recorded requests to a volume's devices, and the contents it may have after a crash.
pub(crate) struct Run {
    pub(crate) recording: Recording,
    /// The model from each number of writes and flushes on.
    timeline: Vec<(usize, Model)>,
    model: Model,
}

impl Run {
    /// Opens the volume and performs random actions on it.
    pub(crate) fn new(
        scenario: &Scenario,
        before: Vec<Vec<u8>>,
        model: Model,
        random: &mut Random,
    ) -> Self {
        let mode = model.mode;
        let mut session = Self::begin(before, model).open(scenario, mode);
        if random.coin() {
            session.perform(Action::Recalculate, random);
        }
        for lost in session.run.model.lost() {
            session.write(lost, random);
        }
        let sectors = session.volume.size() as usize / SECTOR;
        for action in scenario.actions(sectors, random) {
            match action {
                Action::Reopen(mode) => session = session.close().open(scenario, mode),
                action => session.perform(action, random),
            }
        }
        if random.coin() {
            session.close()
        } else {
            session.run
        }
    }

    /// Only opens the volume.
    pub(crate) fn opening(scenario: &Scenario, before: Vec<Vec<u8>>, model: Model) -> Self {
        let mode = model.mode;
        Self::begin(before, model).open(scenario, mode).run
    }

    /// The model after this many writes and flushes.
    pub(crate) fn model_at(&self, events: usize) -> &Model {
        let behind = self.timeline.partition_point(|&(from, _)| from <= events);
        &self.timeline[behind - 1].1
    }

    fn begin(before: Vec<Vec<u8>>, model: Model) -> Self {
        let mut run = Self {
            recording: Recording::new(before),
            timeline: Vec::new(),
            model,
        };
        run.note();
        run
    }

    fn open(mut self, scenario: &Scenario, mode: Mode) -> Session {
        let volume = scenario.open(devices_of(&self.recording), mode);
        self.model.mode = mode;
        self.model.is_recovering = false;
        self.model.is_recalculating = volume.recalculation_sector().is_some();
        self.note();
        // The recovery must be durable before any later write, however a crash reorders them.
        let now = self.recording.crash_points().last();
        let is_durable = now.is_some_and(|now| !now.has_open_writes());
        assert!(is_durable, "the recovery is not durable");
        Session { volume, run: self }
    }

    /// Records what a crash may leave from here on.
    fn note(&mut self) {
        self.timeline
            .push((self.recording.events(), self.model.clone()));
    }
}

/// An open volume.
struct Session {
    volume: Volume,
    run: Run,
}

impl Session {
    fn perform(&mut self, action: Action, random: &mut Random) {
        let place = |range: &Range<usize>| {
            let [start, len] = [range.start, range.len()].map(|sectors| (sectors * SECTOR) as u64);
            (start, len)
        };
        match action {
            Action::Write(range) => self.write(range, random),
            Action::Zero(range) => {
                let (offset, len) = place(&range);
                self.run.model.write(range, 0);
                self.run.note();
                self.volume.write_zeroes(offset, len).unwrap();
            }
            Action::Discard(range) => {
                let (offset, len) = place(&range);
                self.run.model.discard(range);
                self.run.note();
                self.volume.discard(offset, len).unwrap();
            }
            Action::Flush => {
                self.volume.flush().unwrap();
                self.run.model.flush();
                self.run.note();
            }
            Action::Recalculate => {
                recalculate(&self.volume);
                self.run.model.is_recalculating = false;
            }
            Action::Accept(range) => {
                let sectors = range.start as u64..range.end as u64;
                self.run.model.rewrite(range);
                self.run.note();
                self.volume.accept_unverified(sectors).unwrap();
                self.run.model.flush();
                self.run.note();
            }
            Action::Reopen(_) => unreachable!("that takes the volume itself"),
        }
    }

    fn write(&mut self, sectors: Range<usize>, random: &mut Random) {
        // Numbers that no other write has, including those before the last crash.
        let stamp = (random.number() as Stamp >> 1).max(1);
        self.run.model.write(sectors.clone(), stamp);
        self.run.note();
        write(&self.volume, sectors, stamp);
    }

    fn close(mut self) -> Run {
        self.volume.close().unwrap();
        self.run.model.flush();
        self.run.note();
        self.run
    }
}

/// Finishes the pending recalculation.
fn recalculate(volume: &Volume) {
    volume.recalculate(&mut go_on).unwrap();
}

/// Writes to some sectors of a volume.
pub(crate) fn write(volume: &Volume, sectors: Range<usize>, stamp: Stamp) {
    let offset = (sectors.start * SECTOR) as u64;
    let bytes: Vec<u8> = sectors.flat_map(|sector| bytes_of(stamp, sector)).collect();
    volume.write_at(&bytes, offset).unwrap();
}

/// The contents of a volume opened after a crash.
pub(crate) struct Recovered {
    /// Its blocks; `None` for those that fail verification.
    pub(crate) found: Vec<Option<Vec<Stamp>>>,
    /// The contents of the devices right after opening.
    pub(crate) after: Vec<Vec<u8>>,
}

impl Recovered {
    pub(crate) fn new(scenario: &Scenario, state: &[Vec<u8>], mode: Mode) -> Self {
        let memory = Memory::new(state.to_vec());
        let volume = scenario.open(memory.devices(), mode);
        recalculate(&volume);
        let found = contents(&volume, scenario.block_sectors());
        drop(volume);
        Self {
            found,
            after: memory.contents(),
        }
    }
}

/// The blocks of a volume; `None` for those that fail verification.
pub(crate) fn contents(volume: &Volume, block_sectors: usize) -> Vec<Option<Vec<Stamp>>> {
    let block_len = block_sectors * SECTOR;
    let mut bytes = vec![0; volume.size() as usize];
    let read = |buf: &mut [u8], offset| match volume.read_at(buf, offset) {
        Ok(()) => Ok(true),
        Err(Error::Mismatch { .. }) => Ok(false),
        Err(error) => Err(error),
    };
    let matches = read_blocks(&mut bytes, block_len, read).unwrap();
    let blocks = bytes.chunks_exact(block_len).enumerate();
    blocks
        .zip(matches)
        .map(|((number, block), matches)| {
            matches.then(|| {
                let sectors = (number * block_sectors..).zip(block.chunks_exact(SECTOR));
                sectors
                    .map(|(sector, bytes)| stamp_of(bytes, sector))
                    .collect()
            })
        })
        .collect()
}
