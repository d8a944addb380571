//! A compact list of a directory's entries.

use crate::{
    Node, NodeId,
    error::Defect,
    geometry::to_usize,
    header::mode_bits,
    name,
    node::{device, file_type, has_data},
    raw::{EXECUTABLE, IndexEntry},
};

/// The entries of a directory except `.` and `..`, in the image's order. A hard link has the node
/// of its target.
///
/// Each entry takes 20 bytes of memory besides its name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entries {
    records: Vec<Record>,
    /// All names, concatenated.
    names: Vec<u8>,
    /// Positions in `records`, sorted by name.
    by_name: Vec<u32>,
}

/// A directory's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its name: 1 to 128 bytes without slash and NUL; neither `.` nor `..`.
    pub name: &'a [u8],
    /// The node that it names.
    pub node: Node,
}

/// A compact [`Node`], and the end of its name in `names`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Record {
    name_end: u32,
    id_and_mode: u32,
    /// The offset of the data, or a device number.
    detail: u32,
    size: u32,
}

const _: () = assert!(size_of::<Record>() == size_of::<IndexEntry>());

impl Entries {
    /// An empty list with room for `count` entries and `name_bytes` bytes of names.
    pub(crate) fn with_capacity(count: usize, name_bytes: usize) -> Self {
        Self {
            records: Vec::with_capacity(count),
            names: Vec::with_capacity(name_bytes),
            by_name: Vec::new(),
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The entry at this position in the image's order.
    pub fn get(&self, position: usize) -> Option<Entry<'_>> {
        let record = self.records.get(position)?;
        let name = self.name(position)?;
        let node = record.node()?;
        Some(Entry { name, node })
    }

    /// The entries from this position on.
    pub fn iter_from(&self, position: usize) -> impl Iterator<Item = Entry<'_>> {
        (position..self.len()).map_while(|position| self.get(position))
    }

    /// The node named `name`.
    pub fn find(&self, name: &[u8]) -> Option<Node> {
        let found = self
            .by_name
            .binary_search_by(|position| self.name(to_usize(*position)).cmp(&Some(name)))
            .ok()?;
        self.get(to_usize(*self.by_name.get(found)?))
            .map(|entry| entry.node)
    }

    /// The memory that this takes, in bytes.
    pub fn memory(&self) -> usize {
        let records = self.records.capacity().saturating_mul(size_of::<Record>());
        let by_name = self.by_name.capacity().saturating_mul(size_of::<u32>());
        let names = self.names.capacity();
        size_of::<Self>()
            .saturating_add(records)
            .saturating_add(by_name)
            .saturating_add(names)
    }

    fn name(&self, position: usize) -> Option<&[u8]> {
        let end = self.records.get(position)?.name_end;
        let before = position.checked_sub(1);
        let start = match before {
            Some(before) => self.records.get(before)?.name_end,
            None => 0,
        };
        self.names.get(to_usize(start)..to_usize(end))
    }

    /// Adds an entry whose name has been checked.
    pub(crate) fn push(&mut self, name: &[u8], node: &Node) {
        self.names.extend_from_slice(name);
        let name_end = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.records.push(Record::new(node, name_end));
    }

    /// Adds an entry whose name starts at `name_start` in the names, which are added later.
    pub(crate) fn push_unnamed(&mut self, name_start: u32, node: &Node) -> Result<(), Defect> {
        match self.records.last_mut() {
            Some(last) => last.name_end = name_start,
            None if name_start == 0 => {}
            None => return Err(Defect::IndexEntry),
        }
        self.records.push(Record::new(node, u32::MAX));
        Ok(())
    }

    /// Adds bytes of the names.
    pub(crate) fn push_names(&mut self, names: &[u8]) {
        self.names.extend_from_slice(names);
    }

    /// Ends the last name at the end of the names, and checks all names.
    pub(crate) fn check_names(&mut self) -> Result<(), Defect> {
        if let Some(last) = self.records.last_mut() {
            last.name_end = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        }
        for position in 0..self.len() {
            let name = self.name(position).ok_or(Defect::IndexEntry)?;
            name::check(name)?;
            if name::is_dot(name) {
                return Err(Defect::IndexEntry);
            }
        }
        Ok(())
    }

    /// Sorts the names for [`Self::find`].
    ///
    /// # Errors
    /// [`Defect::RepeatedName`] if two entries have the same name: `find` may return either.
    pub(crate) fn sort_names(&mut self) -> Result<(), Defect> {
        self.records.shrink_to_fit();
        self.names.shrink_to_fit();
        let mut by_name: Vec<u32> = (0..).take(self.len()).collect();
        let name = |position: &u32| self.name(to_usize(*position));
        // Images made by [`crate::plan`] are already sorted, which the sort detects in one pass.
        by_name.sort_unstable_by(|a, b| name(a).cmp(&name(b)));
        let differ = by_name.is_sorted_by(|a, b| name(a) < name(b));
        self.by_name = by_name;
        if differ {
            Ok(())
        } else {
            Err(Defect::RepeatedName)
        }
    }
}

impl Record {
    fn new(node: &Node, name_end: u32) -> Self {
        let detail = if has_data(node.file_type) {
            // The offset is inside the image, so it fits in 32 bits.
            u32::try_from(node.data_offset).unwrap_or(u32::MAX)
        } else {
            node.device
        };
        Self {
            name_end,
            id_and_mode: node.id.get() | mode_bits(node.file_type, node.executable),
            detail,
            size: node.size,
        }
    }

    fn node(&self) -> Option<Node> {
        let file_type = file_type(self.id_and_mode)?;
        Some(Node {
            id: NodeId::from_word(self.id_and_mode),
            file_type,
            device: device(file_type, self.detail),
            executable: self.id_and_mode & EXECUTABLE != 0,
            size: self.size,
            data_offset: if has_data(file_type) {
                self.detail.into()
            } else {
                0
            },
        })
    }
}
