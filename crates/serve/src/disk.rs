use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::SystemTime,
};

use rustix::{fs::FallocateFlags, io::Errno};
use verimount_integrity::{Error, Volume};
use verimount_source::{Counting, FileStorage, Scratch};

use crate::{
    Kind, Served, Status, VolumeStatus,
    errno::volume_failed,
    requests::{Operation, RequestCounters},
};

/// The operations that are counted.
const OPERATIONS: &[Operation] = &[
    Operation::Read,
    Operation::Write,
    Operation::Flush,
    Operation::Discard,
    Operation::Zero,
];

/// A volume as a block device, with statistics.
pub struct Disk {
    volume: Arc<Volume>,
    devices: Vec<Arc<Counting<FileStorage>>>,
    served: Served,
    requests: RequestCounters,
    /// In nanoseconds since 1970.
    last_write: AtomicU64,
}

impl Disk {
    /// The disk of `volume`, which is on `devices` and described by `served`.
    pub fn new(
        volume: Arc<Volume>,
        devices: Vec<Arc<Counting<FileStorage>>>,
        served: Served,
    ) -> Self {
        Self {
            volume,
            devices,
            served,
            requests: RequestCounters::new(OPERATIONS),
            last_write: AtomicU64::new(now()),
        }
    }

    /// The volume, for everything but requests.
    pub(crate) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.volume.size()
    }

    /// The time of the last write, in nanoseconds since 1970; before the first write, of the creation of
    /// this value.
    pub(crate) fn last_write(&self) -> u64 {
        self.last_write.load(Relaxed)
    }

    /// Its status.
    pub(crate) fn status(&self) -> Status {
        Status {
            version: Status::VERSION,
            served: self.served.clone(),
            requests: self.requests.get(),
            mismatches: self.volume.stats().mismatches,
            kind: Kind::Volume(VolumeStatus::of(&self.volume, &self.devices)),
        }
    }

    /// Reads `len` bytes from `offset` on, or fewer at the end of the disk.
    pub(crate) fn read<'s>(
        &self,
        offset: u64,
        len: u32,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Errno> {
        let buf = scratch.grown(self.inside(offset, len.into()) as usize);
        self.read_exact(buf, offset)?;
        Ok(buf)
    }

    /// Fills `buf` with the bytes from `offset` on.
    pub(crate) fn read_exact(&self, buf: &mut [u8], offset: u64) -> Result<(), Errno> {
        self.requests.count(Operation::Read);
        let read = self.volume.read_at(buf, offset);
        read.map_err(|error| volume_failed(&error))
    }

    /// Writes `bytes` from `offset` on, as far as the disk reaches; returns how many.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.requests.count(Operation::Write);
        let len = self.inside(offset, bytes.len() as u64) as usize;
        if len == 0 && !bytes.is_empty() {
            return Err(Errno::NOSPC);
        }
        self.changed(self.volume.write_at(&bytes[..len], offset))?;
        Ok(len)
    }

    /// Makes all completed writes durable.
    pub(crate) fn flush(&self) -> Result<(), Errno> {
        self.requests.count(Operation::Flush);
        self.volume.flush().map_err(|error| volume_failed(&error))
    }

    /// Allocates, punches or zeroes, with the mode of `fallocate`.
    pub(crate) fn allocate(
        &self,
        mode: FallocateFlags,
        offset: u64,
        len: u64,
    ) -> Result<(), Errno> {
        let inside = self.inside(offset, len);
        if inside < len && !mode.contains(FallocateFlags::KEEP_SIZE) {
            return Err(Errno::NOSPC);
        }
        if inside == 0 {
            return Ok(());
        }
        match mode.difference(FallocateFlags::KEEP_SIZE) {
            FallocateFlags::PUNCH_HOLE => {
                self.requests.count(Operation::Discard);
                self.changed(self.volume.punch_hole(offset, inside))
            }
            FallocateFlags::ZERO_RANGE => self.zero(offset, inside),
            // All blocks of the disk are allocated.
            mode if mode.is_empty() => Ok(()),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    /// Writes zeros.
    pub(crate) fn zero(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.requests.count(Operation::Zero);
        self.changed(self.volume.write_zeroes(offset, len))
    }

    /// Discards a range: its content is no longer needed.
    pub(crate) fn discard(&self, offset: u64, len: u64) -> Result<(), Errno> {
        self.requests.count(Operation::Discard);
        self.changed(self.volume.discard(offset, len))
    }

    fn changed(&self, change: Result<(), Error>) -> Result<(), Errno> {
        change.map_err(|error| volume_failed(&error))?;
        self.last_write.store(now(), Relaxed);
        Ok(())
    }

    /// How many of the `len` bytes from `offset` on are inside the disk.
    fn inside(&self, offset: u64, len: u64) -> u64 {
        len.min(self.size().saturating_sub(offset))
    }
}

fn now() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    since.as_nanos() as u64
}
