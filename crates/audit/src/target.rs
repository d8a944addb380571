use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    fs::{FileType, fdatasync, fstat, stat},
    io::{Errno, retry_on_intr, write},
    net::{SendFlags, send},
};
use verimount_names::printable;

/// Opens the target again, in the place of one that was moved or has gone.
pub type Open = Box<dyn Fn() -> io::Result<Target> + Send + Sync>;

/// How often a path is looked at, as what is there may have been moved.
const LOOK: Duration = Duration::from_millis(250);

/// Where lines go: a file, to which they are appended, or a connected stream socket.
#[derive(Debug)]
pub struct Target {
    file: OwnedFd,
    path: PathBuf,
    /// When it was looked at last whether that is still its path; `None` for a socket.
    looked: Option<Instant>,
}

/// Why not all bytes were written.
#[derive(Debug)]
pub(crate) struct Failed {
    /// How many were.
    pub(crate) written: usize,
    pub(crate) reason: io::Error,
    /// Whether it must be opened again.
    pub(crate) is_gone: bool,
}

impl Target {
    /// What was opened at `path`: a file for appending, or a connected stream socket, which need not block.
    ///
    /// # Errors
    /// `InvalidInput` for anything else; those of the system.
    pub fn new(file: OwnedFd, path: &Path) -> io::Result<Self> {
        let looked = match FileType::from_raw_mode(fstat(&file)?.st_mode) {
            FileType::RegularFile => Some(Instant::now()),
            FileType::Socket => None,
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "it is neither a regular file nor a socket",
                ));
            }
        };
        Ok(Self {
            file,
            path: path.to_owned(),
            looked,
        })
    }

    pub(crate) fn name(&self) -> String {
        printable(&self.path).to_string()
    }

    /// Whether it is a file, of which lines can be made durable.
    pub fn is_file(&self) -> bool {
        self.looked.is_some()
    }

    /// Writes as much as it takes now; a file takes all, or fails.
    pub(crate) fn write(&self, bytes: &[u8], is_sync: bool) -> Result<(), Failed> {
        let mut written = 0;
        let all = self.write_all(bytes, &mut written).and_then(|()| {
            if is_sync && self.is_file() {
                fdatasync(&self.file)?;
            }
            Ok(())
        });
        let all = all.and_then(|()| self.check_name());
        all.map_err(|errno| Failed {
            // What is in a file without a name is nowhere.
            written: if errno == Errno::NOENT { 0 } else { written },
            is_gone: !matches!(errno, Errno::AGAIN | Errno::NOSPC | Errno::DQUOT),
            reason: errno.into(),
        })
    }

    fn write_all(&self, bytes: &[u8], written: &mut usize) -> Result<(), Errno> {
        while let Some(rest) = bytes.get(*written..).filter(|rest| !rest.is_empty()) {
            let count = if self.is_file() {
                retry_on_intr(|| write(&self.file, rest))?
            } else {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                retry_on_intr(|| send(&self.file, rest, flags))?
            };
            *written = written.saturating_add(count);
        }
        Ok(())
    }

    /// Fails if it is a file that was removed.
    fn check_name(&self) -> Result<(), Errno> {
        if self.is_file() && fstat(&self.file)?.st_nlink == 0 {
            Err(Errno::NOENT)
        } else {
            Ok(())
        }
    }

    /// Whether another file, or none, has its name now, as after `logrotate`. It looks only now and then.
    pub(crate) fn was_moved(&mut self) -> bool {
        if self.looked.is_none_or(|looked| looked.elapsed() < LOOK) {
            return false;
        }
        self.looked = Some(Instant::now());
        let identity = |found: rustix::fs::Stat| (found.st_dev, found.st_ino);
        stat(&self.path).map(identity) != fstat(&self.file).map(identity)
    }
}
