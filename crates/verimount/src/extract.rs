use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::{self, OpenOptions as FileOptions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{OpenOptionsExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, FileType as SystemType, Mode, mknodat},
    io::Errno,
};
use verimount_source::{Progress, Scratch};
use verimount_tree::{Attr, Error as TreeError, FileType, NodeId, Permissions, Tree, walk};

use crate::{CopyError, Error, Opened, Step, Watch, content::copy_watched, progress::step};

/// What [`extract`] left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Extracted {
    /// How many device nodes were skipped, as only root can make them.
    pub skipped_devices: u64,
}

/// Copies all files of an image to `directory`, which is made if it does not exist. The copies belong
/// to the caller, and have the permissions of the files without set-id bits.
///
/// # Errors
/// [`Error::NotAnImage`], [`Error::WouldReplace`] if the directory is not empty, [`Error::Cancelled`] if
/// `watch` ends it, [`Error::Image`] and [`Error::Io`]. What was copied so far is left.
pub fn extract(
    opened: &Opened,
    directory: &Path,
    watch: &mut Watch<'_>,
) -> Result<Extracted, Error> {
    let tree = opened.tree()?;
    make_empty(directory)?;
    let size = tree.usage().bytes;
    let mut extraction = Extraction {
        tree: &*tree,
        bytes_left: size,
        extracted: HashMap::new(),
        skipped: 0,
        progress: &mut step(watch, Step::Extract, size),
    };
    let walked = walk(&*tree, NodeId::ROOT, PathBuf::new(), |path, attr| {
        let target = directory.join(path);
        let extracted = extraction.entry(&target, attr);
        extracted.map_err(|error| {
            Failure::At(match error {
                CopyError::Read(error) => Error::image(&target, error),
                CopyError::Write(error) => Error::io(&target, error),
                CopyError::Cancelled => Error::Cancelled {
                    at: opened.location().clone(),
                },
            })
        })
    });
    match walked {
        Ok(()) => Ok(Extracted {
            skipped_devices: extraction.skipped,
        }),
        Err(Failure::Walk(error)) => Err(Error::image(opened.location(), error)),
        Err(Failure::At(error)) => Err(error),
    }
}

/// Why extracting ended early.
enum Failure {
    Walk(TreeError),
    At(Error),
}

impl From<TreeError> for Failure {
    fn from(error: TreeError) -> Self {
        Self::Walk(error)
    }
}

/// Creates the directory, or checks that it is empty. In an empty directory that nobody else writes
/// to, unique names without slashes cannot lead outside.
fn make_empty(directory: &Path) -> Result<(), Error> {
    let io = |error| Error::io(directory, error);
    match fs::create_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match directory.read_dir().map_err(io)?.next() {
                None => Ok(()),
                Some(_) => Err(Error::NotEmpty {
                    at: directory.into(),
                }),
            }
        }
        created => created.map_err(io),
    }
}

struct Extraction<'a> {
    tree: &'a dyn Tree,
    /// The remaining limit on file data, in bytes. In a valid image files do not overlap, so
    /// together they are smaller than the image; with overlapping files, a small image could fill
    /// any disk.
    bytes_left: u64,
    /// The path of each extracted node except directories, for further hard links to it.
    extracted: HashMap<NodeId, PathBuf>,
    skipped: u64,
    progress: &'a mut Progress<'a>,
}

impl Extraction<'_> {
    fn entry(&mut self, target: &Path, attr: &Attr) -> Result<(), CopyError> {
        // Not only files with content take time.
        if (self.progress)(0).is_break() {
            return Err(CopyError::Cancelled);
        }
        if attr.is_directory() {
            return Ok(fs::create_dir(target)?);
        }
        if let Some(first) = self.extracted.get(&attr.node) {
            return Ok(fs::hard_link(first, target)?);
        }
        let left = self.bytes_left.checked_sub(attr.size);
        self.bytes_left = left.ok_or_else(|| {
            TreeError::corrupt(
                "its data overlaps that of other files: together they exceed the size of the image",
            )
        })?;
        match attr.file_type {
            FileType::Directory => {}
            FileType::RegularFile => self.file(target, attr)?,
            FileType::Symlink => {
                let mut scratch = Scratch::default();
                let content = self.tree.readlink(attr.node, &mut scratch)?;
                symlink(OsStr::from_bytes(content), target)?;
            }
            FileType::BlockDevice => self.special(target, attr, SystemType::BlockDevice)?,
            FileType::CharDevice => self.special(target, attr, SystemType::CharacterDevice)?,
            FileType::Socket => self.special(target, attr, SystemType::Socket)?,
            FileType::Fifo => self.special(target, attr, SystemType::Fifo)?,
        }
        self.extracted.insert(attr.node, target.to_owned());
        Ok(())
    }

    fn file(&mut self, target: &Path, attr: &Attr) -> Result<(), CopyError> {
        let mut file = FileOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(target)?;
        copy_watched(self.tree, attr.node, &mut file, self.progress)?;
        Ok(file.set_permissions(fs::Permissions::from_mode(mode(attr)))?)
    }

    fn special(&mut self, target: &Path, attr: &Attr, file_type: SystemType) -> io::Result<()> {
        let mode = Mode::from_raw_mode(mode(attr));
        match mknodat(CWD, target, file_type, mode, attr.rdev.encoded().into()) {
            Err(Errno::PERM) => self.skipped += 1,
            other => other?,
        }
        Ok(())
    }
}

/// The permissions that a copy gets. It belongs to who makes it, so set-id bits would be theirs.
fn mode(attr: &Attr) -> u32 {
    let copied = attr.permissions.intersection(Permissions::new(0o777));
    copied.bits().into()
}
