//! The header index: a packed copy of the headers, after the bytes that other readers access.

use std::{ops::Range, sync::OnceLock};

use verimount_source::{ReadAt, Scratch};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::{
    BlockSize, Entries, Error, Limit, Node, NodeId,
    error::Defect,
    geometry::{PADDING, index_offset, len_of, to_usize},
    name,
    node::{data_can_follow, device, file_type, has_data},
    raw::{INDEX_MAGIC, IndexDirectory, IndexEntry, IndexHeader},
};

/// The maximum number of directories in an index: their records stay in memory, in up to 20 MB.
pub(crate) const MAX_DIRECTORIES: u32 = 1 << 20;

/// How far from the end of an image to search for its index: the length for two million entries.
const MAX_SEARCH: u64 = 64 << 20;

/// How much of a directory is read at a time, in bytes: a multiple of the record size.
const PIECE: usize = 1 << 20;

/// A header index whose parts are all inside the image.
#[derive(Debug)]
pub(crate) struct Index {
    /// The number of accessible bytes of the image, which contain headers and data.
    pub(crate) image_size: u32,
    /// Offset of the index in the image.
    at: u64,
    pub(crate) directory_count: u32,
    entry_count: u32,
    name_bytes: u32,
    /// By their headers; `None` if they are not in this order, which is found out once.
    directories: OnceLock<Option<Box<[Directory]>>>,
}

/// One directory in the index.
#[derive(Debug)]
struct Directory {
    id: NodeId,
    /// The range of its entry records.
    entries: Range<u32>,
    /// The range of its entries' names.
    names: Range<u32>,
}

impl Index {
    /// The index of an image with `image_size` accessible bytes, if it has one.
    pub(crate) fn find(source: &impl ReadAt, image_size: u32) -> Result<Option<Self>, Error> {
        Self::find_at(source, index_offset(image_size), image_size)
    }

    /// Searches for the index at the end of `source`, if the image's size is unknown. Everything
    /// before the index is taken to be the image.
    pub(crate) fn find_last(source: &impl ReadAt) -> Result<Option<Self>, Error> {
        let size = source.size();
        let places = (0..=size / PADDING)
            .rev()
            .map(|place| place.saturating_mul(PADDING));
        for at in places.take_while(|at| size.saturating_sub(*at) <= MAX_SEARCH) {
            let image_size = u32::try_from(at).unwrap_or(u32::MAX);
            match Self::find_at(source, at, image_size) {
                Ok(Some(index))
                    if size.saturating_sub(index.end()) < BlockSize::MAX.bytes().into() =>
                {
                    return Ok(Some(index));
                }
                // Data with the magic of an index but an invalid header is something else.
                Ok(_) | Err(Error::Corrupt(_) | Error::Unsupported(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The index at `at`, if there is one.
    fn find_at(source: &impl ReadAt, at: u64, image_size: u32) -> Result<Option<Self>, Error> {
        if at.saturating_add(len_of::<IndexHeader>(1)) > source.size() {
            return Ok(None);
        }
        let mut header = IndexHeader::new_zeroed();
        source.read_exact_at(header.as_mut_bytes(), at)?;
        if header.magic != INDEX_MAGIC {
            return Ok(None);
        }
        let index = Self {
            image_size,
            at,
            directory_count: header.directories.get(),
            entry_count: header.entries.get(),
            name_bytes: header.name_bytes.get(),
            directories: OnceLock::new(),
        };
        if header.reserved != [0; 12] || index.end() > source.size() {
            return Err(Defect::IndexHeader.at(at).into());
        }
        if index.directory_count > MAX_DIRECTORIES {
            return Err(Error::Unsupported(Limit::Directories));
        }
        Ok(Some(index))
    }

    /// The root directory, whose header comes first.
    pub(crate) fn root(&self, source: &impl ReadAt) -> Result<NodeId, Error> {
        let first = self.directories(source)?.first();
        let at = self.directories_offset();
        Ok(first.ok_or(Defect::IndexDirectories.at(at))?.id)
    }

    /// Whether its table of directories can be used.
    pub(crate) fn is_usable(&self, source: &impl ReadAt) -> bool {
        self.directories(source).is_ok()
    }

    /// The offset in the image of the directory records.
    fn directories_offset(&self) -> u64 {
        self.at.saturating_add(len_of::<IndexHeader>(1))
    }

    /// The offset of the end of the index in the image.
    fn end(&self) -> u64 {
        self.offset_behind(self.entry_count, self.name_bytes)
    }

    /// The offset in the image after `entries` entry records and `name_bytes` bytes of names.
    fn offset_behind(&self, entries: u32, name_bytes: u32) -> u64 {
        self.directories_offset()
            .saturating_add(len_of::<IndexDirectory>(self.directory_count))
            .saturating_add(len_of::<IndexEntry>(entries))
            .saturating_add(name_bytes.into())
    }

    /// The entries of a directory; fails if there are more than `most`.
    pub(crate) fn entries(
        &self,
        source: &impl ReadAt,
        id: NodeId,
        most: usize,
    ) -> Result<Entries, Error> {
        let directories = self.directories(source)?;
        let directory = directories
            .binary_search_by_key(&id, |directory| directory.id)
            .ok()
            .and_then(|number| directories.get(number))
            .ok_or(Defect::NotIndexed.at(id))?;
        if directory.entries.len() > most {
            return Err(Error::Unsupported(Limit::DirectoryEntries));
        }
        let mut entries = self.read_entries(source, directory)?;
        entries.sort_names().map_err(|defect| defect.at(id))?;
        Ok(entries)
    }

    /// Reads a directory's records and the names after them in pieces; most directories fit in one
    /// piece.
    fn read_entries(&self, source: &impl ReadAt, directory: &Directory) -> Result<Entries, Error> {
        let at = self.offset_behind(directory.entries.start, directory.names.start);
        let at_fault = |defect: Defect| defect.at(at);
        let mut entries = Entries::with_capacity(directory.entries.len(), directory.names.len());
        let mut scratch = Scratch::default();
        for start in (0..directory.bytes()).step_by(PIECE) {
            let len = directory.bytes().saturating_sub(start).min(PIECE);
            let offset = at.saturating_add(u64::try_from(start).unwrap_or(u64::MAX));
            let piece = source.read_borrowed(&mut scratch, offset, len)?;
            let records_len = directory.record_bytes().saturating_sub(start).min(len);
            let (records, names) = piece.split_at_checked(records_len).unwrap_or_default();
            let records = <[IndexEntry]>::ref_from_bytes(records)
                .map_err(|_| at_fault(Defect::IndexEntry))?;
            for record in records {
                self.add_record(record, &mut entries).map_err(at_fault)?;
            }
            entries.push_names(names);
        }
        entries.check_names().map_err(at_fault)?;
        Ok(entries)
    }

    /// Checks one entry, except for its name, and adds it.
    fn add_record(&self, record: &IndexEntry, entries: &mut Entries) -> Result<(), Defect> {
        let mode = record.header_and_mode.get();
        let id = NodeId::from_word(mode);
        let detail = record.detail.get();
        let file_type = file_type(mode).ok_or(Defect::IndexEntry)?;
        let size = record.size.get();
        let details_fit = if has_data(file_type) {
            data_can_follow(id, detail)
        } else {
            (detail, size) == (device(file_type, detail), 0)
        };
        if !(1..self.image_size).contains(&id.get()) || !details_fit {
            return Err(Defect::IndexEntry);
        }
        let data = (detail, size);
        let node = Node::new(id, mode, file_type, detail, data, self.image_size)?;
        entries.push_unnamed(record.name.get(), &node)
    }

    fn directories(&self, source: &impl ReadAt) -> Result<&[Directory], Error> {
        let directories = match self.directories.get() {
            Some(directories) => directories,
            None => {
                let loaded = self.load_directories(source)?;
                self.directories.get_or_init(|| loaded)
            }
        };
        let at = self.directories_offset();
        Ok(directories
            .as_deref()
            .ok_or(Defect::IndexDirectories.at(at))?)
    }

    /// Reads the directory records, which together cover all entries and names.
    fn load_directories(&self, source: &impl ReadAt) -> Result<Option<Box<[Directory]>>, Error> {
        let at = self.directories_offset();
        let mut records = vec![IndexDirectory::new_zeroed(); to_usize(self.directory_count)];
        source.read_exact_at(records.as_mut_bytes(), at)?;

        let from_zero = records.first().is_some_and(|first| starts(first) == (0, 0));
        if !from_zero || !records.is_sorted_by(|a, b| a.header.get() < b.header.get()) {
            return Ok(None);
        }
        let ends = records.iter().skip(1).map(starts);
        let ends = ends.chain([(self.entry_count, self.name_bytes)]);
        let directories = records
            .iter()
            .zip(ends)
            .map(|(record, end)| Directory::new(record, end))
            .collect();
        Ok(directories)
    }
}

impl Directory {
    /// The length of its entry records and names in bytes.
    fn bytes(&self) -> usize {
        self.record_bytes().saturating_add(self.names.len())
    }

    /// The length of its entry records in bytes.
    fn record_bytes(&self) -> usize {
        size_of::<IndexEntry>().saturating_mul(self.entries.len())
    }

    /// The directory of `record`, whose entries and names end at `end`.
    fn new(record: &IndexDirectory, end: (u32, u32)) -> Option<Self> {
        let start = starts(record);
        let (entries, names) = (start.0..end.0, start.1..end.1);
        let ordered = entries.start <= entries.end && names.start <= names.end;
        // Each name has between one and `MAX_LEN` bytes.
        let most = entries.len().saturating_mul(name::MAX_LEN);
        let plausible = (entries.len()..=most).contains(&names.len());
        let id = NodeId::from_raw(record.header.get())?;
        (ordered && plausible).then_some(Self { id, entries, names })
    }
}

/// The starts of a directory's entries and of their names.
fn starts(record: &IndexDirectory) -> (u32, u32) {
    (record.first_entry.get(), record.first_name.get())
}
