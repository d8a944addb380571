#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::as_conversions
)]

use std::{fmt, num::NonZeroUsize, sync::Arc};

use verimount_source::{Fetch, GrowingFile, ReadAt, Unchecked, Window};

use crate::{
    Corruption, DESCRIPTOR_SIZE, Descriptor, Error, FileDigest, Identity, MAX_SIGNATURE_SIZE,
    Progress, Seal, Signature, TreeGeometry, TreeParams, Trust, build_tree,
    descriptor::checked_geometry,
    file_sink::FileSink,
    seal_file::{Append, SealFile},
    unfinished::{Signing, Unfinished},
};

/// Alignment of a seal's descriptor and of its end, whose last 4 bytes hold the descriptor's size.
/// It is the file system's block size in the layout of ext4, which this layout follows.
pub const SEAL_BLOCK: u64 = 4096;

/// Alignment of an appended tree, as in ext4: the largest page size.
const TREE_ALIGNMENT: u64 = 65536;

/// Size of the number with which a seal ends.
const TRAILER_SIZE: u64 = 4;

/// Where a seal is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealLayout {
    /// After the data, in the same file.
    Appended,
    /// In a file of its own.
    Sidecar,
}

/// Offsets of the parts of a seal, in bytes from the start of the file that holds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Placement {
    tree: u64,
    descriptor: u64,
    end: u64,
}

impl Placement {
    /// `None` if an offset does not fit into 64 bits.
    fn new(geometry: &TreeGeometry, layout: SealLayout, signature_size: usize) -> Option<Self> {
        let tree = match layout {
            SealLayout::Appended => geometry
                .data_size()
                .checked_next_multiple_of(TREE_ALIGNMENT)?,
            SealLayout::Sidecar => 0,
        };
        let start = tree
            .checked_add(geometry.tree_size())?
            .checked_next_multiple_of(SEAL_BLOCK)?;
        let size = DESCRIPTOR_SIZE.checked_add(signature_size)?;
        let end = start
            .checked_add(u64::try_from(size).ok()?)?
            .checked_add(TRAILER_SIZE)?
            .checked_next_multiple_of(SEAL_BLOCK)?;
        Some(Self {
            tree,
            descriptor: start,
            end,
        })
    }
}

/// A descriptor, and the signature that follows it, which is empty if there is none.
type Head = (Descriptor, Vec<u8>);

/// A sealed file: its data, the Merkle tree over it, and the descriptor, none of them verified yet.
#[derive(Clone)]
pub struct Sealed {
    descriptor: Descriptor,
    layout: SealLayout,
    signature: Vec<u8>,
    data: Arc<dyn Fetch>,
    tree: Arc<dyn Fetch>,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sealed").field(&self.file_digest()).finish()
    }
}

impl Sealed {
    /// Opens the seal at the end of `file`.
    ///
    /// # Errors
    /// [`Error::NotSealed`] if there is none, [`Error::Unfinished`] if sealing was interrupted,
    /// [`Error::Corrupt`] or [`Error::Unsupported`] if it cannot be used, [`Error::Source`].
    pub fn open_appended(file: Arc<dyn Fetch>) -> Result<Self, Error> {
        let (end, size) = seal_end(&file)?;
        let head = read_head(&Unchecked(&*end))?;
        Self::stored(head, SealLayout::Appended, file.clone(), file, size)
    }

    /// Opens the seal of `data` in another file, the sidecar.
    ///
    /// # Errors
    /// As [`Self::open_appended`]; [`Error::Corrupt`] also if the sidecar is for data of another
    /// size.
    pub fn open_sidecar(data: Arc<dyn Fetch>, sidecar: Arc<dyn Fetch>) -> Result<Self, Error> {
        let (head, size) = (read_head(&Unchecked(&*sidecar))?, sidecar.length());
        Self::stored(head, SealLayout::Sidecar, data, sidecar, size)
    }

    /// A seal with this head. Checks that the file that holds it has exactly the length that the descriptor implies, which is
    /// `size` bytes unless its signature is being replaced, and so has a sidecar's data.
    fn stored(
        (descriptor, signature): Head,
        layout: SealLayout,
        data: Arc<dyn Fetch>,
        file: Arc<dyn Fetch>,
        size: u64,
    ) -> Result<Self, Error> {
        let geometry = descriptor.geometry();
        let placement = Placement::new(geometry, layout, signature.len());
        let expected = placement.map_or(u64::MAX, |placement| placement.end);
        let placement = placement.filter(|placement| placement.end == size);
        let placement = placement.ok_or(Corruption::Length {
            expected,
            actual: size,
        })?;
        let (expected, actual) = (geometry.data_size(), data.length());
        let data = match layout {
            SealLayout::Appended => Arc::new(Window::fetched(data, 0, expected)?),
            SealLayout::Sidecar if actual == expected => data,
            SealLayout::Sidecar => return Err(Corruption::DataSize { expected, actual }.into()),
        };
        Ok(Self {
            data,
            tree: Arc::new(Window::fetched(file, placement.tree, geometry.tree_size())?),
            layout,
            signature,
            descriptor,
        })
    }

    /// A seal whose descriptor and signature are kept apart, as [`Seal::head`] returned them. `data` and `tree`
    /// contain nothing else.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::Unsupported`] if it cannot be used.
    pub fn from_parts(
        head: &[u8],
        data: Arc<dyn Fetch>,
        tree: Arc<dyn Fetch>,
    ) -> Result<Self, Error> {
        let (descriptor, signature) = parse_head(head)?;
        Ok(Self {
            layout: SealLayout::Sidecar,
            signature,
            descriptor,
            data,
            tree,
        })
    }

    /// This seal as it is at the end of `file`, which is of the same content: only its size is looked at. `None` if
    /// that is another one.
    pub fn appended_to(&self, file: Arc<dyn Fetch>) -> Option<Self> {
        let size = file.length();
        Self::stored(self.parts(), SealLayout::Appended, file.clone(), file, size).ok()
    }

    /// This seal as it is in a sidecar of `data`: only the sizes are looked at. `None` if they are others.
    pub fn beside(&self, data: Arc<dyn Fetch>, sidecar: Arc<dyn Fetch>) -> Option<Self> {
        let size = sidecar.length();
        Self::stored(self.parts(), SealLayout::Sidecar, data, sidecar, size).ok()
    }

    fn parts(&self) -> Head {
        (self.descriptor.clone(), self.signature.clone())
    }

    /// What follows the tree in the file that holds the seal, and its offset there.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn end(&self) -> Result<(u64, Vec<u8>), Error> {
        end_of_seal(&self.descriptor, self.layout, &self.signature)
    }

    /// The stored descriptor.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Where the seal is stored.
    pub fn layout(&self) -> SealLayout {
        self.layout
    }

    /// The digest of the stored descriptor, not compared with any expected digest.
    pub fn file_digest(&self) -> FileDigest {
        self.descriptor.file_digest()
    }

    /// The stored data.
    pub fn data_unverified(&self) -> &Arc<dyn Fetch> {
        &self.data
    }

    /// The seal, if `trust` accepts its digest.
    ///
    /// # Errors
    /// As [`Trust::check`].
    pub fn accepted_by(&self, trust: &Trust) -> Result<Seal, Error> {
        trust.check(self)?;
        Ok(Seal {
            identity: Identity::FileDigest(self.file_digest()),
            root: *self.descriptor.root(),
            hashing: self.descriptor.params().hashing(),
            geometry: self.descriptor.geometry().clone(),
            head: self.head().into(),
            data: self.data.clone(),
            tree: self.tree.clone(),
        })
    }

    fn head(&self) -> Vec<u8> {
        let signature_size = u32::try_from(self.signature.len()).unwrap_or(u32::MAX);
        let descriptor = self.descriptor.to_bytes(signature_size);
        [&descriptor[..], &self.signature].concat()
    }

    /// The signature, if the seal has one.
    ///
    /// # Errors
    /// [`Corruption::Signature`] if it is not a minisign signature.
    pub fn signature(&self) -> Result<Option<Signature>, Error> {
        if self.signature.is_empty() {
            return Ok(None);
        }
        let signature = Signature::parse(&self.signature);
        Ok(Some(signature.ok_or(Corruption::Signature)?))
    }

    /// Writes `signature` into the seal, replacing any. `file` is a copy of the file that holds the
    /// seal, and nobody reads it yet.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn write_signature(
        &self,
        file: &dyn GrowingFile,
        signature: &Signature,
    ) -> Result<(), Error> {
        let (at, end) = end_of_seal(&self.descriptor, self.layout, signature.as_bytes())?;
        let len = at.saturating_add(u64::try_from(end.len()).unwrap_or(u64::MAX));
        file.write_all_at(&end, at)
            .and_then(|()| file.set_len(len))
            .map_err(Error::Write)
    }

    /// Writes `signature` into an appended seal, replacing any. `file` holds `content`.
    ///
    /// After any interruption, even a crash of the machine, [`Self::open_appended`] finds the seal
    /// with the old signature or the new one.
    ///
    /// # Errors
    /// [`Error::Write`], [`Error::Source`], [`Error::Corrupt`].
    pub fn replace_signature(
        &self,
        file: &dyn GrowingFile,
        content: &dyn ReadAt,
        signature: &Signature,
    ) -> Result<(), Error> {
        if let Some(Unfinished::Signing(begun)) = Unfinished::read(content)? {
            begun.finish(file, content)?;
        }
        let geometry = self.descriptor.geometry();
        let old = Placement::new(geometry, self.layout, self.signature.len());
        let (at, end) = end_of_seal(&self.descriptor, self.layout, signature.as_bytes())?;
        old.and_then(|old| Signing::new(old.end, at, &end))
            .ok_or(Error::TooLarge(geometry.data_size()))?
            .carry_out(file, &end)
            .map_err(Error::Write)
    }
}

/// Whether the seal at the end of `seal` has a signature.
///
/// # Errors
/// As [`Sealed::open_appended`].
pub fn is_signed(seal: &dyn ReadAt) -> Result<bool, Error> {
    let (_, signature) = read_head(seal)?;
    Ok(!signature.is_empty())
}

/// Computes the tree over `data` and writes the seal to `file`, which nobody reads yet. For
/// [`SealLayout::Appended`] the file begins with `data`, otherwise it is empty.
///
/// # Errors
/// [`Error::Source`], [`Error::Write`], [`Error::TooLarge`] or [`Error::Cancelled`].
pub fn seal(
    data: &dyn ReadAt,
    file: &dyn GrowingFile,
    layout: SealLayout,
    params: &TreeParams,
    threads: NonZeroUsize,
    progress: &mut Progress<'_>,
) -> Result<Descriptor, Error> {
    let mut file = SealFile::new(file);
    write_seal(data, &mut file, layout, params, threads, progress)
}

/// Computes the tree over `content` and appends the seal to `file`, which holds `content` and may
/// be in use.
///
/// If that fails, the file is truncated to its data. After any interruption, even a crash of the
/// machine, the file is unchanged, or sealed, or opening it gives [`Error::Unfinished`]. To
/// complete an unfinished seal, call this again with the same parameters: the data is unchanged,
/// and only zeros and parts of the same seal are overwritten.
///
/// # Errors
/// As [`seal`]; [`Error::AlreadySealed`], and [`Error::BegunOtherwise`] for other parameters.
pub fn append_seal(
    content: &dyn ReadAt,
    file: &dyn GrowingFile,
    params: &TreeParams,
    threads: NonZeroUsize,
    progress: &mut Progress<'_>,
) -> Result<Descriptor, Error> {
    let layout = SealLayout::Appended;
    let append = Append::new(file, content)?;
    let data = append.data()?;
    let geometry = checked_geometry(params, data.size())?;
    let placement = Placement::new(&geometry, layout, 0).ok_or(Error::TooLarge(data.size()))?;
    append.write(placement.end, |file| {
        write_seal(&data, file, layout, params, threads, progress)
    })
}

fn write_seal(
    data: &dyn ReadAt,
    file: &mut SealFile<'_>,
    layout: SealLayout,
    params: &TreeParams,
    threads: NonZeroUsize,
    progress: &mut Progress<'_>,
) -> Result<Descriptor, Error> {
    let geometry = checked_geometry(params, data.size())?;
    let placement =
        Placement::new(&geometry, layout, 0).ok_or(Error::TooLarge(geometry.data_size()))?;
    let tree_end = placement.tree.saturating_add(geometry.tree_size());
    let data_end = geometry.data_size().min(placement.tree);
    file.skip(data_end..placement.tree)
        .and_then(|()| file.skip(tree_end..placement.descriptor))
        .map_err(Error::Write)?;
    let mut sink = FileSink::new(file, placement.tree);
    let descriptor = build_tree(data, params, threads, &mut sink, progress)?;
    sink.flush().map_err(Error::Write)?;
    let (at, end) = end_of_seal(&descriptor, layout, &[])?;
    file.write(&end, at).map_err(Error::Write)?;
    Ok(descriptor)
}

/// The end of a seal: descriptor, signature and trailer; and its offset in the file.
fn end_of_seal(
    descriptor: &Descriptor,
    layout: SealLayout,
    signature: &[u8],
) -> Result<(u64, Vec<u8>), Error> {
    let geometry = descriptor.geometry();
    let too_large = || Error::TooLarge(geometry.data_size());
    let placement = Placement::new(geometry, layout, signature.len()).ok_or_else(too_large)?;
    let signature_size = u32::try_from(signature.len()).map_err(|_| too_large())?;
    let mut bytes = descriptor.to_bytes(signature_size).to_vec();
    bytes.extend(signature);
    let size = u32::try_from(bytes.len()).map_err(|_| too_large())?;
    let trailer_at = placement
        .end
        .checked_sub(placement.descriptor)
        .and_then(|size| size.checked_sub(TRAILER_SIZE))
        .and_then(|at| usize::try_from(at).ok())
        .ok_or_else(too_large)?;
    bytes.resize(trailer_at, 0);
    bytes.extend(size.to_le_bytes());
    Ok((placement.descriptor, bytes))
}

/// A source that ends with the appended seal of `file`, and the length of the file with this seal:
/// the file itself, unless its signature is being replaced.
fn seal_end(file: &Arc<dyn Fetch>) -> Result<(Arc<dyn Fetch>, u64), Error> {
    let signing = match Unfinished::read(&Unchecked(&**file))? {
        None => return Ok((file.clone(), file.length())),
        Some(Unfinished::Sealing(begun)) => {
            let data_size = begun.data_size;
            return Err(Error::Unfinished { data_size });
        }
        Some(Unfinished::Signing(signing)) => signing,
    };
    match (signing.new_end(&Unchecked(&**file))?, signing.new_size()) {
        (Some(end), Some(size)) => Ok((Arc::new(end), size)),
        _ => {
            let old = Window::fetched(file.clone(), 0, signing.old_size)?;
            Ok((Arc::new(old), signing.old_size))
        }
    }
}

/// The head at the end of `seal`.
fn read_head(seal: &dyn ReadAt) -> Result<Head, Error> {
    let end = seal.size();
    let trailer_at = match end.checked_sub(TRAILER_SIZE) {
        Some(at) if end.is_multiple_of(SEAL_BLOCK) => at,
        _ => return Err(Error::NotSealed),
    };
    let mut trailer = [0; 4];
    seal.read_exact_at(&mut trailer, trailer_at)?;
    let size = usize::try_from(u32::from_le_bytes(trailer)).map_err(|_| Error::NotSealed)?;
    if !(DESCRIPTOR_SIZE..=DESCRIPTOR_SIZE + MAX_SIGNATURE_SIZE).contains(&size) {
        return Err(Error::NotSealed);
    }
    let start = u64::try_from(size)
        .ok()
        .and_then(|size| trailer_at.checked_sub(size))
        .ok_or(Error::NotSealed)?;
    let start = start.saturating_sub(start % SEAL_BLOCK);

    let mut bytes = vec![0; size];
    seal.read_exact_at(&mut bytes, start)?;
    parse_head(&bytes)
}

fn parse_head(bytes: &[u8]) -> Result<Head, Error> {
    let (descriptor, signature_size) = Descriptor::parse(bytes)?;
    let signature = bytes.get(DESCRIPTOR_SIZE..).unwrap_or_default();
    if usize::try_from(signature_size) != Ok(signature.len()) {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        return Err(Corruption::DescriptorSize(size).into());
    }
    Ok((descriptor, signature.to_vec()))
}
