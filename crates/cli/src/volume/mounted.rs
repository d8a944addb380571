use std::{
    fmt::Display,
    fs::File,
    io,
    ops::{ControlFlow, Range},
    os::unix::fs::FileExt,
    path::{Path, PathBuf, absolute},
};

use anyhow::{Context, Result, bail};
use rustix::{io::Errno, process::geteuid};
use verimount_integrity::SECTOR;
use verimount_names::printable;
use verimount_serve::{Kind, ask_mount, mounts};

/// How much is read at a time while all of it can be, in bytes.
const CHUNK: u64 = 1 << 20;

/// A volume that another process has mounted, to be read through that: only it knows what is not in place yet.
pub(super) struct MountedVolume {
    disk: File,
    path: PathBuf,
    size: u64,
    block_size: u64,
}

/// Adjacent sectors that cannot be read, and why.
type Bad = (Range<u64>, Errno);

impl MountedVolume {
    /// The mount of the volume in this file, if there is one of this user or root.
    ///
    /// # Errors
    /// What the system says of its disk.
    pub(super) fn find(volume: &Path) -> Result<Option<Self>> {
        let source = printable(&absolute(volume)?).to_string();
        let (own, root) = (geteuid().as_raw(), 0);
        for mount in mounts()? {
            // The file system of another user could keep this one waiting for ever.
            if !mount.user.is_some_and(|user| [own, root].contains(&user)) {
                continue;
            }
            let Ok(status) = ask_mount(&mount.mount_point) else {
                continue;
            };
            let Kind::Volume(volume) = &status.kind else {
                continue;
            };
            if status.served.source == source && volume.block_size > 0 {
                let path = mount.mount_point.join("disk");
                let disk = File::open(&path).with_context(|| printable(&path).to_string())?;
                return Ok(Some(Self {
                    disk,
                    path,
                    size: volume.size,
                    block_size: volume.block_size,
                }));
            }
        }
        Ok(None)
    }

    /// Of the disk, in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Reads all of the disk, and reports every range that cannot be read, in order. `progress` is told how many
    /// bytes more were read, and can end it there.
    ///
    /// # Errors
    /// What the system says that is not about a block, and that it was ended.
    pub(super) fn check(
        &self,
        found: &mut dyn FnMut(Range<u64>, &dyn Display),
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut buf = vec![0; CHUNK as usize];
        let mut open: Option<Bad> = None;
        let mut report = |(sectors, errno): Bad| {
            let path = printable(&self.path);
            found(sectors, &format_args!("reading {path} there: {errno}"));
        };
        for start in (0..self.size).step_by(CHUNK as usize) {
            let chunk = start..self.size.min(start + CHUNK);
            for (sectors, errno) in self.bad_blocks(chunk.clone(), &mut buf)? {
                match &mut open {
                    Some((last, reason)) if last.end == sectors.start && *reason == errno => {
                        last.end = sectors.end;
                    }
                    _ => open
                        .replace((sectors, errno))
                        .into_iter()
                        .for_each(&mut report),
                }
            }
            if progress(chunk.end - chunk.start).is_break() {
                bail!("interrupted at byte {} of {}", chunk.end, self.size);
            }
        }
        open.into_iter().for_each(report);
        Ok(())
    }

    /// The blocks of a chunk that cannot be read: none if all of it can be read at once.
    fn bad_blocks(&self, chunk: Range<u64>, buf: &mut [u8]) -> Result<Vec<Bad>> {
        let mut read = |range: Range<u64>| {
            let len = (range.end - range.start) as usize;
            self.disk.read_exact_at(&mut buf[..len], range.start)
        };
        if read(chunk.clone()).is_ok() {
            return Ok(Vec::new());
        }
        let mut bad = Vec::new();
        for start in chunk.clone().step_by(self.block_size as usize) {
            let end = chunk.end.min(start + self.block_size);
            if let Err(error) = read(start..end) {
                bad.push((start / SECTOR..end / SECTOR, self.about_block(error)?));
            }
        }
        Ok(bad)
    }

    /// The error of a block, as told from that of a mount that is not there any more.
    fn about_block(&self, error: io::Error) -> Result<Errno> {
        match Errno::from_io_error(&error) {
            Some(Errno::IO) => Ok(Errno::IO),
            _ => Err(error).with_context(|| printable(&self.path).to_string()),
        }
    }
}
