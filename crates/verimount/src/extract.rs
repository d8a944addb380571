//! Copies the files of an image into a directory.

mod budget;
mod directories;
mod new_file;
mod restore;
/// The error for a name that no longer is that of the file that was made.
fn was_replaced() -> io::Error {
    io::Error::other("somebody else has replaced it meanwhile")
}

#[cfg(test)]
mod tests;
mod unrestored;

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fs::File,
    io,
    ops::Range,
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType as SystemType, Mode, linkat, mknodat, symlinkat},
    io::Errno,
};
use verimount_content::{Watch, Watcher, step};
use verimount_source::{FileId, Progress, Scratch};
use verimount_tree::{
    Attr, Error as TreeError, ExtentKind, FileType, NodeId, Ownership, Tree, walk,
};

use self::{
    budget::Budget,
    directories::{Directories, DirectoryIndex},
    new_file::NewFile,
    restore::{Copied, Restorer, plain_mode},
};
use crate::{Error, Location, Step, fault::ContentFault, file::CHUNK};

pub use unrestored::{Unrestored, UnrestoredFiles, UnrestoredText};

/// How many times the size of an image may be written by default, if its files may share data. This is far
/// more than usual trees need, and bounds what a hostile image can do.
const MAX_SHARING: u64 = 100;

/// How an image is extracted.
#[derive(Debug, Clone, Default)]
pub struct ExtractOptions {
    /// How many bytes may be written. The default is as many as the image has, or 100 times as many if its format lets files
    /// share data.
    pub max_bytes: Option<u64>,
    /// Who watches it.
    pub watcher: Watcher,
}

/// The outcome of [`Image::extract`](crate::Image::extract).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Extracted {
    /// What could not be restored.
    pub unrestored: UnrestoredFiles,
}

/// Copies the files of `tree`, which is in the image at `location`, to `directory`.
pub(crate) fn extract(
    tree: &dyn Tree,
    location: &Location,
    directory: &Path,
    options: &ExtractOptions,
    watch: &mut Watch<'_>,
) -> Result<Extracted, Error> {
    let restores = tree.ownership() == Ownership::Stored;
    let size = tree.usage().bytes;
    let max_bytes = if tree.shares_data() {
        size.saturating_mul(MAX_SHARING)
    } else {
        size
    };
    let mut extraction = Extraction {
        tree,
        directories: Directories::open(directory, restores)?,
        restorer: Restorer::new(tree, restores),
        budget: Budget::new(options.max_bytes.unwrap_or(max_bytes)),
        links: HashMap::new(),
        scratch: Scratch::default(),
        progress: &mut step(watch, Step::Extract, size),
    };
    let error = |fault: ContentFault, path: &Path| match fault {
        ContentFault::Cancelled => fault.at(location),
        _ => fault.at(directory.join(path)),
    };
    let mut failed = None;
    let walked = walk(tree, NodeId::ROOT, PathBuf::new(), |path, attr| {
        let extracted = extraction.entry(path, attr);
        extracted.inspect_err(|_| failed = Some(path.to_owned()))
    });
    walked.map_err(|fault| match failed {
        Some(path) => error(fault, &path),
        None => fault.at(location),
    })?;
    for index in extraction.directories.inner_first() {
        let finished = extraction.finish_directory(index);
        finished.map_err(|fault| error(fault, &extraction.directories.path(index)))?;
    }
    Ok(Extracted {
        unrestored: extraction.restorer.unrestored,
    })
}

struct Extraction<'a> {
    tree: &'a dyn Tree,
    directories: Directories,
    restorer: Restorer<'a>,
    budget: Budget,
    /// Where files are that may have further names.
    links: HashMap<NodeId, FirstName>,
    scratch: Scratch,
    progress: &'a mut Progress<'a>,
}

/// The first name of a file.
struct FirstName {
    directory: DirectoryIndex,
    name: OsString,
    id: FileId,
}

impl Extraction<'_> {
    fn entry(&mut self, path: &Path, attr: &Attr) -> Result<(), ContentFault> {
        self.report(0)?;
        let name = path.file_name().unwrap_or_default();
        self.directories.enter(path.iter().count())?;
        if attr.is_directory() {
            return Ok(self.directories.make(name, attr.node)?);
        }
        if self.links.contains_key(&attr.node) {
            return self.link(attr.node, name);
        }
        let Some(file) = self.make(name, path, attr)? else {
            return Ok(());
        };
        let copied = Copied {
            file: &file,
            attr,
            path: &|| path.to_owned(),
        };
        self.restorer.restore(&copied, &mut self.budget)?;
        // Formats without owners count no links either.
        if attr.nlink > 1 || !self.restorer.restores {
            let first = FirstName {
                directory: self.directories.current_index(),
                name: name.to_owned(),
                id: FileId::of(&file.metadata()?),
            };
            self.links.insert(attr.node, first);
        }
        Ok(())
    }

    /// Copies a file without its attributes; `None` if the caller may not make such a file.
    fn make(
        &mut self,
        name: &OsStr,
        path: &Path,
        attr: &Attr,
    ) -> Result<Option<NewFile>, ContentFault> {
        let directory = self.directories.current();
        let file_type = match attr.file_type {
            // A walk visits directories as such.
            FileType::Directory => return Ok(None),
            FileType::RegularFile => {
                let file = NewFile::create(directory, name)?;
                self.copy(&file, attr)?;
                return Ok(Some(file));
            }
            FileType::Symlink => {
                self.budget.spend(attr.size)?;
                let target = self.tree.readlink(attr.node, &mut self.scratch)?;
                symlinkat(OsStr::from_bytes(target), directory, name)?;
                return Ok(Some(NewFile::find(directory, name, attr.file_type)?));
            }
            FileType::BlockDevice => SystemType::BlockDevice,
            FileType::CharDevice => SystemType::CharacterDevice,
            FileType::Socket => SystemType::Socket,
            FileType::Fifo => SystemType::Fifo,
        };
        let mode = if self.restorer.restores {
            Mode::RUSR | Mode::WUSR
        } else {
            Mode::from_raw_mode(plain_mode(attr))
        };
        match mknodat(directory, name, file_type, mode, attr.rdev.encoded().into()) {
            Ok(()) => Ok(Some(NewFile::find(directory, name, attr.file_type)?)),
            Err(Errno::PERM) => {
                let unrestored = &mut self.restorer.unrestored;
                let path = || path.to_owned();
                unrestored.add(Unrestored::SpecialFiles, &path, String::new());
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn link(&mut self, node: NodeId, name: &OsStr) -> Result<(), ContentFault> {
        let first = &self.links[&node];
        let from = self.directories.reopen(first.directory)?;
        let to = self.directories.current();
        linkat(&from, &first.name, to, name, AtFlags::empty())?;
        let linked = NewFile::place(to, name)?;
        if FileId::of(&linked.metadata()?) == first.id {
            Ok(())
        } else {
            Err(was_replaced().into())
        }
    }

    /// Copies the content of a file. Its holes stay holes.
    fn copy(&mut self, file: &File, attr: &Attr) -> Result<(), ContentFault> {
        let mut offset = 0;
        while offset < attr.size {
            let extent = self.tree.extent(attr.node, offset)?;
            let end = offset.saturating_add(extent.len.get()).min(attr.size);
            match extent.kind {
                ExtentKind::Data => self.copy_data(file, attr.node, offset..end)?,
                ExtentKind::Hole => {
                    self.budget.pass_hole()?;
                    self.report(0)?;
                }
            }
            offset = end;
        }
        // A hole at the end was not written.
        Ok(file.set_len(attr.size)?)
    }

    fn copy_data(
        &mut self,
        file: &File,
        node: NodeId,
        range: Range<u64>,
    ) -> Result<(), ContentFault> {
        self.budget.spend(range.end - range.start)?;
        let mut offset = range.start;
        while offset < range.end {
            let len = usize::try_from(range.end - offset).map_or(CHUNK, |rest| rest.min(CHUNK));
            let bytes = self.tree.read(node, offset, len, &mut self.scratch)?;
            if bytes.is_empty() {
                return Err(TreeError::corrupt("its content ends before its size").into());
            }
            file.write_all_at(bytes, offset)?;
            let read = bytes.len() as u64;
            offset += read;
            self.report(read)?;
        }
        Ok(())
    }

    fn finish_directory(&mut self, index: DirectoryIndex) -> Result<(), ContentFault> {
        if !self.restorer.restores {
            return Ok(());
        }
        self.report(0)?;
        let attr = self.tree.attr(self.directories.node(index))?;
        let copied = Copied {
            file: &NewFile(self.directories.reopen(index)?),
            attr: &attr,
            path: &|| self.directories.path(index),
        };
        self.restorer.restore(&copied, &mut self.budget)
    }

    /// So many more bytes are done; an error if it was cancelled.
    fn report(&mut self, bytes: u64) -> Result<(), ContentFault> {
        ContentFault::if_ended((self.progress)(bytes))
    }
}
