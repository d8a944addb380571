use verimount_tree::FileType;
use zerocopy::FromBytes;

use crate::{
    Error,
    error::Defect,
    raw::{self, FILE_TYPES},
    space::Address,
};

/// The longest name in bytes.
pub(crate) const MAX_NAME: usize = 255;

/// A block of a directory: at least one entry.
pub(crate) struct DirectoryBlock<'b> {
    address: Address,
    bytes: &'b [u8],
    entries: &'b [raw::DirectoryEntry],
}

/// An entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry<'b> {
    /// 1 to 255 bytes, without slash and NUL.
    pub(crate) name: &'b [u8],
    /// The number that the format gives its inode.
    pub(crate) nid: u64,
    /// `None` if the directory does not tell.
    pub(crate) file_type: Option<FileType>,
}

/// Where a name is among those of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    Inside,
    Behind,
}

impl<'b> DirectoryBlock<'b> {
    /// The block that `bytes` are, which are at `address`. Its names are checked when they are used.
    pub(crate) fn new(bytes: &'b [u8], address: Address) -> Result<Self, Error> {
        let entries = raw::DirectoryEntry::ref_from_prefix(bytes)
            .ok()
            .and_then(|(first, _)| {
                // The names begin where the entries end.
                let end = usize::from(first.name.get());
                <[raw::DirectoryEntry]>::ref_from_bytes(bytes.get(..end)?).ok()
            });
        match entries {
            Some(entries) if !entries.is_empty() => Ok(Self {
                address,
                bytes,
                entries,
            }),
            _ => Err(Defect::EntryCount.at(address).into()),
        }
    }

    /// The number of entries: at least 1.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entry at this position.
    pub(crate) fn entry(&self, position: usize) -> Result<Entry<'b>, Error> {
        let raw = self.entries.get(position);
        let raw = raw.ok_or(Defect::EntryCount.at(self.address))?;
        Ok(Entry {
            name: self.name(position)?,
            nid: raw.nid.get(),
            file_type: file_type(raw.file_type),
        })
    }

    /// All names.
    pub(crate) fn names(&self) -> impl Iterator<Item = Result<&'b [u8], Error>> {
        (0..self.len()).map(|position| self.name(position))
    }

    /// Where a name is: in front of all of this block, between the first and the last one, or behind all.
    pub(crate) fn side(&self, name: &[u8]) -> Result<Side, Error> {
        if name < self.name(0)? {
            return Ok(Side::Before);
        }
        if name > self.last_name()? {
            Ok(Side::Behind)
        } else {
            Ok(Side::Inside)
        }
    }

    /// The first name.
    pub(crate) fn first_name(&self) -> Result<&'b [u8], Error> {
        self.name(0)
    }

    /// The last name.
    pub(crate) fn last_name(&self) -> Result<&'b [u8], Error> {
        self.name(self.len().saturating_sub(1))
    }

    /// The entry with this name. A name is known to be missing only if names are sorted, so that is checked.
    pub(crate) fn find(&self, name: &[u8]) -> Result<Option<Entry<'b>>, Error> {
        let mut found = None;
        let mut last: &[u8] = b"";
        for (position, own) in self.names().enumerate() {
            let own = own?;
            if own <= last {
                return Err(Defect::NameOrder.at(self.address).into());
            }
            if own == name {
                found = Some(self.entry(position)?);
            }
            last = own;
        }
        Ok(found)
    }

    /// The name at this position. The last one may end with a NUL.
    fn name(&self, position: usize) -> Result<&'b [u8], Error> {
        let offset = |position: usize| {
            let entry = self.entries.get(position)?;
            Some(usize::from(entry.name.get()))
        };
        let start = offset(position).unwrap_or(usize::MAX);
        let name = match offset(position.saturating_add(1)) {
            Some(end) => self.bytes.get(start..end),
            None => {
                let rest = self.bytes.get(start..);
                rest.and_then(|rest| rest.split(|byte| *byte == 0).next())
            }
        };
        let corrupt = |defect: Defect| Err(defect.at(self.address).into());
        match name {
            Some(name) if !(1..=MAX_NAME).contains(&name.len()) => corrupt(Defect::NameLen),
            Some(name) if name.contains(&0) || name.contains(&b'/') => {
                corrupt(Defect::NameCharacter)
            }
            Some(name) => Ok(name),
            None => corrupt(Defect::NameLen),
        }
    }
}

impl Entry<'_> {
    /// Whether this is the directory itself or the one above it.
    pub(crate) fn is_dot(&self) -> bool {
        matches!(self.name, b"." | b"..")
    }
}

/// The type that a directory tells; `None` if it does not.
fn file_type(value: u8) -> Option<FileType> {
    let mut types = FILE_TYPES.into_iter();
    types.find_map(|(number, file_type)| (number == value).then_some(file_type))
}
