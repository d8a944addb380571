//! A tar archive in the place of a directory.

mod building;
mod content;
mod path;
mod placing;
mod whiteout;

use std::{fs::File, path::Path};

use verimount_source::FileSource;
use verimount_tar::{Error as TarError, Reader};

use self::placing::Placing;
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
    let opened = ArchiveFile::new(archive)
        .and_then(|archive| Ok((FileSource::new(archive.file().try_clone()?)?, archive)));
    let (source, archive) = opened.map_err(|source| Error::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let unreadable = |source: TarError| Error::Archive {
        path: path.to_owned(),
        source,
    };
    let mut reader = Reader::new(source).map_err(unreadable)?;
    let tree = SourceTree::new(path, Origin::Archive(archive));
    let mut placing = Placing::new(tree, options)?;
    while let Some(member) = reader.next_member().map_err(unreadable)? {
        placing.place(member)?;
    }
    Ok(building::build(placing.finish()?, options))
}
