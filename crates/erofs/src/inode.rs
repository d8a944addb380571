use verimount_tree::{Attr, DeviceNumber, FileType, NodeId, Permissions, Timestamp};
use zerocopy::FromZeros;

use crate::{
    Error, Unsupported,
    block_size::BlockSize,
    chunks::Chunks,
    compressed::{Compressed, Form},
    error::Defect,
    image::Image,
    inode_id::InodeId,
    layout::{Layout, Tail},
    raw::{self, FILE_TYPES, HOLE, format, layout},
    space::{Address, Space},
    superblock::SUPERBLOCK_END,
};

/// How many bytes of an inode's extended attributes are not counted in its number of them.
const XATTR_HEADER: u64 = 12;

/// The unit of that number in bytes.
const XATTR_UNIT: u64 = 4;

/// The length of an inode of the shorter form in bytes.
const COMPACT_LEN: u64 = 32;

/// The length of an inode of the longer form in bytes.
const EXTENDED_LEN: u64 = 64;

/// A validated inode.
#[derive(Debug, Clone)]
pub(crate) struct Inode {
    pub(crate) id: InodeId,
    pub(crate) file_type: FileType,
    pub(crate) size: u64,
    pub(crate) layout: Layout,
    pub(crate) xattrs: XattrRegion,
    permissions: Permissions,
    uid: u32,
    gid: u32,
    links: u32,
    device: DeviceNumber,
    mtime: Timestamp,
    /// Allocated space, in units of 512 bytes.
    blocks: u64,
}

/// Where an inode's extended attributes are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct XattrRegion {
    pub(crate) at: Address,
    /// In bytes, less than 256 KiB; 0 if there are none.
    pub(crate) len: u64,
}

/// An inode of either form.
struct Common {
    /// As if it were of the longer one, but for its time and number.
    raw: raw::ExtendedInode,
    /// The bits of a block address that say that there is none, if all are set.
    hole: u64,
    mtime: Option<Timestamp>,
    /// The length of the inode itself in bytes.
    len: u64,
}

impl Image {
    /// Reads an inode.
    pub(crate) fn inode(&self, id: InodeId) -> Result<Inode, Error> {
        let at = self.inode_address(id)?;
        let compact: raw::CompactInode = self.structure(at)?;
        let common = match compact.format.get() & format::EXTENDED {
            0 => Common::of_compact(&compact, self),
            _ => Common::of_extended(self.structure(at)?),
        };
        let inode = common.inode(id, at, self.superblock.block_size)?;
        if let (FileType::RegularFile, Some(data)) = (inode.file_type, inode.layout.blocks_at()) {
            self.note_data(at, data);
        }
        Ok(inode)
    }

    /// The length in bytes of the inode at `at`; of the shorter form if that is unknown.
    pub(crate) fn inode_len(&self, at: Address) -> u64 {
        let compact: Result<raw::CompactInode, _> = self.structure(at);
        match compact {
            Ok(compact) if compact.format.get() & format::EXTENDED != 0 => EXTENDED_LEN,
            _ => COMPACT_LEN,
        }
    }

    /// Where an inode is.
    pub(crate) fn inode_address(&self, id: InodeId) -> Result<Address, Error> {
        let offset = id.offset().unwrap_or(u64::MAX);
        if !id.is_in_metabox() {
            let address = Address::in_image(offset);
            return if offset >= SUPERBLOCK_END {
                Ok(address)
            } else {
                Err(Defect::InodeRange.at(address).into())
            };
        }
        let missing = Defect::Range.in_image(offset);
        Ok(Address {
            space: Space::Content(self.superblock.metabox.ok_or(missing)?),
            at: offset,
        })
    }
}

impl Common {
    fn of_compact(raw: &raw::CompactInode, image: &Image) -> Self {
        let superblock = &image.superblock;
        let has_high = raw.format.get() & format::ONE_LINK != 0
            && file_type(raw.mode.get()) != Some(FileType::Directory);
        let (links, high, hole) = if has_high {
            (1.into(), raw.links_or_high, HOLE)
        } else {
            (raw.links_or_high.into(), 0.into(), u32::MAX.into())
        };
        let seconds = superblock.epoch.checked_add(raw.mtime.get().into());
        Self {
            raw: raw::ExtendedInode {
                format: raw.format,
                xattr_count: raw.xattr_count,
                mode: raw.mode,
                high,
                size: raw.size.into(),
                detail: raw.detail,
                uid: raw.uid.into(),
                gid: raw.gid.into(),
                links,
                ..raw::ExtendedInode::new_zeroed()
            },
            hole,
            mtime: seconds.and_then(|seconds| Timestamp::new(seconds, superblock.nanoseconds)),
            len: COMPACT_LEN,
        }
    }

    fn of_extended(raw: raw::ExtendedInode) -> Self {
        Self {
            hole: HOLE,
            mtime: Timestamp::new(raw.mtime.get(), raw.mtime_nanoseconds.get()),
            len: EXTENDED_LEN,
            raw,
        }
    }

    /// The inode that is at `at`.
    fn inode(self, id: InodeId, at: Address, block_size: BlockSize) -> Result<Inode, Error> {
        let (format, mode, size) = (self.format(), self.raw.mode.get(), self.raw.size.get());
        if format & !format::ALL != 0 {
            return Err(Unsupported::InodeFormat(format).into());
        }
        let corrupt = |defect: Defect| defect.at(at);
        let file_type = file_type(mode).ok_or(corrupt(Defect::Mode(mode)))?;
        if i64::try_from(size).is_err() {
            return Err(corrupt(Defect::Size(size)).into());
        }
        let mtime = self.mtime.ok_or(corrupt(Defect::Time))?;
        let xattrs = self.xattrs(at)?;
        let behind = xattrs.at.plus(xattrs.len).ok_or(corrupt(Defect::Address))?;
        let (layout, device) = match file_type {
            FileType::BlockDevice | FileType::CharDevice => {
                let device = DeviceNumber::from_encoded(self.raw.detail.get());
                (Layout::Hole, device)
            }
            FileType::Fifo | FileType::Socket => (Layout::Hole, DeviceNumber::NONE),
            _ => (self.layout(behind, block_size)?, DeviceNumber::NONE),
        };
        let stored_blocks = match layout {
            Layout::Compressed(_) => self.block(),
            _ => block_size.blocks_for(size),
        };
        let stored = stored_blocks.saturating_mul(block_size.bytes());
        Ok(Inode {
            id,
            file_type,
            size,
            layout,
            xattrs,
            permissions: Permissions::new(mode.into()),
            uid: self.raw.uid.get(),
            gid: self.raw.gid.get(),
            links: self.raw.links.get(),
            device,
            mtime,
            blocks: stored.div_ceil(512),
        })
    }

    fn xattrs(&self, at: Address) -> Result<XattrRegion, Error> {
        let behind = at.plus(self.len).ok_or(Defect::Address.at(at))?;
        let further = self.raw.xattr_count.get().checked_sub(1);
        let len = further.map_or(0, |further| {
            XATTR_HEADER.saturating_add(XATTR_UNIT.saturating_mul(further.into()))
        });
        Ok(XattrRegion { at: behind, len })
    }

    /// Where the content is, with `behind` the end of the extended attributes.
    fn layout(&self, behind: Address, block_size: BlockSize) -> Result<Layout, Error> {
        let layout = self.format() >> format::LAYOUT_SHIFT & format::LAYOUT_MASK;
        let has_tail = match layout {
            layout::FLAT_PLAIN => false,
            layout::FLAT_INLINE => true,
            layout::CHUNKS => {
                let [low, high, ..] = self.raw.detail.to_bytes();
                let format = u16::from_le_bytes([low, high]);
                return Ok(Layout::Chunks(Chunks::new(format, block_size, behind)?));
            }
            layout::COMPRESSED_FULL => {
                return Ok(Layout::Compressed(Compressed::new(Form::Full, behind)?));
            }
            layout::COMPRESSED_COMPACT => {
                return Ok(Layout::Compressed(Compressed::new(Form::Compact, behind)?));
            }
            unknown => return Err(Unsupported::Layout(unknown).into()),
        };
        let block = self.block();
        if !has_tail && block & self.hole == self.hole {
            return Ok(Layout::Hole);
        }
        let at = block_size
            .start_of(block)
            .ok_or(Defect::Address.at(behind))?;
        let tail = if has_tail {
            self.tail(behind, block_size)?
        } else {
            None
        };
        Ok(Layout::Flat { at, tail })
    }

    /// The tail that begins at `at`: what is behind the last whole block, or that block.
    fn tail(&self, at: Address, block_size: BlockSize) -> Result<Option<Tail>, Error> {
        let Some(last) = self.raw.size.get().checked_sub(1) else {
            return Ok(None);
        };
        let from = last.saturating_sub(block_size.offset_in_block(last));
        let len = self.raw.size.get().saturating_sub(from);
        let end = block_size.offset_in_block(at.at).saturating_add(len);
        if end <= block_size.bytes() {
            Ok(Some(Tail { from, at }))
        } else {
            Err(Defect::InlineTail.at(at).into())
        }
    }

    fn format(&self) -> u16 {
        self.raw.format.get()
    }

    /// A block address, or a number of blocks.
    fn block(&self) -> u64 {
        u64::from(self.raw.high.get()) << 32 | u64::from(self.raw.detail.get())
    }
}

impl Inode {
    /// The attributes of the inode as those of the file `node`, which is shown with the number `ino`.
    pub(crate) fn attr(&self, node: NodeId, ino: u64) -> Attr {
        Attr {
            ino,
            uid: self.uid,
            gid: self.gid,
            nlink: self.links,
            rdev: self.device,
            blocks: self.blocks,
            atime: self.mtime,
            mtime: self.mtime,
            ctime: self.mtime,
            ..Attr::new(node, self.file_type, self.permissions, self.size)
        }
    }
}

/// The type in a mode.
fn file_type(mode: u16) -> Option<FileType> {
    const TYPE_MASK: u32 = 0o170_000;
    let mut types = FILE_TYPES.into_iter().map(|(_, file_type)| file_type);
    types.find(|file_type| file_type.mode_bits() == u32::from(mode) & TYPE_MASK)
}
