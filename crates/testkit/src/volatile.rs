use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use verimount_source::{ReadAt, ReadError, WriteAt, WriteError};

use crate::noise;

/// What a device writes whole or not at all, in bytes.
const SECTOR: usize = 512;

/// The power of a machine, which fails after a number of writes and flushes.
#[derive(Debug)]
pub struct Power(AtomicU64);

impl Power {
    /// Power for `actions` writes and flushes; the last of them is not completed.
    pub fn for_actions(actions: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(actions)))
    }

    /// Whether it has failed.
    pub fn is_off(&self) -> bool {
        self.0.load(SeqCst) == 0
    }

    /// Uses power for an action: what is left after it, or none if there was none before.
    fn spend(&self) -> Option<u64> {
        self.0
            .fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1))
            .ok()
            .map(|before| before - 1)
    }
}

/// Storage with a cache that is lost when the power fails: of each sector that was written and not
/// flushed, any version may then be there, or the one from before.
#[derive(Debug)]
pub struct Volatile {
    power: Arc<Power>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What is read.
    current: Vec<u8>,
    /// What survives for sure, except where something newer may.
    durable: Vec<u8>,
    /// What was written since the last flush: by the number of the write, and the sector.
    unflushed: BTreeMap<(u64, usize), [u8; SECTOR]>,
    writes: u64,
}

impl Volatile {
    /// Storage that holds `bytes`, whole sectors, durably.
    pub fn new(bytes: Vec<u8>, power: Arc<Power>) -> Self {
        let state = State {
            current: bytes.clone(),
            durable: bytes,
            unflushed: BTreeMap::new(),
            writes: 0,
        };
        Self {
            power,
            state: Mutex::new(state),
        }
    }

    /// What the storage holds after the power has failed; one of many possibilities, chosen by
    /// `seed`: of the sectors that were not flushed any, those of some of the writes, those before
    /// some point, or those behind it.
    pub fn after_crash(&self, seed: u64) -> Vec<u8> {
        let state = self.state();
        let mut bytes = state.durable.clone();
        let written: Vec<(u64, usize)> = state.unflushed.keys().copied().collect();
        let coins = noise(written.len(), seed);
        let point = (seed >> 2) as usize % (written.len() + 1);
        for (number, (&(write, sector), version)) in state.unflushed.iter().enumerate() {
            let survives = match seed % 4 {
                0 => coins[number] & 1 == 1,
                1 => coins[write as usize % coins.len()] & 1 == 1,
                2 => number < point,
                _ => number >= point,
            };
            if survives {
                bytes[sector * SECTOR..][..SECTOR].copy_from_slice(version);
            }
        }
        bytes
    }

    /// Does a write if there is power for it, and makes it durable if there is power left.
    fn write(&self, bytes: &[u8], offset: u64, is_durable: bool) -> Result<(), WriteError> {
        let len = bytes.len() as u64;
        let failed = || WriteError::Io {
            offset,
            len,
            source: io::Error::other("the power is off"),
        };
        let left = self.power.spend().ok_or_else(failed)?;
        self.state()
            .write(bytes, offset as usize, is_durable && left > 0);
        match left {
            0 => Err(failed()),
            _ => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn write(&mut self, bytes: &[u8], offset: usize, is_durable: bool) {
        self.current[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.writes += 1;
        for sector in offset / SECTOR..(offset + bytes.len()).div_ceil(SECTOR) {
            let place = sector * SECTOR..(sector + 1) * SECTOR;
            if is_durable {
                self.durable[place.clone()].copy_from_slice(&self.current[place]);
                self.unflushed.retain(|&(_, other), _| other != sector);
            } else {
                let mut version = [0; SECTOR];
                version.copy_from_slice(&self.current[place]);
                self.unflushed.insert((self.writes, sector), version);
            }
        }
    }
}

impl ReadAt for Volatile {
    fn size(&self) -> u64 {
        self.state().current.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.state().current.read_exact_at(buf, offset)
    }
}

impl WriteAt for Volatile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        self.write(bytes, offset, false)
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> Result<(), WriteError> {
        self.write(bytes, offset, true)
    }

    fn zero(&self, offset: u64, len: u64) -> Result<(), WriteError> {
        self.write(&vec![0; len as usize], offset, false)
    }

    fn flush(&self) -> Result<(), WriteError> {
        match self.power.spend() {
            None | Some(0) => Err(WriteError::Flush(io::Error::other("the power is off"))),
            Some(_) => {
                let mut state = self.state();
                state.durable = state.current.clone();
                state.unflushed.clear();
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_flushed_survives_and_the_rest_may() {
        let storage = Volatile::new(vec![0; 2 * SECTOR], Power::for_actions(10));
        storage.write_all_at(&[1; SECTOR], 0).unwrap();
        storage.flush().unwrap();
        storage.write_all_at(&[2; SECTOR], 0).unwrap();
        storage.write_durable_at(&[3; 1], SECTOR as u64).unwrap();
        let outcomes: Vec<Vec<u8>> = (0..50).map(|seed| storage.after_crash(seed)).collect();
        assert!(outcomes.iter().any(|bytes| bytes[..SECTOR] == [1; SECTOR]));
        assert!(outcomes.iter().any(|bytes| bytes[..SECTOR] == [2; SECTOR]));
        assert!(outcomes.iter().all(|bytes| bytes[SECTOR] == 3));
    }

    #[test]
    fn the_last_action_is_not_completed() {
        let storage = Volatile::new(vec![0; SECTOR], Power::for_actions(1));
        assert!(storage.write_durable_at(&[1; SECTOR], 0).is_err());
        assert!(storage.flush().is_err());
        let outcomes: Vec<u8> = (0..50).map(|seed| storage.after_crash(seed)[0]).collect();
        assert!(outcomes.contains(&0) && outcomes.contains(&1));
    }
}
