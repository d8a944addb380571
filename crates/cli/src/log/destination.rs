use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{self, Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
    stdio::dup2_stderr,
};
use verimount_host::{
    mounts::GuardedPath,
    sandbox::{Answer, Task, ask_for_file},
};

/// The name of the task.
const REOPEN: &str = "reopen-log";

/// A file to which a log is appended.
pub(crate) struct LogFile {
    file: File,
    /// Absolute, as the process leaves its directory.
    path: PathBuf,
    /// Device and inode number; only for regular files, which log rotation can replace.
    identity: Option<(u64, u64)>,
}

impl LogFile {
    /// Opens `path`, and creates it if it is missing.
    ///
    /// # Errors
    /// I/O errors; also if `path` is a FIFO without a reader.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = path::absolute(path)?;
        let file = open(&path, OFlags::empty())?;
        let metadata = file.metadata()?;
        Ok(Self {
            file,
            path,
            identity: identity(&metadata),
        })
    }

    /// The task of opening a new file in its place.
    pub(crate) fn reopening(&self) -> Task {
        let path = self.path.clone();
        Task::new(REOPEN, move |_| {
            Ok(Answer::of_file(open(&path, OFlags::NOFOLLOW)?.into()))
        })
    }

    fn open_again(&self) -> io::Result<File> {
        match ask_for_file(REOPEN, &[]) {
            Some(file) => Ok(file?.into()),
            None => open(&self.path, OFlags::NOFOLLOW),
        }
    }

    /// Redirects standard error to this file.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn begin(&self) -> io::Result<()> {
        Ok(dup2_stderr(&self.file)?)
    }

    /// Switches to a new file if the old one was moved or removed, as `logrotate` does.
    pub(super) fn follow(&mut self) {
        let Some(written) = self.identity else { return };
        let there = fs::metadata(&self.path).ok();
        if there.is_some_and(|metadata| identity(&metadata) == Some(written)) {
            return;
        }
        // Do not follow a symbolic link put in its place. On failure, keep the old file.
        if let Ok(file) = self.open_again()
            && let Ok(metadata) = file.metadata()
            && dup2_stderr(&file).is_ok()
        {
            self.identity = identity(&metadata);
            self.file = file;
        }
    }
}

/// Opens without blocking: opening a FIFO would wait for a reader.
fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
    let file = GuardedPath::new(path)?.open(flags, Mode::from_raw_mode(0o666));
    let file = file.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) if is_fifo(path) => {
            io::Error::new(error.kind(), "it is a FIFO without a reader")
        }
        _ => error,
    })?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

fn is_fifo(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
}
