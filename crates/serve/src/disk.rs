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
    VolumeStatus,
    errno::volume_failed,
    volume_status::{RequestCounters, status},
};

/// A volume as a file that behaves like a block device, with an account of what was asked.
pub(crate) struct Disk {
    volume: Arc<Volume>,
    devices: Vec<Arc<Counting<FileStorage>>>,
    requests: RequestCounters,
    /// In nanoseconds since 1970.
    last_write: AtomicU64,
}

impl Disk {
    /// The disk of `volume`, which is on `devices`.
    pub(crate) fn new(volume: Arc<Volume>, devices: Vec<Arc<Counting<FileStorage>>>) -> Self {
        Self {
            volume,
            devices,
            requests: RequestCounters::default(),
            last_write: AtomicU64::new(now()),
        }
    }

    /// The size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.volume.size()
    }

    /// When it was written last, in nanoseconds since 1970; at first, since when it is there.
    pub(crate) fn last_write(&self) -> u64 {
        self.last_write.load(Relaxed)
    }

    /// What was done so far.
    pub(crate) fn status(&self) -> VolumeStatus {
        status(&self.volume, &self.devices, &self.requests)
    }

    /// The bytes from `offset` on, `len` of them or as many as there are.
    pub(crate) fn read<'s>(
        &self,
        offset: u64,
        len: u32,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Errno> {
        self.requests.read.fetch_add(1, Relaxed);
        let buf = scratch.grown(self.inside(offset, len.into()) as usize);
        let read = self.volume.read_at(buf, offset);
        read.map(|()| &*buf).map_err(|error| volume_failed(&error))
    }

    /// Writes as many of `bytes` from `offset` on as there is room for; says how many.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.requests.write.fetch_add(1, Relaxed);
        let len = self.inside(offset, bytes.len() as u64) as usize;
        if len == 0 && !bytes.is_empty() {
            return Err(Errno::NOSPC);
        }
        self.changed(self.volume.write_at(&bytes[..len], offset))?;
        Ok(len)
    }

    /// Returns when all that was written before survives a crash.
    pub(crate) fn flush(&self) -> Result<(), Errno> {
        self.requests.flush.fetch_add(1, Relaxed);
        self.volume.flush().map_err(|error| volume_failed(&error))
    }

    /// Whether it can have this size, which is to say that it has, or that it is to be as a new file
    /// would be: opening a block device with `O_TRUNC` leaves it as it is.
    pub(crate) fn can_have_size(&self, size: u64) -> bool {
        [0, self.size()].contains(&size)
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
                self.requests.discard.fetch_add(1, Relaxed);
                self.changed(self.volume.punch_hole(offset, inside))
            }
            FallocateFlags::ZERO_RANGE => {
                self.requests.zero.fetch_add(1, Relaxed);
                self.changed(self.volume.write_zeroes(offset, inside))
            }
            // All room that there is is taken already.
            mode if mode.is_empty() => Ok(()),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    fn changed(&self, change: Result<(), Error>) -> Result<(), Errno> {
        change.map_err(|error| volume_failed(&error))?;
        self.last_write.store(now(), Relaxed);
        Ok(())
    }

    /// How much of `len` bytes from `offset` on is on the disk.
    fn inside(&self, offset: u64, len: u64) -> u64 {
        len.min(self.size().saturating_sub(offset))
    }
}

fn now() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    since.as_nanos() as u64
}
