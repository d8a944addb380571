//! The header index of a planned image.

use std::io::Write;

use verimount_scan::Entry;
use verimount_source::Sink;
use zerocopy::IntoBytes;

use super::{
    BuildError,
    tree::{Item, Tree},
};
use crate::{
    geometry::len_of,
    header::mode_bits,
    node::has_data,
    raw::{INDEX_MAGIC, IndexDirectory, IndexEntry, IndexHeader},
};

/// The header of the index.
fn header(tree: &Tree) -> IndexHeader {
    // None of the counts is larger than the image, whose every entry has a header and a name.
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).into();
    let entries = tree.source.entries().skip(1);
    IndexHeader {
        magic: INDEX_MAGIC,
        directories: count(tree.directories().count()),
        entries: count(tree.items.len().saturating_sub(1)),
        name_bytes: count(entries.map(|entry| entry.name().len()).sum()),
        reserved: [0; 12],
    }
}

/// Bytes of the index.
pub(super) fn len(tree: &Tree) -> u64 {
    let header = header(tree);
    len_of::<IndexHeader>(1)
        .saturating_add(len_of::<IndexDirectory>(header.directories.get()))
        .saturating_add(len_of::<IndexEntry>(header.entries.get()))
        .saturating_add(header.name_bytes.get().into())
}

/// Writes the index.
pub(super) fn emit<W: Write>(tree: &Tree, sink: &mut Sink<'_, W>) -> Result<(), BuildError> {
    sink.add(header(tree).as_bytes())?;
    let (mut entries, mut name_bytes) = (0_u32, 0_u32);
    for (directory, item) in tree.directories() {
        let record = IndexDirectory {
            header: item.place.header.into(),
            first_entry: entries.into(),
            first_name: name_bytes.into(),
        };
        sink.add(record.as_bytes())?;
        for child in directory.children() {
            entries = entries.saturating_add(1);
            name_bytes = name_bytes.saturating_add(name_len(child));
        }
    }
    for (directory, _) in tree.directories() {
        let mut name = 0_u32;
        for (child, item) in tree.children(directory) {
            sink.add(record(tree, child, item, name).as_bytes())?;
            name = name.saturating_add(name_len(child));
        }
        for child in directory.children() {
            sink.add(child.name())?;
        }
    }
    Ok(())
}

/// The record of an entry, whose name starts at `name` in the directory's names.
fn record(tree: &Tree, entry: Entry<'_>, item: &Item, name: u32) -> IndexEntry {
    let target = tree.place(tree.target(entry));
    let detail = if has_data(item.file_type) {
        target.body
    } else {
        item.device
    };
    let mode = mode_bits(item.file_type, item.executable);
    IndexEntry {
        name: name.into(),
        header_and_mode: (target.header | mode).into(),
        detail: detail.into(),
        size: item.data_len.into(),
    }
}

fn name_len(entry: Entry<'_>) -> u32 {
    u32::try_from(entry.name().len()).unwrap_or(u32::MAX)
}
