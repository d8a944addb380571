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

/// A sealed file: its data, the Merkle tree over it, and the descriptor, none of them verified yet.
#[derive(Clone)]
pub struct Sealed {
    descriptor: Descriptor,
    layout: SealLayout,
    signature: Option<Vec<u8>>,
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
        let (descriptor, signature) = read_descriptor(&Unchecked(&*end))?;
        let placement = check_length(&descriptor, SealLayout::Appended, &signature, size)?;
        let data = Window::fetched(file.clone(), 0, descriptor.geometry().data_size())?;
        Ok(Self {
            tree: tree_window(file, &descriptor, placement)?,
            data: Arc::new(data),
            layout: SealLayout::Appended,
            signature,
            descriptor,
        })
    }

    /// Opens the seal of `data` in another file, the sidecar.
    ///
    /// # Errors
    /// As [`Self::open_appended`]; [`Error::Corrupt`] also if the sidecar is for data of another
    /// size.
    pub fn open_sidecar(data: Arc<dyn Fetch>, sidecar: Arc<dyn Fetch>) -> Result<Self, Error> {
        let (descriptor, signature) = read_descriptor(&Unchecked(&*sidecar))?;
        let size = sidecar.length();
        let placement = check_length(&descriptor, SealLayout::Sidecar, &signature, size)?;
        let expected = descriptor.geometry().data_size();
        if data.length() != expected {
            let actual = data.length();
            return Err(Corruption::DataSize { expected, actual }.into());
        }
        Ok(Self {
            tree: tree_window(sidecar, &descriptor, placement)?,
            data,
            layout: SealLayout::Sidecar,
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
        let (descriptor, signature_size) = Descriptor::parse(head)?;
        let signature = head.get(DESCRIPTOR_SIZE..).unwrap_or_default().to_vec();
        if usize::try_from(signature_size) != Ok(signature.len()) {
            let size = u64::try_from(head.len()).unwrap_or(u64::MAX);
            return Err(Corruption::DescriptorSize(size).into());
        }
        Ok(Self {
            layout: SealLayout::Sidecar,
            signature: Some(signature).filter(|bytes| !bytes.is_empty()),
            descriptor,
            data,
            tree,
        })
    }

    /// This seal as it is at the end of `file`, which is of the same content: only its size is looked at. `None` if
    /// that is another one.
    pub fn appended_to(&self, file: Arc<dyn Fetch>) -> Option<Self> {
        let placement = self.placement(SealLayout::Appended)?;
        let size = self.descriptor.geometry().data_size();
        let is_right = file.length() == placement.end;
        let data = Window::fetched(file.clone(), 0, size)
            .ok()
            .filter(|_| is_right)?;
        Some(Self {
            layout: SealLayout::Appended,
            data: Arc::new(data),
            tree: tree_window(file, &self.descriptor, placement).ok()?,
            ..self.clone()
        })
    }

    /// This seal as it is in a sidecar of `data`: only the sizes are looked at. `None` if they are others.
    pub fn beside(&self, data: Arc<dyn Fetch>, sidecar: Arc<dyn Fetch>) -> Option<Self> {
        let placement = self.placement(SealLayout::Sidecar)?;
        let sizes = (self.descriptor.geometry().data_size(), placement.end);
        if (data.length(), sidecar.length()) != sizes {
            return None;
        }
        Some(Self {
            layout: SealLayout::Sidecar,
            tree: tree_window(sidecar, &self.descriptor, placement).ok()?,
            data,
            ..self.clone()
        })
    }

    /// What follows the tree in the file that holds the seal, and its offset there.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn end(&self) -> Result<(u64, Vec<u8>), Error> {
        let signature = self.signature.as_deref().unwrap_or_default();
        end_of_seal(&self.descriptor, self.layout, signature)
    }

    fn placement(&self, layout: SealLayout) -> Option<Placement> {
        let signature_size = self.signature.as_ref().map_or(0, Vec::len);
        Placement::new(self.descriptor.geometry(), layout, signature_size)
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
        let signature = self.signature.as_deref().unwrap_or_default();
        // It was read from a number of 32 bits.
        let signature_size = u32::try_from(signature.len()).unwrap_or(u32::MAX);
        let mut head = self.descriptor.to_bytes(signature_size).to_vec();
        head.extend(signature);
        head
    }

    /// The signature, if the seal has one.
    ///
    /// # Errors
    /// [`Corruption::Signature`] if it is not a minisign signature.
    pub fn signature(&self) -> Result<Option<Signature>, Error> {
        self.signature
            .as_deref()
            .map(|bytes| Signature::parse(bytes).ok_or(Corruption::Signature.into()))
            .transpose()
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
        let old_signature = self.signature.as_ref().map_or(0, Vec::len);
        let old = Placement::new(geometry, self.layout, old_signature);
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
    let (_, signature) = read_descriptor(seal)?;
    Ok(signature.is_some())
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
            let old = Window::fetched(file.clone(), 0, signing.old_size())?;
            Ok((Arc::new(old), signing.old_size()))
        }
    }
}

/// The descriptor at the end of `seal`, and its signature.
fn read_descriptor(seal: &dyn ReadAt) -> Result<(Descriptor, Option<Vec<u8>>), Error> {
    let end = seal.size();
    let trailer_at = match end.checked_sub(TRAILER_SIZE) {
        Some(at) if end.is_multiple_of(SEAL_BLOCK) => at,
        _ => return Err(Error::NotSealed),
    };
    let mut trailer = [0; 4];
    seal.read_exact_at(&mut trailer, trailer_at)?;
    let size = usize::try_from(u32::from_le_bytes(trailer)).map_err(|_| Error::NotSealed)?;
    let signature_size = match size.checked_sub(DESCRIPTOR_SIZE) {
        Some(signature_size @ 0..=MAX_SIGNATURE_SIZE) => signature_size,
        _ => return Err(Error::NotSealed),
    };
    let start = u64::try_from(size)
        .ok()
        .and_then(|size| trailer_at.checked_sub(size))
        .ok_or(Error::NotSealed)?;
    let start = start.saturating_sub(start % SEAL_BLOCK);

    let mut bytes = vec![0; size];
    seal.read_exact_at(&mut bytes, start)?;
    let (descriptor, stated) = Descriptor::parse(&bytes)?;
    if usize::try_from(stated) != Ok(signature_size) {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        return Err(Corruption::DescriptorSize(size).into());
    }
    let signature = bytes.split_off(DESCRIPTOR_SIZE);
    Ok((
        descriptor,
        Some(signature).filter(|bytes| !bytes.is_empty()),
    ))
}

/// Checks that the file that holds the seal has exactly the length that the descriptor implies.
fn check_length(
    descriptor: &Descriptor,
    layout: SealLayout,
    signature: &Option<Vec<u8>>,
    actual: u64,
) -> Result<Placement, Error> {
    let signature_size = signature.as_ref().map_or(0, Vec::len);
    match Placement::new(descriptor.geometry(), layout, signature_size) {
        Some(placement) if placement.end == actual => Ok(placement),
        placement => {
            let expected = placement.map_or(u64::MAX, |placement| placement.end);
            Err(Corruption::Length { expected, actual }.into())
        }
    }
}

fn tree_window(
    file: Arc<dyn Fetch>,
    descriptor: &Descriptor,
    placement: Placement,
) -> Result<Arc<dyn Fetch>, Error> {
    let size = descriptor.geometry().tree_size();
    Ok(Arc::new(Window::fetched(file, placement.tree, size)?))
}
