//! Comparing the header index with the headers.

use verimount_source::ReadAt;

use crate::{
    Error, NodeId, Romfs,
    error::Defect,
    geometry::{index_offset, to_usize},
    reader::MAX_DIRECTORY_ENTRIES,
};

impl<S: ReadAt> Romfs<S> {
    /// Checks that the header index matches the headers: the same entries in the same order in
    /// every directory, and nothing more. An image without an index always passes.
    ///
    /// [`Romfs::entries`] reads the index, other readers read the headers; if the two differed,
    /// each would see a different tree.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if they differ, and all errors of [`Romfs::walk`].
    pub fn check_index(&self) -> Result<(), Error> {
        let Some(index) = &self.index else {
            return Ok(());
        };
        let mut reached = 0_usize;
        let list = |directory: NodeId| {
            let entries = self.chain(directory, MAX_DIRECTORY_ENTRIES)?;
            if entries != index.entries(self.source(), directory, MAX_DIRECTORY_ENTRIES)? {
                return Err(Defect::IndexDisagrees.at(directory).into());
            }
            reached = reached.saturating_add(1);
            Ok(entries)
        };
        self.walk_listed(list, |_, _| Ok::<_, Error>(()))?;

        let indexed = index.directory_count;
        if to_usize(indexed) != reached {
            let at = index_offset(self.size());
            return Err(Defect::IndexUnreached { indexed, reached }.at(at).into());
        }
        Ok(())
    }
}
