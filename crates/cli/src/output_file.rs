use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
    process,
};

use rustix::{
    fs::{AtFlags, CWD, OFlags, linkat},
    io::Errno,
};

/// A file that comes to its name only when it is complete, in place of what had the name before.
///
/// Until then it has no name at all, where the file system can do that, so that nothing is left
/// behind however the process ends.
pub(crate) struct OutputFile {
    file: File,
    path: PathBuf,
    /// Its temporary name, where the file system has no files without one.
    temporary: Option<tempfile::TempPath>,
}

/// Permissions before the user's mask.
const MODE: u32 = 0o666;

impl OutputFile {
    /// A new, empty file that is to become `path`; it can be read as well.
    ///
    /// # Errors
    /// What the system says; also if `path` is something else than a file or a link to one, which
    /// nobody means to lose: a device, say.
    pub(crate) fn new(path: &Path) -> io::Result<Self> {
        let folder = folder_of(path);
        if path.file_name().is_none() || path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(io::Error::other("it is not a regular file"));
        }
        let unnamed = OpenOptions::new()
            .read(true)
            .write(true)
            .mode(MODE)
            .custom_flags(OFlags::TMPFILE.bits() as i32)
            .open(folder);
        let (file, temporary) = match unnamed {
            Ok(file) => (file, None),
            Err(error) if is_unsupported(&error) => {
                let permissions = std::os::unix::fs::PermissionsExt::from_mode(MODE);
                let named = tempfile::Builder::new()
                    .permissions(permissions)
                    .tempfile_in(folder)?;
                let (file, name) = named.into_parts();
                (file, Some(name))
            }
            Err(error) => return Err(error),
        };
        Ok(Self {
            file,
            path: path.to_owned(),
            temporary,
        })
    }

    /// The file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name, with all of it on storage.
    pub(crate) fn commit(self) -> io::Result<()> {
        self.file.sync_all()?;
        match self.temporary {
            Some(name) => name.persist(&self.path).map_err(|error| error.error),
            None => {
                let name = folder_of(&self.path).join(format!(".verimount-{}", process::id()));
                // What a process of the same number left behind, if it was killed just here.
                let _ = fs::remove_file(&name);
                let unnamed = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                linkat(CWD, unnamed, CWD, &name, AtFlags::SYMLINK_FOLLOW)?;
                fs::rename(&name, &self.path).inspect_err(|_| {
                    let _ = fs::remove_file(&name);
                })
            }
        }
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
