//! Doing something with a volume, and looking at what a crash made of it.

use std::ops::{ControlFlow, Range};

use verimount_integrity::{Error, Mode, Volume};
use verimount_testkit::{Random, Recording, read_blocks};

use crate::{
    SECTOR,
    model::{Model, Stamp, bytes_of, stamp_of},
    scenario::{Action, Memory, Scenario, devices_of},
};

/// What was done to a volume's devices, and what the volume may hold if a crash meets it.
pub(crate) struct Run {
    pub(crate) recording: Recording,
    /// What holds from so many writes and flushes on.
    timeline: Vec<(usize, Model)>,
    model: Model,
}

impl Run {
    /// Opens the volume and does something with it.
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
        match random.coin() {
            true => session.close(),
            false => session.run,
        }
    }

    /// Opens the volume, and does nothing with it.
    pub(crate) fn opening(scenario: &Scenario, before: Vec<Vec<u8>>, model: Model) -> Self {
        let mode = model.mode;
        Self::begin(before, model).open(scenario, mode).run
    }

    /// What holds when so many writes and flushes are complete.
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
        // What is written from here on must find all of the recovery done, however a crash mixes them.
        let now = self.recording.crash_points().last();
        let is_durable = now.is_some_and(|now| !now.has_open_writes());
        assert!(is_durable, "what opening has written may be lost");
        Session { volume, run: self }
    }

    /// Notes what a crash may leave from here on.
    fn note(&mut self) {
        self.timeline
            .push((self.recording.events(), self.model.clone()));
    }
}

/// A volume that is open.
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
        // Numbers that no other write has, also before the last crash.
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

/// Completes what a crash has left to be done.
fn recalculate(volume: &Volume) {
    volume
        .recalculate(&mut |_| ControlFlow::Continue(()))
        .unwrap();
}

/// Writes to some sectors of a volume.
pub(crate) fn write(volume: &Volume, sectors: Range<usize>, stamp: Stamp) {
    let offset = (sectors.start * SECTOR) as u64;
    let bytes: Vec<u8> = sectors.flat_map(|sector| bytes_of(stamp, sector)).collect();
    volume.write_at(&bytes, offset).unwrap();
}

/// What is found in a volume that was opened after a crash.
pub(crate) struct Recovered {
    /// Its blocks, `None` for those that do not match.
    pub(crate) found: Vec<Option<Vec<Stamp>>>,
    /// What the devices hold then, if nothing more is done.
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

/// The blocks of a volume, `None` for those that do not match.
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
