use std::{fs::File, ops::Range, os::unix::fs::FileExt};

use anyhow::{Context, Result};
use rustix::io::Errno;
use verimount_host::{
    mounts::{BadSector, CheckEvent, Kind, MountEntry, Status, VolumeStatus, ask_mount},
    printable,
    volume::SECTOR,
};

use crate::interrupt::{Interrupted, go_on};

/// How much is read at a time while all of it can be, in bytes.
const CHUNK: u64 = 1 << 20;

/// A volume that another process has mounted, to be read through that: only it knows what is not in place yet.
pub(super) struct MountedVolume {
    source: String,
    mount: MountEntry,
    disk: File,
    status: VolumeStatus,
}

impl MountedVolume {
    /// The mount of a volume that has this status and names this `source`.
    ///
    /// # Errors
    /// What the system says of its disk.
    pub(super) fn of(mount: MountEntry, source: &str, status: VolumeStatus) -> Result<Self> {
        let path = mount.mount_point.join("disk");
        let disk = File::open(&path).with_context(|| printable(&path).to_string())?;
        Ok(Self {
            source: source.to_owned(),
            mount,
            disk,
            status,
        })
    }

    /// Reads all of the disk, and passes events to `heard`, as
    /// [`check_export`](verimount_host::mounts::check_export) does.
    ///
    /// # Errors
    /// What the system says that is not about a block, and that a signal has interrupted it.
    pub(super) fn check(&self, heard: &mut dyn FnMut(CheckEvent)) -> Result<()> {
        let mut reading = Reading {
            volume: self,
            buf: vec![0; CHUNK as usize],
            open: None,
            heard,
        };
        let size = self.status.size;
        reading.say(CheckEvent::Begun {
            size,
            unchecked_from: self.status.unchecked_from,
        })?;
        for start in (0..size).step_by(CHUNK as usize) {
            reading.check_chunk(start..size.min(start + CHUNK))?;
        }
        reading.say_open()
    }

    /// What its process says of a block that could not be read.
    fn told_of(&self, sector: u64) -> BadSector {
        let status = ask_mount(&self.mount).ok();
        let status = status.and_then(|status| volume_status(status, &self.source));
        let mismatches = status.unwrap_or_default().recent_mismatches;
        let mut told = mismatches.into_iter();
        told.find(|told| told.sector == sector)
            .unwrap_or_else(|| BadSector {
                sector,
                reason: Errno::IO.to_string(),
                is_discarded: false,
            })
    }
}

/// The status of a volume, if it has this source.
pub(super) fn volume_status(status: Status, source: &str) -> Option<VolumeStatus> {
    match status.kind {
        Kind::Volume(volume) if status.served.source == source && volume.block_size > 0 => {
            Some(volume)
        }
        _ => None,
    }
}

/// A check under way.
struct Reading<'a> {
    volume: &'a MountedVolume,
    buf: Vec<u8>,
    /// The last bad range, which the next block may continue, and why its first block is bad.
    open: Option<(Range<u64>, BadSector)>,
    heard: &'a mut dyn FnMut(CheckEvent),
}

impl Reading<'_> {
    /// Reads a chunk at once or, if that fails, block by block.
    fn check_chunk(&mut self, chunk: Range<u64>) -> Result<()> {
        if !self.can_read(&chunk).unwrap_or(false) {
            let block_size = self.volume.status.block_size;
            for start in chunk.clone().step_by(block_size as usize) {
                let block = start..chunk.end.min(start + block_size);
                if !self.can_read(&block)? {
                    self.add(block.start / SECTOR..block.end / SECTOR)?;
                }
            }
        }
        self.say(CheckEvent::Done {
            bytes: chunk.end - chunk.start,
        })
    }

    /// Whether the bytes of a range can be read.
    ///
    /// # Errors
    /// What the system says if the mount is not there any more.
    fn can_read(&mut self, range: &Range<u64>) -> Result<bool> {
        let buf = &mut self.buf[..(range.end - range.start) as usize];
        match self.volume.disk.read_exact_at(buf, range.start) {
            Ok(()) => Ok(true),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => Ok(false),
            Err(error) => Err(error).with_context(|| {
                let mount_point = printable(&self.volume.mount.mount_point);
                format!("reading the disk on {mount_point}")
            }),
        }
    }

    /// Adds a bad block, and queries the serving process for it at once: that remembers only the last ones.
    fn add(&mut self, block: Range<u64>) -> Result<()> {
        if let Some((last, _)) = &mut self.open
            && last.end == block.start
        {
            last.end = block.end;
            return Ok(());
        }
        self.say_open()?;
        let told = self.volume.told_of(block.start);
        self.open = Some((block, told));
        Ok(())
    }

    fn say_open(&mut self) -> Result<()> {
        let Some((sectors, first)) = self.open.take() else {
            return Ok(());
        };
        self.say(CheckEvent::Bad {
            sectors,
            reason: first.reason,
            is_discarded: first.is_discarded,
        })
    }

    fn say(&mut self, event: CheckEvent) -> Result<()> {
        (self.heard)(event);
        if go_on().is_break() {
            return Err(Interrupted.into());
        }
        Ok(())
    }
}
