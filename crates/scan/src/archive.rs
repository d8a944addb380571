//! A tar archive in the place of a directory.

mod building;
mod content;
mod path;
mod placed;
mod placing;
mod whiteout;

use std::{
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
};

use verimount_source::{FileSource, ReadAt, ReadError, Window};
use verimount_tar::{Content, Error as TarError, Kind, Member, Reader};

use self::placing::{Part, Placing, implied_attributes};
pub(crate) use self::{
    content::{ArchiveFile, StoredContent},
    path::MAX_NAME,
};
use crate::{Error, Options, SourceTree, source_tree::Origin};

/// Reads the tree in a tar archive, which is at `path`; that is for messages only.
///
/// What comes later in the archive replaces what came before under the same path, as when the archive is
/// unpacked. Directories that only occur in paths belong to root, and everybody may list them. The contents
/// stay where they are in the archive.
///
/// # Errors
/// [`Error::Archive`] for what is no archive, damaged or not supported, [`Error::Member`] for members that have no
/// place in the tree, [`Error::Unreadable`], and [`Error::TooLarge`] for what exceeds a
/// [`Limit`](crate::Limit).
pub fn scan_archive(archive: File, path: &Path, options: &Options) -> Result<SourceTree, Error> {
    ArchiveScan::read(archive, path, options)?.into_tree()
}

/// Reads the tree that the layers of a container image make together: tar archives at these places of a file, the lowest
/// first. What a layer deletes of those below it is not in the tree, whatever the options say of whiteouts.
///
/// # Errors
/// As [`scan_archive`].
pub fn scan_layers(
    file: File,
    layers: &[Range<u64>],
    path: &Path,
    options: &Options,
) -> Result<SourceTree, Error> {
    let mut scan = ArchiveScan::new(file, path, options)?;
    for (number, layer) in (0..).zip(layers) {
        let part = Part {
            at: layer.start,
            layer: Some(number),
        };
        scan.placing.begin(part);
        scan.place_members(layer)?;
    }
    scan.into_tree()
}

/// A layer in a store of layers.
#[derive(Debug, Clone)]
pub struct StoreLayer {
    /// The name of its directory in the store.
    pub name: String,
    /// The archive of what is in the layer, for the directory `diff`.
    pub archive: Range<u64>,
    /// What is beside that: names, and places of contents.
    pub files: Vec<(&'static str, Range<u64>)>,
}

/// Makes a tree with a directory for each of these layers, from what is at these places of a file. What a layer deletes of
/// those below it is kept in it, in the way of overlayfs, whatever the options say.
///
/// # Errors
/// As [`scan_archive`].
pub fn scan_store(
    file: File,
    layers: &[StoreLayer],
    path: &Path,
    options: &Options,
) -> Result<SourceTree, Error> {
    let mut scan = ArchiveScan::new(file, path, options)?;
    for layer in layers {
        let at = layer.archive.start;
        let below = format!("{}/diff", layer.name);
        scan.placing.begin_below(Part::alone(at), &below)?;
        scan.place_members(&layer.archive)?;
        scan.placing.begin_below(Part::alone(0), &layer.name)?;
        for (name, place) in &layer.files {
            scan.placing.place(plain_file(name, place))?;
        }
    }
    scan.into_tree()
}

/// A file that everybody may read.
fn plain_file(name: &str, place: &Range<u64>) -> Member {
    Member {
        name: name.into(),
        kind: Kind::File(Content {
            size: place.end.saturating_sub(place.start),
            at: place.start,
            stored: None,
        }),
        attributes: implied_attributes(0o644),
    }
}

/// A tar archive whose members have their places, before anything is left out.
pub struct ArchiveScan<'o> {
    path: PathBuf,
    source: FileSource,
    placing: Placing<'o>,
    options: &'o Options,
}

impl<'o> ArchiveScan<'o> {
    /// Reads an archive, which is at `path`.
    ///
    /// # Errors
    /// As [`scan_archive`].
    pub fn read(archive: File, path: &Path, options: &'o Options) -> Result<Self, Error> {
        let mut scan = Self::new(archive, path, options)?;
        let whole = 0..scan.source.size();
        scan.placing.begin(Part::alone(0));
        scan.place_members(&whole)?;
        Ok(scan)
    }

    /// Where the content of a regular file is in the archive. The file has this path, or a symbolic link there leads to it;
    /// a file with holes is none.
    pub fn file(&self, path: &str) -> Option<Range<u64>> {
        self.placing.file(path.as_bytes())
    }

    /// The tree, without what the options exclude.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn into_tree(self) -> Result<SourceTree, Error> {
        Ok(building::build(self.placing.finish()?, self.options))
    }

    /// Nothing yet of the archive in this file.
    fn new(file: File, path: &Path, options: &'o Options) -> Result<Self, Error> {
        let opened = ArchiveFile::new(file)
            .and_then(|archive| Ok((FileSource::new(archive.file().try_clone()?)?, archive)));
        let (source, archive) = opened.map_err(|source| Error::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let tree = SourceTree::new(path, Origin::Archive(archive));
        Ok(Self {
            path: path.to_owned(),
            source,
            placing: Placing::new(tree, options)?,
            options,
        })
    }

    /// Gives all members of the archive in this range of the file their places.
    fn place_members(&mut self, range: &Range<u64>) -> Result<(), Error> {
        let unreadable = |source: TarError| Error::Archive {
            path: self.path.clone(),
            source,
        };
        let len = range.end.saturating_sub(range.start);
        let archive = Window::new(&self.source, range.start, len);
        let archive = archive.map_err(|error: ReadError| unreadable(error.into()))?;
        let mut reader = Reader::new(archive).map_err(unreadable)?;
        while let Some(member) = reader.next_member().map_err(unreadable)? {
            self.placing.place(member)?;
        }
        Ok(())
    }
}
