use std::{
    ffi::OsStr,
    num::NonZeroU64,
    ops::{ControlFlow, Range},
    path::Path,
};

use verimount_source::Scratch;

use crate::{
    AddEntry, AddEntryAndAttr, AddReadable, Attr, Cursor, Error, Extent, ExtentKind, Measurement,
    NodeId, Ownership, XattrNames,
};

/// The path from the root of the root itself.
pub const ROOT_PATH: &str = ".";

/// A range of the image that belongs to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePlace<'a> {
    /// The file's path from the root.
    pub path: &'a Path,
    /// In bytes; it may be empty.
    pub range: Range<u64>,
    /// What is there.
    pub kind: PlaceKind,
}

/// What a range of the image that belongs to a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceKind {
    /// What a regular file or symbolic link contains.
    Content,
    /// All else that is known of a file, and what a directory lists.
    Metadata,
}

/// Receives a range of the image that belongs to a file, or the reason why some are missing; breaks to end the walk.
pub type VisitPlace<'a> = dyn FnMut(Result<FilePlace<'_>, Error>) -> ControlFlow<()> + 'a;

/// The size of a tree, for `statfs` and for limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Size in bytes of what the tree is stored in.
    pub bytes: u64,
    /// The longest possible name in bytes.
    pub name_max: u32,
    /// An upper bound of the number of directory entries, by which walks are limited.
    pub max_entries: u64,
}

/// A read-only directory tree that never changes, used from several threads at once.
///
/// The storage may be hostile: every operation must end, in bounded memory. A [`NodeId`] comes from the
/// kernel, and need not be one that the tree has returned.
pub trait Tree: Send + Sync {
    /// The attributes of a file. A number under which the tree has no file gives any [`Error`], or the attributes of something
    /// that has another number.
    ///
    /// # Errors
    /// Any [`Error`].
    fn attr(&self, node: NodeId) -> Result<Attr, Error>;

    /// The attributes of the file of this name in a directory, which need not be listed for that.
    ///
    /// # Errors
    /// Any [`Error`]; [`Error::NotFound`] if the name does not exist.
    fn lookup(&self, directory: NodeId, name: &OsStr) -> Result<Attr, Error>;

    /// The attributes of the directory that a directory, which is not the root, is in.
    ///
    /// # Errors
    /// Any [`Error`].
    fn parent(&self, directory: NodeId) -> Result<Attr, Error>;

    /// Calls `add` with each entry of a directory, starting at `from`, without `.` and `..`, until `add`
    /// breaks. Each entry comes with the cursor behind it, at which a later call continues. The order
    /// never changes: it is the one in which reading the files is cheapest.
    ///
    /// A cursor that the tree has not returned may start at any entry, or list none.
    ///
    /// # Errors
    /// Any [`Error`].
    fn list(&self, directory: NodeId, from: Cursor, add: &mut AddEntry<'_>) -> Result<(), Error>;

    /// As [`Self::list`], with the attributes of each entry, or without them if they cannot be read.
    /// A tree whose directories contain the attributes should override this.
    ///
    /// # Errors
    /// As [`Self::list`].
    fn list_with_attrs(
        &self,
        directory: NodeId,
        from: Cursor,
        add: &mut AddEntryAndAttr<'_>,
    ) -> Result<(), Error> {
        self.list(directory, from, &mut |entry, next| {
            add(entry, next, self.attr(entry.node).ok().as_ref())
        })
    }

    /// As [`Self::list`] where parts of the directory may be damaged: gives `add` as many of its entries as
    /// can be read, and the reasons why there are not more. A tree whose directories have several parts should
    /// override this.
    fn list_readable(&self, directory: NodeId, from: Cursor, add: &mut AddReadable<'_>) {
        let listed = self.list(directory, from, &mut |entry, next| add(Ok((entry, next))));
        if let Err(error) = listed {
            // Nothing follows.
            let _ = add(Err(error));
        }
    }

    /// Up to `len` bytes of a file's content from `offset` on, in `scratch`: fewer only where the
    /// content ends.
    ///
    /// # Errors
    /// Any [`Error`].
    fn read<'s>(
        &self,
        node: NodeId,
        offset: u64,
        len: usize,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Error>;

    /// A hint that `len` bytes of a file's content from `offset` on will be read soon. Returns without waiting for them, and
    /// ignores failures.
    fn will_need(&self, node: NodeId, offset: u64, len: u64) {
        let _ = (node, offset, len);
    }

    /// A hint that names and attributes of files anywhere will be looked up soon. Returns without waiting, and ignores failures.
    fn will_walk(&self) {}

    /// The target of a symbolic link, in `scratch`: 1 to 4095 bytes without NUL.
    ///
    /// # Errors
    /// Any [`Error`].
    fn readlink<'s>(&self, node: NodeId, scratch: &'s mut Scratch) -> Result<&'s [u8], Error> {
        let _ = scratch;
        self.attr(node)?;
        Err(Error::NotASymlink)
    }

    /// The size of the tree.
    fn usage(&self) -> Usage;

    /// Bits that tell the image from others, as it says of itself, which may be untrue; `None` if it says nothing.
    fn claimed_id(&self) -> Option<u32> {
        None
    }

    /// Finds out which files a range of the image belongs to, which may be damaged: gives `visit`, for each file
    /// in turn, every range that is read for any operation on it, until `visit` breaks. Several files may share a
    /// range, and a file comes once for each of its names. Of what cannot be read, `visit` gets what is known
    /// nevertheless, and the reason why it is not all.
    ///
    /// A tree that is not in an image has no ranges.
    fn walk_places(&self, visit: &mut VisitPlace<'_>) -> ControlFlow<()> {
        let _ = visit;
        ControlFlow::Continue(())
    }

    /// Whether files may share their data. If so, all together they can have much more of it than the tree is
    /// stored in.
    fn shares_data(&self) -> bool {
        false
    }

    /// Where owners and permissions in [`Attr`] come from. A mount may replace them if the tree stores none.
    fn ownership(&self) -> Ownership {
        Ownership::Stored
    }

    /// Whether any file may have an access control list. If so, a mount enforces them, which takes a request
    /// for each file that is used by others than its owner.
    fn has_access_lists(&self) -> bool {
        false
    }

    /// The names of a file's extended attributes.
    ///
    /// # Errors
    /// Any [`Error`].
    fn xattr_names(&self, node: NodeId) -> Result<XattrNames, Error> {
        let _ = node;
        Ok(XattrNames::default())
    }

    /// The value of an extended attribute: at most [`MAX_XATTR_VALUE`](crate::MAX_XATTR_VALUE) bytes.
    ///
    /// # Errors
    /// Any [`Error`]; [`Error::NoAttribute`] if the file has none of this name.
    fn xattr(&self, node: NodeId, name: &OsStr) -> Result<Vec<u8>, Error> {
        let _ = (node, name);
        Err(Error::NoAttribute)
    }

    /// What fs-verity measures of a file; `None` if the tree has no digest of it.
    ///
    /// # Errors
    /// Any [`Error`].
    fn measure(&self, node: NodeId) -> Result<Option<Measurement>, Error> {
        let _ = node;
        Ok(None)
    }

    /// Whether any file may have holes. If not, a mount does not ask for [`Self::extent`].
    fn has_holes(&self) -> bool {
        false
    }

    /// The data or hole at `offset`. The extent ends no later than the content, and may be followed by
    /// another one of the same kind.
    ///
    /// # Errors
    /// Any [`Error`]; [`Error::PastEnd`] if the content ends at `offset` or before.
    fn extent(&self, node: NodeId, offset: u64) -> Result<Extent, Error> {
        let rest = self.attr(node)?.size.saturating_sub(offset);
        let len = NonZeroU64::new(rest).ok_or(Error::PastEnd)?;
        let kind = ExtentKind::Data;
        Ok(Extent { kind, len })
    }
}

/// The part of the range of `len` bytes at `offset` that lies inside content of `size` bytes.
pub fn part_inside(offset: u64, len: usize, size: u64) -> Range<usize> {
    let clamp = |offset: u64| usize::try_from(offset.min(size)).unwrap_or(usize::MAX);
    let end = offset.saturating_add(u64::try_from(len).unwrap_or(u64::MAX));
    clamp(offset)..clamp(end)
}
