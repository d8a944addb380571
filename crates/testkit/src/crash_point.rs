//! The states that a crash may leave on devices.

use std::{iter, mem};

use crate::{
    Random,
    recording::{Action, Event, SECTOR, put},
};

/// Up to this many writes or sectors, all subsets (at most 1024) are tried.
const MAX_ALL_SUBSETS: usize = 10;

/// Beyond that, the number of random subsets of writes to try, and of random subsets of sectors.
const CHOSEN_BY_CHANCE: u64 = 12;

/// A point in time at which the machine crashes.
///
/// Everything flushed before is durable. Each sector of the unflushed, or *open*, writes may be
/// stored or lost, independently of the others. A write in progress is open, even if it is a
/// durable one. A file ends after its last stored sector; a truncation may be lost like a write.
#[derive(Debug, Clone)]
pub struct CrashPoint {
    /// The number of completed writes and flushes.
    pub events: usize,
    caches: Caches,
}

/// The durable contents of the devices, and the open changes.
#[derive(Debug, Clone)]
struct Caches {
    durable: Vec<Vec<u8>>,
    /// In the order in which they were made, oldest first.
    open: Vec<OpenChange>,
}

/// A written sector, or a truncation of a file.
#[derive(Debug, Clone)]
struct OpenChange {
    /// The number of the write that this is part of.
    write: usize,
    device: usize,
    offset: usize,
    /// `None` for a truncation to `offset`.
    bytes: Option<[u8; SECTOR]>,
}

impl CrashPoint {
    pub(crate) fn all(
        before: Vec<Vec<u8>>,
        events: Vec<Event>,
    ) -> impl Iterator<Item = Self> + use<> {
        let mut caches = Caches {
            durable: before,
            open: Vec::new(),
        };
        let events = events.into_iter().map(Some).chain(iter::once(None));
        events.enumerate().map(move |(number, event)| {
            let mut point = Self {
                events: number,
                caches: caches.clone(),
            };
            if let Some(event) = event {
                point.caches.begin(number, &event);
                caches.begin(number, &event);
                caches.complete(&event);
            }
            point
        })
    }

    /// The point after the last event.
    pub(crate) fn last(before: Vec<Vec<u8>>, events: &[Event]) -> Self {
        let mut caches = Caches {
            durable: before,
            open: Vec::new(),
        };
        for (number, event) in events.iter().enumerate() {
            caches.begin(number, event);
            caches.complete(event);
        }
        Self {
            events: events.len(),
            caches,
        }
    }

    /// Whether there are writes that may be lost.
    pub fn has_open_writes(&self) -> bool {
        !self.caches.open.is_empty()
    }

    /// The possible contents of the devices after the crash: all of them if there are few, else a
    /// selection that is partly chosen by `seed`.
    pub fn states(&self, seed: u64) -> impl Iterator<Item = Vec<Vec<u8>>> {
        let survivors = self.survivors(seed);
        survivors
            .into_iter()
            .map(|survivors| self.caches.with(&survivors))
    }

    /// The contents of the devices if the crash loses nothing.
    pub fn all_survives(&self) -> Vec<Vec<u8>> {
        self.caches.with(&vec![true; self.caches.open.len()])
    }

    /// The contents of the devices if the crash loses all open writes.
    pub fn nothing_survives(&self) -> Vec<Vec<u8>> {
        self.caches.durable.clone()
    }

    /// A random one of the [states](Self::states).
    pub fn any_state(&self, random: &mut Random) -> Vec<Vec<u8>> {
        let survivors = self.survivors(random.number());
        self.caches.with(&survivors[random.below(survivors.len())])
    }

    /// For each state to try, which of the open sectors survive.
    fn survivors(&self, seed: u64) -> Vec<Vec<bool>> {
        let open = &self.caches.open;
        if open.len() <= MAX_ALL_SUBSETS {
            return subsets(open.len()).collect();
        }
        let mut random = Random::new(seed);
        let mut chance = |len: usize| -> Vec<Vec<bool>> {
            (0..CHOSEN_BY_CHANCE)
                .map(|_| iter::repeat_with(|| random.coin()).take(len).collect())
                .collect()
        };
        let writes = self.writes();
        let count = writes.last().map_or(0, |last| last + 1);
        let of_writes: Vec<Vec<bool>> = if count <= MAX_ALL_SUBSETS {
            subsets(count).collect()
        } else {
            prefixes(count)
                .chain(all_but_one(count))
                .chain(single(count))
                .chain(chance(count))
                .collect()
        };
        let whole = |set: &Vec<bool>| writes.iter().map(|&write| set[write]).collect();
        let mut survivors: Vec<Vec<bool>> = of_writes.iter().map(whole).collect();
        survivors.extend(chance(open.len()));
        survivors.sort_unstable();
        survivors.dedup();
        survivors
    }

    /// For each open sector, the index of its write among the open writes.
    fn writes(&self) -> Vec<usize> {
        let runs = self
            .caches
            .open
            .chunk_by(|one, other| one.write == other.write);
        runs.enumerate()
            .flat_map(|(number, sectors)| iter::repeat_n(number, sectors.len()))
            .collect()
    }
}

impl OpenChange {
    fn make(&self, devices: &mut [Vec<u8>]) {
        let device = &mut devices[self.device];
        match &self.bytes {
            Some(bytes) => put(device, self.offset, bytes),
            None => device.resize(self.offset, 0),
        }
    }
}

impl Caches {
    fn begin(&mut self, number: usize, event: &Event) {
        let change = |offset, bytes| OpenChange {
            write: number,
            device: event.device,
            offset,
            bytes,
        };
        match &event.action {
            Action::Write { offset, bytes, .. } => {
                let (sectors, _) = bytes.as_chunks();
                let offsets = (*offset..).step_by(SECTOR);
                let sectors = offsets.zip(sectors);
                self.open
                    .extend(sectors.map(|(offset, bytes)| change(offset, Some(*bytes))));
            }
            Action::SetLen(len) => self.open.push(change(*len, None)),
            Action::Flush | Action::Loss => {}
        }
    }

    fn complete(&mut self, event: &Event) {
        let range = match &event.action {
            Action::Write {
                is_durable: false, ..
            }
            | Action::SetLen(_) => return,
            Action::Write { offset, bytes, .. } => *offset..offset + bytes.len(),
            Action::Flush | Action::Loss => 0..usize::MAX,
        };
        let is_concerned =
            |change: &OpenChange| change.device == event.device && range.contains(&change.offset);
        let (concerned, open) = mem::take(&mut self.open)
            .into_iter()
            .partition::<Vec<_>, _>(is_concerned);
        self.open = open;
        if !matches!(event.action, Action::Loss) {
            for change in concerned {
                change.make(&mut self.durable);
            }
        }
    }

    /// The contents of the devices if these open sectors survive. Of several versions of a sector,
    /// the newest survivor counts.
    fn with(&self, survivors: &[bool]) -> Vec<Vec<u8>> {
        let mut devices = self.durable.clone();
        for (change, _) in self.open.iter().zip(survivors).filter(|(_, it)| **it) {
            change.make(&mut devices);
        }
        devices
    }
}

fn subsets(len: usize) -> impl Iterator<Item = Vec<bool>> {
    (0..1_u32 << len).map(move |bits| (0..len).map(|number| bits >> number & 1 == 1).collect())
}

fn prefixes(len: usize) -> impl Iterator<Item = Vec<bool>> {
    (0..=len).map(move |end| (0..len).map(|number| number < end).collect())
}

fn all_but_one(len: usize) -> impl Iterator<Item = Vec<bool>> {
    (0..len).map(move |lost| (0..len).map(|number| number != lost).collect())
}

fn single(len: usize) -> impl Iterator<Item = Vec<bool>> {
    (0..len).map(move |kept| (0..len).map(|number| number == kept).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use verimount_source::WriteAt;

    use super::*;
    use crate::Recording;

    /// The first byte of each sector, in all states of each crash point.
    fn states(recording: &Recording) -> Vec<BTreeSet<Vec<u8>>> {
        let first_bytes = |devices: Vec<Vec<u8>>| {
            let sectors = devices.iter().flat_map(|bytes| bytes.chunks(SECTOR));
            sectors.map(|sector| sector[0]).collect()
        };
        recording
            .crash_points()
            .map(|point| point.states(1).map(first_bytes).collect())
            .collect()
    }

    fn set<const N: usize>(states: [&[u8]; N]) -> BTreeSet<Vec<u8>> {
        states.map(<[u8]>::to_vec).into()
    }

    #[test]
    fn flushed_writes_survive_and_others_may() {
        let recording = Recording::new(vec![vec![0; 2 * SECTOR]]);
        let device = recording.devices().next().unwrap();
        device.write_all_at(&[1; SECTOR], 0).unwrap();
        device.flush().unwrap();
        device.write_all_at(&[2; 2 * SECTOR], 0).unwrap();
        device.write_durable_at(&[3; SECTOR], 0).unwrap();
        let torn = set([&[1, 0], &[1, 2], &[2, 0], &[2, 2]]);
        let overwritten = set([&[3, 0], &[3, 2]]);
        assert_eq!(
            states(&recording),
            [
                set([&[0, 0], &[1, 0]]),
                set([&[0, 0], &[1, 0]]),
                torn.clone(),
                &torn | &overwritten,
                overwritten,
            ]
        );
    }

    #[test]
    fn each_device_is_flushed_by_itself() {
        let recording = Recording::new(vec![vec![0; SECTOR]; 2]);
        let devices: Vec<_> = recording.devices().collect();
        devices[0].write_all_at(&[1; SECTOR], 0).unwrap();
        devices[1].zero(0, SECTOR as u64).unwrap();
        devices[1].flush().unwrap();
        let last = states(&recording).pop().unwrap();
        assert_eq!(last, set([&[0, 0], &[1, 0]]));
        let has_open_writes = || recording.crash_points().last().unwrap().has_open_writes();
        assert!(has_open_writes());
        devices[0].flush().unwrap();
        assert!(!has_open_writes());
    }

    #[test]
    fn writes_before_a_failed_flush_are_lost() {
        let recording = Recording::new(vec![vec![0; 2 * SECTOR]]);
        let device = recording.devices().next().unwrap();
        device.write_all_at(&[1; SECTOR], 0).unwrap();
        device.lose();
        device.write_all_at(&[2; SECTOR], SECTOR as u64).unwrap();
        device.flush().unwrap();
        assert_eq!(states(&recording).pop().unwrap(), set([&[0, 2]]));
        assert_eq!(recording.crash_now().all_survives()[0][SECTOR], 2);
    }

    #[test]
    fn each_write_can_be_the_only_one_lost_or_kept() {
        let count = 2 * MAX_ALL_SUBSETS;
        let recording = Recording::new(vec![vec![0; count * SECTOR]]);
        for number in 0..count {
            let device = recording.devices().next().unwrap();
            device
                .write_all_at(&[1; SECTOR], (number * SECTOR) as u64)
                .unwrap();
        }
        let last = states(&recording).pop().unwrap();
        for ones in [0, 1, count - 1, count] {
            let alike = last
                .iter()
                .filter(|state| state.iter().filter(|&&byte| byte == 1).count() == ones);
            assert!(alike.count() >= if ones % count == 0 { 1 } else { count });
        }
    }
}
