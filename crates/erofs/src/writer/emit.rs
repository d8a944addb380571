//! Writing a planned image, front to back.

use std::{
    cell::RefCell,
    io::{self, Read, Seek, SeekFrom, Write},
    num::NonZeroUsize,
};

use verimount_scan::{Contents, Entry, InodeKind};
use verimount_source::{Progress, Sink};
use zerocopy::{FromZeros, IntoBytes};

use super::{
    BuildError, Plan, attributes,
    chunk_map::{ChunkMap, stored_ranges},
    compress, directory, groups,
    layout::{Placed, Stored},
    shape::{Data, Shape},
    superblock, uuid,
};
use crate::raw::{CompactInode, ExtendedInode, HOLE, INODE_SLOT, format, layout};

/// Writes the image.
pub(super) fn emit(
    plan: &Plan,
    out: &mut (impl Read + Write + Seek),
    threads: NonZeroUsize,
    progress: &mut Progress<'_>,
) -> Result<(), BuildError> {
    let written = match plan.format.compression {
        Some(compression) => Some(compress::write(plan, compression, out, threads, progress)?),
        None => None,
    };
    let (places, blocks) = match &written {
        Some(written) => (&written.places, written.blocks),
        None => (&plan.layout.places, plan.layout.blocks),
    };
    let out = RefCell::new(out);
    let mut front_to_back = Shared { out: &out, at: 0 };
    let mut emitter = Emitter {
        plan,
        places,
        blocks,
        contents: Contents::new(&plan.tree)?,
        out: &out,
        sink: Sink::new(&mut front_to_back, superblock::set_checksum, progress),
    };
    emitter.metadata()?;
    let block = plan.format.block.bytes();
    emitter.sink.pad_to(plan.layout.metadata_blocks * block)?;
    if written.is_none() {
        for entry in plan.tree.entries().filter(|entry| entry.is_first_name()) {
            emitter.content(entry)?;
        }
        emitter.sink.pad_to(blocks * block)?;
    }
    Ok(emitter.sink.flush()?)
}

struct Emitter<'p, 'o, W> {
    plan: &'p Plan,
    /// Where everything is.
    places: &'p [Placed],
    /// Blocks of the image.
    blocks: u64,
    contents: Contents<'p>,
    out: &'o RefCell<W>,
    sink: Sink<'o, Shared<'o, W>>,
}

/// The output, which is written front to back, and in which what was written before is read.
struct Shared<'o, W> {
    out: &'o RefCell<W>,
    at: u64,
}

impl<W: Seek> Shared<'_, W> {
    /// Does something from the present offset on, which is moved by the number that it returns.
    fn advance(&mut self, work: impl FnOnce(&mut W) -> io::Result<usize>) -> io::Result<usize> {
        let mut out = self.out.borrow_mut();
        out.seek(SeekFrom::Start(self.at))?;
        let len = work(&mut *out)?;
        self.at += len as u64;
        Ok(len)
    }
}

impl<W: Write + Seek> Write for Shared<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.advance(|out| out.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.borrow_mut().flush()
    }
}

impl<W: Read + Seek> Read for Shared<'_, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.advance(|out| out.read(buffer))
    }
}

/// A part of the metadata.
enum Part<'p> {
    Inode(Entry<'p>),
    DirectoryBlocks(Entry<'p>),
    SharedAttributes,
}

impl<'p, W: Read + Write + Seek> Emitter<'p, '_, W> {
    fn metadata(&mut self) -> Result<(), BuildError> {
        let plan = self.plan;
        let uuid = uuid::of(&plan.tree, plan.volume_name, plan.format.compression);
        let superblock = superblock::encode(plan, uuid, self.has_chunks(), self.blocks);
        self.sink.add(&superblock::beginning(&superblock, plan))?;
        for (at, part) in self.parts() {
            self.sink.pad_to(at)?;
            match part {
                Part::Inode(entry) => self.inode(entry)?,
                Part::DirectoryBlocks(entry) => self.directory_blocks(entry)?,
                Part::SharedAttributes => {
                    for attribute in plan.attributes.encode_shared(&plan.tree) {
                        self.sink.add(&attribute)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Everything in the metadata, with its place in bytes, in the order of the places.
    fn parts(&self) -> impl Iterator<Item = (u64, Part<'p>)> + use<'p, W> {
        let plan = self.plan;
        let (tree, layout) = (&plan.tree, &plan.layout);
        let block = plan.format.block.bytes();
        let inodes = layout.inodes.iter().map(move |inode| {
            let entry = tree.entry(tree.inode(*inode).first_name);
            let at = u64::from(layout.place(*inode).nid) * INODE_SLOT;
            (at, Part::Inode(entry))
        });
        let shared = Some(u64::from(layout.shared_attributes)).filter(|block| *block > 0);
        let shared = shared.map(move |number| (number * block, Part::SharedAttributes));
        let directories = layout.directories.iter().map(move |directory| {
            let entry = tree.entry(*directory);
            let number = layout.place(entry.inode_id()).block();
            (u64::from(number) * block, Part::DirectoryBlocks(entry))
        });
        let mut inodes = inodes.peekable();
        // The shared attributes are placed before any directory.
        let mut blocks = shared.into_iter().chain(directories).peekable();
        std::iter::from_fn(move || match (inodes.peek(), blocks.peek()) {
            (Some((inode, _)), Some((block, _))) if block < inode => blocks.next(),
            (Some(_), _) => inodes.next(),
            (None, _) => blocks.next(),
        })
    }

    fn has_chunks(&self) -> bool {
        let inodes = self.plan.tree.inodes().iter();
        let mut files = inodes.filter_map(|inode| match &inode.kind {
            InodeKind::File(file) => Some(file),
            _ => None,
        });
        files.any(|file| ChunkMap::new(file, self.plan.format.block).is_some())
    }

    fn place(&self, entry: Entry<'_>) -> Placed {
        self.places[entry.inode_id().index()]
    }

    /// Writes an inode with all that follows it.
    fn inode(&mut self, entry: Entry<'p>) -> Result<(), BuildError> {
        let shape = self.plan.shape(entry);
        let tree = &self.plan.tree;
        let start = self.sink.position();
        if shape.extended {
            self.sink.add(self.extended(entry, &shape).as_bytes())?;
        } else {
            self.sink.add(self.compact(entry, &shape).as_bytes())?;
        }
        let attributes = &self.plan.attributes;
        let attributes = attributes.encode(tree, entry.inode().attributes);
        self.sink.add(&attributes)?;
        match &shape.data {
            Data::Flat { tail: 0, .. } => Ok(()),
            Data::Flat { blocks, tail } => self.tail(entry, *blocks, *tail),
            Data::Chunks(map) => self.chunk_map(entry, map),
            Data::Compressed(index) => match self.place(entry).stored {
                Stored::Compressed(_) => self.index(start + index.at, index.len()),
                Stored::From(_) | Stored::Nowhere => Ok(()),
            },
        }
    }

    fn compact(&self, entry: Entry<'_>, shape: &Shape) -> CompactInode {
        let inode = entry.inode();
        CompactInode {
            format: (self.layout_number(entry, shape) << format::LAYOUT_SHIFT).into(),
            xattr_count: attributes::count(shape.attributes).into(),
            mode: mode(entry).into(),
            links_or_high: (shape.links as u16).into(),
            size: (shape.size as u32).into(),
            detail: self.detail(entry, shape).into(),
            number: number(entry).into(),
            uid: (inode.owner.uid as u16).into(),
            gid: (inode.owner.gid as u16).into(),
            ..CompactInode::new_zeroed()
        }
    }

    fn extended(&self, entry: Entry<'_>, shape: &Shape) -> ExtendedInode {
        let inode = entry.inode();
        let layout = self.layout_number(entry, shape) << format::LAYOUT_SHIFT;
        ExtendedInode {
            format: (layout | format::EXTENDED).into(),
            xattr_count: attributes::count(shape.attributes).into(),
            mode: mode(entry).into(),
            size: shape.size.into(),
            detail: self.detail(entry, shape).into(),
            number: number(entry).into(),
            uid: inode.owner.uid.into(),
            gid: inode.owner.gid.into(),
            mtime: inode.mtime.seconds().into(),
            mtime_nanoseconds: inode.mtime.nanoseconds().into(),
            links: shape.links.into(),
            ..ExtendedInode::new_zeroed()
        }
    }

    fn layout_number(&self, entry: Entry<'_>, shape: &Shape) -> u16 {
        match (&shape.data, self.place(entry).stored) {
            (_, Stored::Compressed(_)) => layout::COMPRESSED_COMPACT,
            (Data::Flat { tail: 1.., .. }, _) => layout::FLAT_INLINE,
            (Data::Flat { .. } | Data::Compressed(_), _) => layout::FLAT_PLAIN,
            (Data::Chunks(_), _) => layout::CHUNKS,
        }
    }

    /// What the kind of inode decides: block address, number of blocks, device number or chunk format.
    fn detail(&self, entry: Entry<'_>, shape: &Shape) -> u32 {
        let place = self.place(entry);
        match (&entry.inode().kind, &shape.data, place.stored) {
            (InodeKind::BlockDevice(device) | InodeKind::CharDevice(device), _, _) => {
                device.encoded()
            }
            (_, Data::Chunks(map), _) => map.bits,
            (_, _, Stored::Compressed(blocks)) => blocks,
            (_, Data::Flat { .. } | Data::Compressed(_), _) => place.block(),
        }
    }

    /// Writes an index, which is there already, with the rest.
    fn index(&mut self, at: u64, len: u64) -> Result<(), BuildError> {
        self.sink.pad_to(at)?;
        let mut before = Shared { out: self.out, at };
        self.sink.add_with(len, |room| {
            before.read_exact(room).map_err(BuildError::Output)
        })
    }

    /// Writes the end of an inode's data, which is behind `blocks` blocks.
    fn tail(&mut self, entry: Entry<'p>, blocks: u64, len: u64) -> Result<(), BuildError> {
        match &entry.inode().kind {
            InodeKind::Symlink(target) => Ok(self.sink.add(target)?),
            InodeKind::Directory(_) => self.directory_part(entry, blocks..blocks + 1),
            InodeKind::File(_) => {
                let content = self.contents.open(entry.id())?;
                let start = blocks * self.plan.format.block.bytes();
                content.copy_to(&mut self.sink, start..start + len)?;
                Ok(content.finish()?)
            }
            _ => Ok(()),
        }
    }

    /// Writes the map of a sparse file.
    fn chunk_map(&mut self, entry: Entry<'_>, map: &ChunkMap) -> Result<(), BuildError> {
        let mut block = u64::from(self.place(entry).block());
        let mut next = 0;
        for stored in map.stored_chunks() {
            self.chunk_records((next..stored.start).map(|_| HOLE))?;
            let first = block;
            self.chunk_records(
                (0..stored.end - stored.start).map(|chunk| first + (chunk << map.bits)),
            )?;
            let blocks = map.blocks_of(&stored);
            block += blocks.end - blocks.start;
            next = stored.end;
        }
        self.chunk_records((next..map.count()).map(|_| HOLE))
    }

    /// Writes block addresses, of which the lower 32 bits count.
    fn chunk_records(&mut self, mut blocks: impl Iterator<Item = u64>) -> Result<(), BuildError> {
        blocks.try_for_each(|block| Ok(self.sink.add(&(block as u32).to_le_bytes())?))
    }

    /// Writes the blocks of a directory, but for its end if that is behind the inode.
    fn directory_blocks(&mut self, entry: Entry<'_>) -> Result<(), BuildError> {
        self.directory_part(entry, 0..self.plan.shape(entry).blocks())
    }

    /// Writes some blocks of a directory.
    fn directory_part(
        &mut self,
        entry: Entry<'_>,
        part: std::ops::Range<u64>,
    ) -> Result<(), BuildError> {
        let block = self.plan.format.block;
        let nid = |inode| self.plan.layout.place(inode).nid.into();
        let blocks = directory::blocks(entry, block);
        let count = (part.end - part.start) as usize;
        for (number, entries) in blocks.skip(part.start as usize).take(count).enumerate() {
            if number > 0 {
                let position = self.sink.position();
                self.sink.pad_to(position.next_multiple_of(block.bytes()))?;
            }
            self.sink.add(&directory::encode(&entries, nid))?;
        }
        Ok(())
    }

    /// Writes the content of an inode that has blocks of its own behind the metadata.
    fn content(&mut self, entry: Entry<'p>) -> Result<(), BuildError> {
        let blocks = self.plan.shape(entry).blocks();
        if blocks == 0 || self.plan.equal.is_repeated(entry.inode_id()) {
            return Ok(());
        }
        let at = u64::from(self.place(entry).block()) * self.plan.format.block.bytes();
        match &entry.inode().kind {
            InodeKind::Symlink(target) => {
                self.sink.pad_to(at)?;
                Ok(self.sink.add(target)?)
            }
            InodeKind::File(file) => {
                self.sink.pad_to(at)?;
                let content = self.contents.open(entry.id())?;
                for range in stored_ranges(file, self.plan.format.block) {
                    content.copy_to(&mut self.sink, range)?;
                }
                Ok(content.finish()?)
            }
            _ => Ok(()),
        }
    }
}

/// Type and permissions.
fn mode(entry: Entry<'_>) -> u16 {
    let inode = entry.inode();
    // Both fit in 16 bits.
    inode.kind.file_type().mode_bits() as u16 | inode.permissions.bits()
}

/// The number that 32-bit programs may be told, of which 0 is none. It stays the same in other releases of a tree.
fn number(entry: Entry<'_>) -> u32 {
    groups::number_of(entry).max(1)
}
