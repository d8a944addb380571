use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, OFlags, linkat, syncfs},
    io::Errno,
};
use tempfile::TempPath;

/// The prefix of temporary names, which a killed process may leave behind.
const TEMPORARY_PREFIX: &str = ".verimount-";

/// A file that gets its name only when it is complete.
///
/// Until then it has no name, if the file system supports that, so nothing is left behind however
/// the process ends. Otherwise, and briefly while it replaces another file, its name is
/// `.verimount-` and random letters in the same directory.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    path: PathBuf,
    /// Whether it replaces an existing file of this name.
    replaces: bool,
    /// Its temporary name, if the file system does not support unnamed files.
    temporary: Option<TempPath>,
}

impl OutputFile {
    /// A new, empty file that will become `path`, replacing any existing file; it is also readable.
    ///
    /// # Errors
    /// I/O errors; also if `path` is not a file or a link to one, but for example a device, which
    /// must not be replaced.
    pub fn replacing(path: &Path) -> io::Result<Self> {
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(io::Error::other("it is not a regular file"));
        }
        Self::open(path, 0o666, true)
    }

    /// A new, empty file that will become `path`, with these permissions before the umask; it is
    /// also readable.
    ///
    /// # Errors
    /// I/O errors; [`io::ErrorKind::AlreadyExists`] if the name exists.
    pub fn new(path: &Path, mode: u32) -> io::Result<Self> {
        // Fail before doing all the work; `commit` checks again.
        if path.symlink_metadata().is_ok() {
            return Err(Errno::EXIST.into());
        }
        Self::open(path, mode, false)
    }

    fn open(path: &Path, mode: u32, replaces: bool) -> io::Result<Self> {
        if path.file_name().is_none() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let folder = folder_of(path);
        let unnamed = OpenOptions::new()
            .read(true)
            .write(true)
            .mode(mode)
            .custom_flags(OFlags::TMPFILE.bits() as i32)
            .open(folder);
        let (file, temporary) = match unnamed {
            Ok(file) => (file, None),
            Err(error) if is_unsupported(&error) => {
                let named = tempfile::Builder::new()
                    .prefix(TEMPORARY_PREFIX)
                    .permissions(fs::Permissions::from_mode(mode))
                    .tempfile_in(folder)?;
                let (file, name) = named.into_parts();
                (file, Some(name))
            }
            Err(error) => return Err(error),
        };
        Ok(Self {
            file,
            path: path.to_owned(),
            replaces,
            temporary,
        })
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// A path to the file that is valid as long as it is open.
    pub fn path_before_commit(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// Gives the file its name. Both are durable when this returns.
    ///
    /// # Errors
    /// I/O errors; [`io::ErrorKind::AlreadyExists`] if the name exists and must not be replaced.
    pub fn commit(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        match (self.temporary.take(), self.replaces) {
            (Some(name), true) => name.persist(&self.path)?,
            (Some(name), false) => name.persist_noclobber(&self.path)?,
            (None, true) => self.take_place()?,
            (None, false) => self.link_to(&self.path)?,
        }
        self.sync_folder()
    }

    /// Gives an unnamed file its name, replacing an existing file.
    fn take_place(&self) -> io::Result<()> {
        match self.link_to(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => return linked,
        }
        let name = tempfile::Builder::new()
            .prefix(TEMPORARY_PREFIX)
            .make_in(folder_of(&self.path), |name| self.link_to(name))?;
        Ok(name.into_temp_path().persist(&self.path)?)
    }

    fn link_to(&self, name: &Path) -> io::Result<()> {
        let unnamed = self.path_before_commit();
        Ok(linkat(CWD, unnamed, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    fn sync_folder(&self) -> io::Result<()> {
        // A directory that is writable but not readable cannot be opened for `fsync`.
        File::open(folder_of(&self.path))
            .and_then(|folder| folder.sync_all())
            .or_else(|_| Ok(syncfs(&self.file)?))
    }
}

/// The directory that contains a path's last component.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    // The errors of file systems without unnamed files: EOPNOTSUPP, or EISDIR if they only see the
    // directory flag that O_TMPFILE includes.
    Errno::from_io_error(error)
        .is_some_and(|errno| matches!(errno, Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL))
}
