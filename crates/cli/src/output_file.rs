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

/// What the temporary names begin with that a process leaves behind if it is killed.
const TEMPORARY_PREFIX: &str = ".verimount-";

/// A file that comes to its name only when it is complete.
///
/// Until then it has no name at all, where the file system can do that, so that nothing is left
/// behind however the process ends. Elsewhere, and for the moment in which it takes the place of
/// another file, its name is `.verimount-` and random letters in the same directory.
pub(crate) struct OutputFile {
    file: File,
    path: PathBuf,
    /// Whether it takes the place of what has the name already.
    replaces: bool,
    /// Its temporary name, where the file system has no files without one.
    temporary: Option<TempPath>,
}

impl OutputFile {
    /// A new, empty file that is to become `path`, in place of what has the name by then; it can be
    /// read as well.
    ///
    /// # Errors
    /// What the system says; also if `path` is something else than a file or a link to one, which
    /// nobody means to lose: a device, say.
    pub(crate) fn replacing(path: &Path) -> io::Result<Self> {
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(io::Error::other("it is not a regular file"));
        }
        Self::open(path, 0o666, true)
    }

    /// A new, empty file that is to become `path`, with these permissions before the user's mask;
    /// it can be read as well.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::AlreadyExists`] if anything has the name.
    pub(crate) fn new(path: &Path, mode: u32) -> io::Result<Self> {
        // Sooner than after all the work; whether it holds then, `commit` finds out.
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
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// A path that leads to the file as long as it is open.
    pub(crate) fn path_before_commit(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// Gives the file its name; both survive a crash of the machine once it has returned.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::AlreadyExists`] if it is not to take the place of
    /// what has the name.
    pub(crate) fn commit(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        match (self.temporary.take(), self.replaces) {
            (Some(name), true) => name.persist(&self.path)?,
            (Some(name), false) => name.persist_noclobber(&self.path)?,
            (None, true) => self.take_place()?,
            (None, false) => self.link_to(&self.path)?,
        }
        self.sync_folder()
    }

    /// Gives an unnamed file its name, in place of what has it already.
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
        // A directory that may be written to but not read cannot be opened to be flushed.
        File::open(folder_of(&self.path))
            .and_then(|folder| folder.sync_all())
            .or_else(|_| Ok(syncfs(&self.file)?))
    }
}

/// The directory that a path's last name is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    // What file systems answer that know no files without names: EOPNOTSUPP, or, taking the flag
    // for the directory flag it contains, EISDIR.
    Errno::from_io_error(error)
        .is_some_and(|errno| matches!(errno, Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL))
}
