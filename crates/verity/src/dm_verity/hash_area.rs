#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::as_conversions
)]

use std::{fmt, sync::Arc};

use verimount_source::{Ask, Fetch, ReadAt, ReadError, Unchecked, Window};

use super::{Params, SUPERBLOCK_SIZE, superblock::Superblock};
use crate::{
    Corruption, Digest, Error, Identity, Leaves, Seal, TreeGeometry, hasher::topmost_digest,
    unfinished::Unfinished,
};

/// Data and its dm-verity Merkle tree, neither verified yet.
#[derive(Clone)]
pub struct HashArea {
    superblock: Superblock,
    /// The superblock as it was read.
    head: Box<[u8; SUPERBLOCK_SIZE]>,
    data: Arc<dyn Fetch>,
    tree: Arc<dyn Fetch>,
}

impl fmt::Debug for HashArea {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HashArea").field(self.geometry()).finish()
    }
}

impl HashArea {
    /// Opens the hash area of a file that also holds the data. `offset` is that of the superblock,
    /// in bytes.
    ///
    /// # Errors
    /// [`Error::NoSuperblock`] if there is none, [`Error::Corrupt`], [`Error::Unsupported`] or
    /// [`Error::TooLarge`] if it cannot be used, [`Error::Unfinished`] if sealing was interrupted,
    /// [`Error::Source`].
    pub fn open_appended(file: Arc<dyn Fetch>, offset: u64) -> Result<Self, Error> {
        if let Some(Unfinished::Sealing(begun)) = Unfinished::read(&Unchecked(&*file))? {
            let data_size = begun.data_size;
            return Err(Error::Unfinished { data_size });
        }
        let area = Self::open_beside(file.clone(), file, offset)?;
        let data_size = area.geometry().data_size();
        if data_size <= offset {
            Ok(area)
        } else {
            Err(Corruption::Overlap { offset, data_size }.into())
        }
    }

    /// Opens the hash area of `data` in another file, with the superblock at `offset`.
    ///
    /// Other bytes may follow the data, as on the kernel's devices.
    ///
    /// # Errors
    /// As [`Self::open_appended`].
    pub fn open_beside(
        data: Arc<dyn Fetch>,
        hashes: Arc<dyn Fetch>,
        offset: u64,
    ) -> Result<Self, Error> {
        let mut bytes = [0; SUPERBLOCK_SIZE];
        match Unchecked(&*hashes).read_exact_at(&mut bytes, offset) {
            Err(ReadError::PastEnd { .. }) => return Err(Error::NoSuperblock),
            read => read?,
        }
        let superblock = Superblock::parse(&bytes)?;
        let expected = superblock.geometry.data_size();
        let actual = data.length();
        let data = Window::fetched(data, 0, expected)
            .map_err(|_| Corruption::DataSize { expected, actual })?;
        Ok(Self {
            tree: tree_window(hashes, &superblock, offset)?,
            data: Arc::new(data),
            head: bytes.into(),
            superblock,
        })
    }

    /// A hash area whose superblock is kept apart, as [`Self::head`] returned it. `data` and `tree` contain nothing
    /// else.
    ///
    /// # Errors
    /// [`Error::NoSuperblock`], [`Error::Corrupt`], [`Error::Unsupported`] or [`Error::TooLarge`] if it cannot
    /// be used.
    pub fn from_parts(
        head: &[u8],
        data: Arc<dyn Fetch>,
        tree: Arc<dyn Fetch>,
    ) -> Result<Self, Error> {
        let head: [u8; SUPERBLOCK_SIZE] = head.try_into().map_err(|_| Error::NoSuperblock)?;
        Ok(Self {
            superblock: Superblock::parse(&head)?,
            head: head.into(),
            data,
            tree,
        })
    }

    /// The stored data.
    pub fn data_unverified(&self) -> &Arc<dyn Fetch> {
        &self.data
    }

    /// The digests of data blocks in the stored tree.
    pub fn leaves_unverified(&self) -> Leaves {
        let function = self.params().hashing().data_hasher();
        Leaves::new(self.tree.clone(), function, self.geometry())
    }

    /// The tree's parameters.
    pub fn params(&self) -> &Params {
        &self.superblock.params
    }

    /// The tree's shape.
    pub fn geometry(&self) -> &TreeGeometry {
        &self.superblock.geometry
    }

    /// The bytes of the superblock.
    pub fn head(&self) -> &[u8] {
        &*self.head
    }

    /// The digest of the tree's topmost block: the root hash, if it is unchanged. `None` for
    /// a single block of data, which has no tree.
    ///
    /// # Errors
    /// [`Error::Source`].
    pub fn root_hash_unverified(&self) -> Result<Option<Digest>, Error> {
        let hashing = self.params().hashing();
        let topmost = topmost_digest(&*self.tree, &hashing, self.geometry(), Ask::default())?;
        Ok(topmost.map(|(digest, _)| digest))
    }

    /// The seal of what has the root hash `root`.
    ///
    /// # Errors
    /// [`Error::RootHashSize`] for a root hash of another algorithm.
    pub fn accepted_by(&self, root: &[u8]) -> Result<Seal, Error> {
        let algorithm = self.params().algorithm;
        let root = Digest::new(algorithm, root).ok_or(Error::RootHashSize {
            algorithm,
            actual: root.len(),
        })?;
        Ok(Seal {
            identity: Identity::RootHash(root),
            root,
            hashing: self.params().hashing(),
            geometry: self.geometry().clone(),
            head: self.head.as_slice().into(),
            data: self.data.clone(),
            tree: self.tree.clone(),
        })
    }
}

fn tree_window(
    hashes: Arc<dyn Fetch>,
    superblock: &Superblock,
    offset: u64,
) -> Result<Arc<dyn Fetch>, Error> {
    let actual = hashes.length();
    let place = match superblock.tree_place(offset) {
        // Without a tree, the file may end before the offset of the tree.
        Some(place) if place.is_empty() => 0..0,
        Some(place) if place.end <= actual => place,
        place => {
            let expected = place.map_or(u64::MAX, |place| place.end);
            return Err(Corruption::HashAreaEnd { expected, actual }.into());
        }
    };
    let size = superblock.geometry.tree_size();
    Ok(Arc::new(Window::fetched(hashes, place.start, size)?))
}
