//! Reading as much as possible of a partly unreadable image, to name the damaged files.

use std::{cell::RefCell, ops::ControlFlow, path::Path};

use verimount_source::ReadAt;
use verimount_tree::{Ended, Error as TreeError};

use crate::{
    Entries, Error, Node, NodeId, Romfs, index::Index, reader::MAX_DIRECTORY_ENTRIES,
    superblock::Superblock,
};

/// An upper bound on the bytes between the last data or header start and the index: a directory's
/// three headers and padding.
const MAX_TAIL: u64 = 2048;

impl<S: ReadAt> Romfs<S> {
    /// Opens a partly unreadable image: without its header index if that is broken, and by the
    /// index alone if the superblock cannot be read.
    ///
    /// # Errors
    /// All errors of reading the superblock; [`Error::Source`] only if there is no index to replace
    /// it.
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

    /// Opens the image of the index at the end of `source`.
    fn open_by_index(source: S) -> Option<Self> {
        let index = Index::find_last(&source).ok()??;
        let superblock = Superblock {
            size: index.image_size,
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

    /// Whether the files and headers in the index end right before it, as in a complete image. If
    /// the image is only the tail of a larger file, they end long before.
    fn reaches_up_to_index(&self) -> bool {
        let mut end = 0;
        let walked = self.walk_damaged(|found| {
            if let Ok((_, node)) = found {
                let data_end = node.data_offset.saturating_add(node.size.into());
                end = data_end.max(node.id.into()).max(end);
            }
            ControlFlow::Continue(())
        });
        walked.is_continue() && u64::from(self.size()).saturating_sub(end) < MAX_TAIL
    }

    /// Walks over the readable parts as [`Romfs::walk`] does, until `visit` breaks: a directory is read
    /// from its headers if the index fails. `visit` also gets the reason where entries of a directory
    /// are left out, and where the walk cannot go on.
    pub fn walk_damaged(
        &self,
        visit: impl FnMut(Result<(&Path, &Node), TreeError>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let visit = RefCell::new(visit);
        let visit = |found: Result<(&Path, &Node), TreeError>| match visit.borrow_mut()(found) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Ended::ByVisitor),
        };
        // One that cannot be read is not read again for each directory.
        let index = self.index.as_ref();
        let index = index.filter(|index| index.is_usable(&self.source));
        let list = |directory| {
            let (entries, lost) = self.readable_entries(index, directory);
            lost.map_or(Ok(()), |error| visit(Err(error.into())))?;
            Ok(entries)
        };
        let walked = self.walk_listed(list, |path, node| visit(Ok((path, node))));
        let ended = match walked {
            Err(Ended::Failed(error)) => visit(Err(error)),
            ended => ended,
        };
        match ended {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// The readable entries of a directory, and why there are not more.
    fn readable_entries(
        &self,
        index: Option<&Index>,
        directory: NodeId,
    ) -> (Entries, Option<Error>) {
        if let Some(index) = index
            && let Ok(entries) = index.entries(&self.source, directory, MAX_DIRECTORY_ENTRIES)
        {
            return (entries, None);
        }
        let mut entries = Entries::default();
        let followed = self.follow_chain(directory, MAX_DIRECTORY_ENTRIES, &mut entries);
        (entries, followed.err())
    }
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}
