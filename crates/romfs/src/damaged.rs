//! What is left of an image of which parts cannot be read: enough to say which files are damaged.

use std::path::{Path, PathBuf};

use verimount_source::ReadAt;

use crate::{
    Entries, Error, Node, NodeId, Romfs, index::Index, reader::MAX_DIRECTORY_ENTRIES,
    superblock::Superblock,
};

/// More bytes than there can be between the last data or the start of the last header and an index:
/// a directory's three headers and padding.
const MAX_TAIL: u64 = 2048;

impl<S: ReadAt> Romfs<S> {
    /// Opens an image of which parts cannot be read: without its header index where that is broken,
    /// and by the index alone where the superblock cannot be read.
    ///
    /// # Errors
    /// All errors of reading the superblock, [`Error::Source`] only if no index stands in for it.
    pub fn open_damaged(source: S) -> Result<Self, Error> {
        match Superblock::read(&source) {
            Ok(superblock) => {
                let index = Index::find(&source, superblock.size).ok().flatten();
                Ok(Self {
                    source,
                    superblock,
                    index,
                })
            }
            Err(error @ Error::Source(_)) => Self::open_by_index(source).ok_or(error),
            Err(error) => Err(error),
        }
    }

    /// Opens the image that the index at the end of `source` belongs to.
    fn open_by_index(source: S) -> Option<Self> {
        let index = Index::find_last(&source).ok()??;
        let superblock = Superblock {
            size: index.image_size(),
            volume_name: Box::default(),
            root: index.root(&source).ok()?,
        };
        let image = Self {
            source,
            superblock,
            index: Some(index),
        };
        image.reaches_up_to_index().then_some(image)
    }

    /// Whether what the index names ends right before it, as in its own image. Where the image is
    /// only the end of a file, it ends long before.
    fn reaches_up_to_index(&self) -> bool {
        let mut end = 0;
        let walked = self.walk_damaged::<Error>(
            |_| (),
            |_, node| {
                let data_end = node.data_offset.saturating_add(node.size.into());
                end = data_end.max(node.id.into()).max(end);
                Ok(())
            },
        );
        walked.is_ok() && u64::from(self.size()).saturating_sub(end) < MAX_TAIL
    }

    /// Walks as [`Romfs::walk`] does over what can be read: a directory by its headers where the
    /// index fails. `lost` is told why entries of a directory are left out.
    ///
    /// # Errors
    /// As [`Romfs::walk`], but for errors of reading.
    pub fn walk_damaged<E: From<Error>>(
        &self,
        mut lost: impl FnMut(Error),
        visit: impl FnMut(&Path, &Node) -> Result<(), E>,
    ) -> Result<(), E> {
        let list = |directory| Ok(self.readable_entries(directory, &mut lost));
        self.walk_listed((self.root(), PathBuf::new()), list, visit)
    }

    /// The entries of a directory that can be found.
    fn readable_entries(&self, directory: NodeId, lost: &mut impl FnMut(Error)) -> Entries {
        if let Some(index) = &self.index
            && let Ok(entries) = index.entries(&self.source, directory, MAX_DIRECTORY_ENTRIES)
        {
            return entries;
        }
        let mut entries = Entries::default();
        if let Err(error) = self.follow_chain(directory, MAX_DIRECTORY_ENTRIES, &mut entries) {
            lost(error);
        }
        entries
    }
}
