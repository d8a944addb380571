//! The content of files.

use std::num::NonZeroU64;

use verimount_source::Scratch;
use verimount_tree::{Extent, ExtentKind, part_inside};

use crate::{
    Error, Unsupported,
    error::Defect,
    image::Image,
    inode::Inode,
    layout::Layout,
    numbers::{to_u64, to_usize},
    piece::{Piece, Place, Stored},
    raw::SUPERBLOCK,
};

/// How many parts of a file are looked at for one extent: a caller that wants more asks again.
const MAX_PIECES: usize = 4096;

/// How many bytes of compressed clusters one read may take, besides [`STORED_FOR_BYTE`] for each of its own: many of the largest.
const MAX_STORED: u64 = 16 << 20;

/// How many bytes of compressed clusters are read for a byte of a content, at most: as many as if each block of 4 KiB were in
/// one of the largest clusters, of 1 MiB. An extent may have less, but then its cluster has, too, in all images that programs
/// make.
const STORED_FOR_BYTE: u64 = 256;

impl Image {
    /// Up to `len` bytes of a file's content from `offset` on, in `scratch`: fewer only where the content ends.
    pub(crate) fn read<'s>(
        &self,
        inode: &Inode,
        offset: u64,
        len: usize,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Error> {
        let len = part_inside(offset, len, inode.size).len();
        if len == 0 {
            return Ok(&[]);
        }
        let first = self.run(inode, offset, len)?;
        self.note_end(inode, offset, &first);
        if first.len >= to_u64(len) {
            return self.lend(first.stored, len, scratch);
        }
        let buf = scratch.grown(len);
        let (part, rest) = buf.split_at_mut(to_usize(first.len));
        self.fill_from(first.stored, part)?;
        self.fill(inode, offset.saturating_add(first.len), rest)?;
        Ok(buf)
    }

    /// Says to the devices that `len` bytes of a content from `offset` on will be read soon, where they are stored as they are
    /// and in one piece; what is compressed is fetched when it is read.
    pub(crate) fn will_need(&self, inode: &Inode, offset: u64, len: u64) {
        let Ok(piece) = self.piece(inode, offset) else {
            return;
        };
        if let Stored::Plain(Place::Device { device, at }) = piece.stored
            && let Ok(device) = self.devices.get(device)
        {
            device.will_need(at, len.min(piece.len));
        }
    }

    /// Says to the device where a content is of which a piece, from `offset` on, is read, if it is in one piece.
    fn note_end(&self, inode: &Inode, offset: u64, piece: &Piece) {
        if let Layout::Flat { .. } = inode.layout
            && let Stored::Plain(Place::Device { device, at }) = piece.stored
            && let Ok(device) = self.devices.get(device)
        {
            device.will_end(at.saturating_sub(offset)..at.saturating_add(piece.len));
        }
    }

    /// Fills `buf` with the content from `offset` on, which must not end before.
    pub(crate) fn fill(&self, inode: &Inode, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        let mut offset = offset;
        let mut stored_left = to_u64(buf.len())
            .saturating_mul(STORED_FOR_BYTE)
            .saturating_add(MAX_STORED);
        let mut rest = buf;
        while !rest.is_empty() {
            let run = self.run(inode, offset, rest.len())?;
            if let Stored::Compressed { cluster, .. } = run.stored {
                let left = stored_left.checked_sub(cluster.stored);
                stored_left = left.ok_or(Unsupported::LargeClusters)?;
            }
            let len = to_usize(run.len).min(rest.len());
            let (part, behind) = rest.split_at_mut(len);
            self.fill_from(run.stored, part)?;
            offset = offset.saturating_add(to_u64(len));
            rest = behind;
        }
        Ok(())
    }

    /// The data or hole at `offset`; `None` at the end.
    pub(crate) fn extent(&self, inode: &Inode, offset: u64) -> Result<Option<Extent>, Error> {
        if offset >= inode.size {
            return Ok(None);
        }
        let first = self.piece(inode, offset)?;
        let mut end = offset.saturating_add(first.len);
        for _ in 1..MAX_PIECES {
            if end >= inode.size {
                break;
            }
            let next = self.piece(inode, end)?;
            if kind(next.stored) != kind(first.stored) {
                break;
            }
            end = end.saturating_add(next.len);
        }
        let len = NonZeroU64::new(end.saturating_sub(offset));
        let kind = kind(first.stored);
        Ok(len.map(|len| Extent { kind, len }))
    }

    /// The content from `offset` on that is read at once: `len` bytes if possible, and perhaps more.
    fn run(&self, inode: &Inode, offset: u64, len: usize) -> Result<Piece, Error> {
        let mut run = self.piece(inode, offset)?;
        while run.len < to_u64(len) {
            let next = self.piece(inode, offset.saturating_add(run.len))?;
            match run.joined(next) {
                Some(joined) => run = joined,
                None => break,
            }
        }
        Ok(run)
    }

    /// What holds byte `offset` of the content, which has more.
    pub(crate) fn piece(&self, inode: &Inode, offset: u64) -> Result<Piece, Error> {
        let rest = inode.size.saturating_sub(offset);
        if rest == 0 {
            return Err(Defect::Range.at(inode.xattrs.at).into());
        }
        let piece = match inode.layout {
            Layout::Hole => Piece {
                stored: Stored::Hole,
                len: rest,
            },
            Layout::Flat {
                tail: Some(tail), ..
            } if offset >= tail.from => Piece {
                stored: tail
                    .at
                    .plus(offset.saturating_sub(tail.from))
                    .map(|at| Stored::Plain(Place::Metadata(at)))
                    .ok_or(Defect::Address.at(tail.at))?,
                len: rest,
            },
            Layout::Flat { at, tail } => {
                let end = tail.map_or(inode.size, |tail| tail.from);
                let at = at.checked_add(offset);
                let at = at.ok_or(Defect::Address.at(inode.xattrs.at))?;
                Piece {
                    stored: Stored::Plain(self.devices.locate(0, at)?),
                    len: end.saturating_sub(offset),
                }
            }
            Layout::Chunks(chunks) => chunks.piece(self, offset)?,
            Layout::Compressed(compressed) => compressed.piece(self, inode, offset)?,
        };
        let len = piece.len.min(rest);
        Ok(Piece { len, ..piece })
    }

    /// `len` bytes that are stored in one way, in `scratch`.
    fn lend<'s>(
        &self,
        stored: Stored,
        len: usize,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Error> {
        match stored {
            Stored::Hole => {
                let buf = scratch.grown(len);
                buf.fill(0);
                Ok(buf)
            }
            Stored::Plain(Place::Device { device, at }) => {
                Ok(self.devices.get(device)?.read_borrowed(scratch, at, len)?)
            }
            Stored::Plain(Place::Metadata(address)) => {
                let (bytes, range) = self.bytes(address, len)?.into_parts();
                Ok(scratch.share(bytes, range))
            }
            Stored::Fragment(at) => {
                let packed = self.packed_inode()?;
                match self.read(&packed, at, len, scratch)? {
                    bytes if bytes.len() == len => Ok(bytes),
                    _ => Err(Defect::Fragment.at(packed.xattrs.at).into()),
                }
            }
            Stored::Compressed { cluster, skip } => {
                let bytes = self.decompressed(&cluster)?;
                let start = to_usize(skip);
                Ok(scratch.share(bytes, start..start.saturating_add(len)))
            }
        }
    }

    fn fill_from(&self, stored: Stored, buf: &mut [u8]) -> Result<(), Error> {
        match stored {
            Stored::Hole => buf.fill(0),
            Stored::Plain(Place::Device { device, at }) => {
                self.devices.get(device)?.read_exact_at(buf, at)?;
            }
            Stored::Plain(Place::Metadata(address)) => {
                buf.copy_from_slice(&self.bytes(address, buf.len())?);
            }
            Stored::Fragment(at) => self.fill(&self.packed_inode()?, at, buf)?,
            Stored::Compressed { cluster, skip: 0 } if to_u64(buf.len()) == cluster.len => {
                self.decompress(&cluster, buf)?;
            }
            Stored::Compressed { cluster, skip } => {
                let bytes = self.decompressed(&cluster)?;
                let start = to_usize(skip);
                let part = bytes.as_slice().get(start..start.saturating_add(buf.len()));
                // A piece is not longer than the rest of its cluster.
                buf.copy_from_slice(part.unwrap_or_default());
            }
        }
        Ok(())
    }

    /// The inode that holds fragments.
    pub(crate) fn packed_inode(&self) -> Result<Inode, Error> {
        let missing = Defect::Fragment.in_image(SUPERBLOCK);
        self.inode(self.superblock.packed_inode.ok_or(missing)?)
    }
}

fn kind(stored: Stored) -> ExtentKind {
    match stored {
        Stored::Hole => ExtentKind::Hole,
        _ => ExtentKind::Data,
    }
}
