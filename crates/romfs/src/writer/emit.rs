//! Writing a planned image, front to back.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::PathBuf,
};

use rustix::fs::OFlags;

use super::{
    Plan,
    cursor::{Cursor, unreadable},
    index,
    sink::Sink,
    tree::{Data, Identity, Item},
};
use crate::{
    Error,
    geometry::{MIN_HEADER_LEN, index_offset},
    header,
    header::mode_bits,
    raw::file_type::HARD_LINK,
    superblock,
};

/// Writes the image.
pub(super) fn emit(
    plan: &Plan,
    out: &mut impl Write,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let tree = &plan.tree;
    let accessible = plan.sizes.accessible;
    let cursor = Cursor::new(&tree.directory);
    let mut cursor = cursor.map_err(|error| unreadable(tree.root.clone(), error))?;
    let mut sink = Sink::new(out, progress);
    sink.add(&superblock::encode(accessible, plan.volume_name.as_bytes()))?;
    for (number, item) in tree.items.iter().enumerate() {
        sink.pad_to(item.place.header.into())?;
        emit_header(plan, item, number == 0, &mut sink)?;
        match &item.data {
            Data::Directory(_) if number != 0 && item.first_child.is_some() => {
                cursor.ascend(tree, item.parent)?;
                cursor.descend(tree, number)?;
            }
            Data::None | Data::Directory(_) => {}
            Data::Target(target) => sink.add(target)?,
            Data::File(identity) => {
                cursor.ascend(tree, item.parent)?;
                let file = cursor.open(&item.name, OFlags::RDONLY);
                emit_file(file, identity, &mut sink, || tree.path(number))?;
            }
        }
    }
    sink.pad_to(index_offset(accessible))?;
    index::emit(tree, &mut sink)?;
    sink.pad_to(plan.sizes.image)?;
    sink.flush()
}

/// Writes an item's header and, for a directory, those of its `.` and `..`.
fn emit_header<W: Write>(
    plan: &Plan,
    item: &Item,
    is_root: bool,
    sink: &mut Sink<'_, W>,
) -> Result<(), Error> {
    let tree = &plan.tree;
    let here = item.place;
    let mode = match item.link_to {
        Some(_) => HARD_LINK,
        None => mode_bits(item.kind, item.executable),
    };
    let (next, spec) = match item.link_to {
        Some(target) => (tree.header(item.next), tree.header(Some(target))),
        None if is_root => (here.body, here.header),
        None if item.is_directory() => (tree.header(item.next), here.body),
        None => (tree.header(item.next), item.kind.device()),
    };
    let size = item.data.len();
    sink.add(&header::encode(next | mode, spec, size, &item.name))?;
    if !item.is_directory() {
        return Ok(());
    }
    let hard_link = |next, target, name| header::encode(next | HARD_LINK, target, 0, name);
    if !is_root {
        let next = here.body.saturating_add(MIN_HEADER_LEN);
        sink.add(&hard_link(next, here.header, b"."))?;
    }
    let first_child = tree.header(item.first_child);
    let parent = tree.header(Some(item.parent));
    sink.add(&hard_link(first_child, parent, b".."))
}

/// Copies a file, which must be the one that was scanned both before and after reading.
fn emit_file<W: Write>(
    file: io::Result<File>,
    scanned: &Identity,
    sink: &mut Sink<'_, W>,
    path: impl Fn() -> PathBuf,
) -> Result<(), Error> {
    let failed = |error| unreadable(path(), error);
    let check_unchanged = |file: &File| match Identity::of(&file.metadata().map_err(failed)?) {
        Some(now) if now == *scanned => Ok(()),
        _ => Err(Error::Changed { path: path() }),
    };
    let mut file = file.map_err(failed)?;
    check_unchanged(&file)?;
    let len = scanned.size().into();
    sink.add_with(len, |room| file.read_exact(room).map_err(failed))?;
    check_unchanged(&file)
}
