use std::sync::atomic::{AtomicU64, Ordering};

use verimount_source::Scratch;
use verimount_tree::FileType;
use verimount_verity::Checked;
use zerocopy::FromBytes;

use crate::{
    Error,
    cluster::Clusters,
    compressed::AllSums,
    devices::Devices,
    error::Defect,
    inode::Inode,
    metadata::{Bytes, Metadata},
    numbers::to_usize,
    space::{Address, Space},
    superblock::{Superblock, read_beginning},
    work::Counters,
    xattr_prefixes::XattrPrefixes,
};

/// What an inode with the address of its content takes with its entry in a directory, in bytes: at most 64, and some 30.
const INODE_AND_ENTRY: u64 = 96;

/// The most that is announced of an image of which nothing was read yet, in bytes.
const MOST_ANNOUNCED: u64 = 4 << 20;

/// An open image.
pub(crate) struct Image {
    pub(crate) superblock: Superblock,
    pub(crate) devices: Devices,
    pub(crate) xattr_prefixes: XattrPrefixes,
    pub(crate) clusters: Clusters,
    pub(crate) sums: AllSums,
    pub(crate) work: Counters,
    metadata: Metadata,
    /// Where the first data begins that an inode before it has, of all that were read.
    first_data: AtomicU64,
}

impl Image {
    /// Opens the image that `source` begins with. `devices` are those of its device table, in order; or none, and
    /// then all of them are in `source`.
    pub(crate) fn open(source: Checked, devices: Vec<Checked>) -> Result<Self, Error> {
        let beginning = read_beginning(&source)?;
        let superblock = Superblock::parse(beginning.as_slice(), &source)?;
        let mut image = Self {
            devices: Devices::read(&superblock, source, devices)?,
            metadata: Metadata::new(superblock.block_size),
            xattr_prefixes: XattrPrefixes::default(),
            clusters: Clusters::default(),
            sums: AllSums::default(),
            work: Counters::default(),
            first_data: AtomicU64::new(u64::MAX),
            superblock,
        };
        image
            .metadata
            .keep_beginning(beginning, image.devices.image().size());
        image.xattr_prefixes = XattrPrefixes::read(&image)?;
        let root = image.inode(image.superblock.root)?;
        match root.file_type {
            FileType::Directory => Ok(image),
            _ => Err(Defect::Root.at(root.xattrs.at).into()),
        }
    }

    /// Announces where inodes and directories are, if they are together at the beginning, as most builders place them.
    pub(crate) fn will_walk(&self) {
        let image = self.devices.image();
        let start = self.superblock.inodes_at.min(image.size());
        let len = self.superblock.inodes.saturating_mul(INODE_AND_ENTRY);
        let len = len
            .min(MOST_ANNOUNCED)
            .min(image.size().saturating_sub(start));
        image.will_need(start, len);
    }

    /// Notes that the file of an inode at `inode` has its data at `data`. Most images have all inodes before that, and who reads
    /// them does not go on over it.
    pub(crate) fn note_data(&self, inode: Address, data: u64) {
        let is_behind = inode.space == Space::Image && inode.at < data;
        // Most inodes change nothing, and should not take the cache line from other threads.
        let is_first = is_behind && data < self.first_data.load(Ordering::Relaxed);
        if is_first && data < self.first_data.fetch_min(data, Ordering::Relaxed) {
            self.devices.image().will_stop(data);
        }
    }

    /// The `len` bytes of metadata at `address`. `len` must have a limit.
    pub(crate) fn bytes(&self, address: Address, len: usize) -> Result<Bytes, Error> {
        match address.space {
            Space::Image => {
                let image = self.devices.image();
                let load = |at, buf: &mut [u8]| Ok(image.read_exact_at(buf, at)?);
                self.metadata.bytes(address, len, image.size(), load)
            }
            Space::Content(id) => {
                let inode = self.inode(id)?;
                let load = |at, buf: &mut [u8]| self.fill(&inode, at, buf);
                self.metadata.bytes(address, len, inode.size, load)
            }
        }
    }

    /// The structure at `address`.
    pub(crate) fn structure<T: FromBytes>(&self, address: Address) -> Result<T, Error> {
        let bytes = self.bytes(address, size_of::<T>())?;
        T::read_from_bytes(&bytes).map_err(|_| Defect::Range.at(address).into())
    }

    /// The target of a symbolic link, in `scratch`.
    pub(crate) fn target<'s>(
        &self,
        inode: &Inode,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Error> {
        /// The longest target in bytes: Linux takes no longer paths.
        const MAX_TARGET: u64 = 4095;
        let at = inode.xattrs.at;
        let len = match inode.size {
            len @ 1..=MAX_TARGET => to_usize(len),
            len => return Err(Defect::TargetLen(len).at(at).into()),
        };
        let target = self.read(inode, 0, len, scratch)?;
        if target.contains(&0) {
            Err(Defect::TargetCharacter.at(at).into())
        } else {
            Ok(target)
        }
    }
}
