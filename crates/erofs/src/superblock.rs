//! The superblock: what an image says of itself.

use verimount_source::{AlignedBuf, ReadAt, Scratch};
use verimount_tree::Timestamp;
use zerocopy::{FromBytes, IntoBytes};

use crate::{
    Error, Unsupported,
    block_size::BlockSize,
    error::Defect,
    features::{Compatible, Incompatible},
    inode_id::InodeId,
    metadata::MIN_WINDOW,
    note::Note,
    numbers::to_usize,
    raw::{self, EXTENSION, NID_IN_METABOX, SUPERBLOCK},
};

/// How much is read at first, in bytes: the superblock with all its extensions, most often all that the checksum covers,
/// and the first metadata.
pub(crate) const FIRST_READ: u64 = MIN_WINDOW;

/// Where a superblock without extensions ends, in bytes.
pub(crate) const SUPERBLOCK_END: u64 = SUPERBLOCK + 128;

/// A validated superblock.
#[derive(Debug, Clone)]
pub struct Superblock {
    pub(crate) block_size: BlockSize,
    pub(crate) compatible: Compatible,
    pub(crate) incompatible: Incompatible,
    pub(crate) epoch: i64,
    pub(crate) nanoseconds: u32,
    /// How many inodes there are, as a hint: nothing checks it.
    pub(crate) inodes: u64,
    /// Where inode 0 would be, in bytes.
    pub(crate) inodes_at: u64,
    /// Where shared attribute 0 would be, in bytes.
    pub(crate) xattrs_at: u64,
    pub(crate) root: InodeId,
    pub(crate) devices: DeviceTable,
    pub(crate) xattr_prefixes: PrefixTable,
    pub(crate) packed_inode: Option<InodeId>,
    pub(crate) metabox: Option<InodeId>,
    pub(crate) has_xattr_filter: bool,
    /// A bit for each compression algorithm that files may have.
    pub(crate) algorithms: u16,
    pub(crate) note: Note,
    /// Bits that tell it from other images, if it has an identifier.
    pub(crate) claimed_id: Option<u32>,
    blocks: u64,
    volume_name: [u8; 16],
}

/// Where the table of devices is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceTable {
    pub(crate) at: u64,
    pub(crate) count: u16,
}

/// Where the table of name prefixes is: an offset in the image or in an inode's content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrefixTable {
    pub(crate) at: u64,
    pub(crate) count: u8,
}

impl Superblock {
    /// Reads the superblock of the image that `source` begins with.
    ///
    /// # Errors
    /// [`Error::NotErofs`] if there is none, and any other [`Error`].
    pub fn read(source: &dyn ReadAt) -> Result<Self, Error> {
        Self::parse(read_beginning(source)?.as_slice(), source)
    }

    /// Reads the superblock of an image that has this [beginning](read_beginning).
    pub(crate) fn parse(beginning: &[u8], source: &dyn ReadAt) -> Result<Self, Error> {
        let (raw, extension) = raw_parts(beginning).ok_or(Error::NotErofs)?;
        if beginning.starts_with(&raw::COMPOSEFS_MAGIC.to_le_bytes()) {
            return Err(Unsupported::Composefs.into());
        }
        let mut superblock = Self::validate(&raw, extension, source.size())?;
        superblock.check_checksum(&raw, beginning, source)?;
        superblock.note = Note::read(beginning);
        Ok(superblock)
    }

    /// The name of the volume: up to 16 bytes without NUL, which need not be text.
    pub fn volume_name(&self) -> &[u8] {
        let mut parts = self.volume_name.split(|byte| *byte == 0);
        parts.next().unwrap_or_default()
    }

    /// Number of further devices in its device table.
    pub fn devices(&self) -> u16 {
        self.devices.count
    }

    /// The size of the image in bytes. What is read is not limited by it: an image may have more.
    pub fn size(&self) -> u64 {
        self.block_size.start_of(self.blocks).unwrap_or(u64::MAX)
    }

    /// Checks that an image of `available` bytes has its end.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it has not.
    pub fn check_length(&self, available: u64) -> Result<(), Error> {
        let size = self.size();
        if size <= available {
            Ok(())
        } else {
            Err(Error::Truncated { size, available })
        }
    }

    fn validate(
        raw: &raw::Superblock,
        extension: Option<raw::Extension>,
        size: u64,
    ) -> Result<Self, Error> {
        let corrupt = |defect: Defect| defect.in_image(SUPERBLOCK);
        let incompatible =
            Incompatible::read(raw.incompatible.get()).map_err(Unsupported::Features)?;
        let block_size = BlockSize::from_bits(raw.block_bits)
            .ok_or(corrupt(Defect::BlockSize(raw.block_bits)))?;
        if raw.directory_block_bits != 0 {
            return Err(Unsupported::DirectoryBlockSize.into());
        }
        let end_of_extensions = u64::from(raw.extensions).saturating_mul(EXTENSION);
        if SUPERBLOCK_END.saturating_add(end_of_extensions) > size {
            return Err(corrupt(Defect::Extensions).into());
        }
        let start_of = |block: u32| block_size.start_of(block.into()).unwrap_or(u64::MAX);
        let compatible = Compatible::from_bits_truncate(raw.compatible.get());
        let mut superblock = Self {
            block_size,
            compatible,
            incompatible,
            epoch: raw.epoch.get(),
            nanoseconds: raw.nanoseconds.get(),
            inodes: raw.inodes.get(),
            inodes_at: start_of(raw.inode_block.get()),
            xattrs_at: start_of(raw.xattr_block.get()),
            root: InodeId::in_image(0),
            devices: DeviceTable {
                at: u64::from(raw.device_slot.get()).saturating_mul(raw::DEVICE_SLOT),
                count: if incompatible.contains(Incompatible::DEVICES) {
                    raw.extra_devices.get()
                } else {
                    0
                },
            },
            xattr_prefixes: PrefixTable {
                at: u64::from(raw.xattr_prefix_slot.get()).saturating_mul(raw::XATTR_SLOT),
                count: raw.xattr_prefixes,
            },
            packed_inode: None,
            metabox: None,
            has_xattr_filter: compatible.contains(Compatible::XATTR_FILTER)
                && raw.no_xattr_filter == 0,
            algorithms: if incompatible.contains(Incompatible::COMPRESSION_CONFIGURATIONS) {
                raw.algorithms.get()
            } else {
                // The field is another one then, and the only algorithm LZ4.
                1
            },
            note: Note::empty(),
            // An identifier may be made before the contents are known. With the times and numbers beside it, fewer images are alike.
            claimed_id: (raw.uuid != [0; 16]).then(|| crc32c::crc32c(raw.as_bytes())),
            blocks: raw.blocks.get().into(),
            volume_name: raw.volume_name,
        };
        superblock.set_root(raw);
        superblock.set_special_inodes(raw, extension)?;
        if Timestamp::new(superblock.epoch, superblock.nanoseconds).is_none() {
            return Err(corrupt(Defect::Time).into());
        }
        Ok(superblock)
    }

    fn set_root(&mut self, raw: &raw::Superblock) {
        let has_wide_root = self.has_wide_addresses() && raw.wide_root.get() != 0;
        let nid = if has_wide_root {
            self.blocks |= u64::from(raw.root.get()) << 32;
            raw.wide_root.get()
        } else {
            raw.root.get().into()
        };
        self.root = self.inode_id(nid);
    }

    fn set_special_inodes(
        &mut self,
        raw: &raw::Superblock,
        extension: Option<raw::Extension>,
    ) -> Result<(), Error> {
        let special = |nid: u64| match nid & NID_IN_METABOX {
            // Inside the metabox they could be inside themselves.
            0 => Ok(self.inode_id(nid)),
            _ => Err(Defect::SpecialInode.in_image(SUPERBLOCK)),
        };
        let packed = Some(raw.packed_inode.get()).filter(|nid| *nid != 0);
        let packed_inode = packed.map(special).transpose()?;
        let metabox = match (self.incompatible.contains(Incompatible::METABOX), extension) {
            (false, _) => None,
            (true, Some(extension)) => Some(special(extension.metabox_inode.get())?),
            (true, None) => return Err(Defect::SpecialInode.in_image(SUPERBLOCK).into()),
        };
        self.packed_inode = packed_inode;
        self.metabox = metabox;
        Ok(())
    }

    /// Whether compressed data ends where its blocks end.
    pub(crate) fn has_zero_padding(&self) -> bool {
        self.incompatible.contains(Incompatible::ZERO_PADDING)
    }

    /// Whether block addresses have 48 bits.
    pub(crate) fn has_wide_addresses(&self) -> bool {
        self.incompatible.contains(Incompatible::WIDE_ADDRESSES)
    }

    /// Where the inode with this number of the format is. Numbers count modulo 2^59, so that inodes may be
    /// in front of [`Self::inodes_at`].
    pub(crate) fn inode_id(&self, nid: u64) -> InodeId {
        let has_metabox = self.incompatible.contains(Incompatible::METABOX);
        if has_metabox && nid & NID_IN_METABOX != 0 {
            return InodeId::in_metabox(nid & !NID_IN_METABOX);
        }
        InodeId::in_image(
            self.inodes_at
                .wrapping_add(nid.wrapping_mul(raw::INODE_SLOT)),
        )
    }

    /// The number that the kernel shows for an inode: the one of the format. If there is a metabox, bit 31 marks what is in it, and
    /// the bits from there on are moved.
    pub(crate) fn shown_number(&self, id: InodeId) -> u64 {
        const LOW: u64 = (1 << 31) - 1;
        let slot = id.slot();
        let nid = if id.is_in_metabox() {
            slot
        } else {
            let first = self.inodes_at / raw::INODE_SLOT;
            slot.wrapping_sub(first) & (u64::MAX / raw::INODE_SLOT)
        };
        if self.metabox.is_none() {
            return nid;
        }
        (nid & !LOW) << 1 | u64::from(id.is_in_metabox()) << 31 | nid & LOW
    }

    /// Checks the checksum, if there is one: of the rest of the first block, or, where blocks are so small that
    /// the superblock is not in the first one, of its own.
    fn check_checksum(
        &self,
        raw: &raw::Superblock,
        beginning: &[u8],
        source: &dyn ReadAt,
    ) -> Result<(), Error> {
        if !self.compatible.contains(Compatible::CHECKSUM) {
            return Ok(());
        }
        let block = self.block_size.bytes();
        let len = block.checked_sub(SUPERBLOCK).filter(|len| *len > 0);
        let len = to_usize(len.unwrap_or(block));
        let known = beginning.get(to_usize(SUPERBLOCK)..);
        let mut covered = match known.and_then(|known| known.get(..len)) {
            Some(covered) => covered.to_vec(),
            None => {
                let mut scratch = Scratch::default();
                source
                    .read_borrowed(&mut scratch, SUPERBLOCK, len)?
                    .to_vec()
            }
        };
        if let Ok((copy, _)) = raw::Superblock::mut_from_prefix(&mut covered) {
            copy.checksum = 0.into();
        }
        // The format leaves out the inversion at the end.
        if !crc32c::crc32c(&covered) == raw.checksum.get() {
            Ok(())
        } else {
            Err(Defect::SuperblockChecksum.in_image(SUPERBLOCK).into())
        }
    }
}

/// The first [`FIRST_READ`] bytes of an image, or all. Only those with the superblock if not all of them are readable.
pub(crate) fn read_beginning(source: &dyn ReadAt) -> Result<AlignedBuf, Error> {
    let read = |len: u64| {
        let mut beginning = AlignedBuf::default();
        let len = to_usize(source.size().min(len));
        source.read_exact_at(beginning.grown(len), 0)?;
        Ok(beginning)
    };
    read(FIRST_READ).or_else(|_: Error| read(SUPERBLOCK_END.saturating_add(EXTENSION)))
}

/// The superblock and its first extension in the beginning of an image; `None` if there is no superblock.
fn raw_parts(bytes: &[u8]) -> Option<(raw::Superblock, Option<raw::Extension>)> {
    let bytes = bytes.get(to_usize(SUPERBLOCK)..)?;
    let (raw, rest) = raw::Superblock::read_from_prefix(bytes).ok()?;
    if raw.magic.get() != raw::MAGIC {
        return None;
    }
    let extension = raw::Extension::read_from_prefix(rest).ok();
    Some((
        raw,
        extension
            .map(|(extension, _)| extension)
            .filter(|_| raw.extensions > 0),
    ))
}
