//! Writing a planned image, front to back.

use std::io::Write;

use verimount_scan::{Contents, Entry, EntryId, InodeKind};
use verimount_source::{Progress, Sink};

use super::{BuildError, Plan, index, name_in_header, tree::Item};
use crate::{
    geometry::{MIN_HEADER_LEN, index_offset},
    header::{self, mode_bits},
    raw::HARD_LINK,
    superblock,
};

/// Writes the image.
pub(super) fn emit<'a>(
    plan: &Plan,
    out: &'a mut impl Write,
    progress: &'a mut Progress<'a>,
) -> Result<(), BuildError> {
    let tree = &plan.tree;
    let accessible = plan.sizes.accessible;
    let mut contents = Contents::new(&tree.source)?;
    let mut sink = Sink::new(out, superblock::set_checksum, progress);
    sink.add(&superblock::encode(accessible, plan.volume_name.as_bytes()))?;
    for (entry, item) in tree.iter() {
        sink.pad_to(item.place.header.into())?;
        emit_header(plan, entry, item, &mut sink)?;
        match &entry.inode().kind {
            _ if !entry.is_first_name() => {}
            InodeKind::Symlink(target) => sink.add(target)?,
            InodeKind::File(_) => {
                let content = contents.open(entry.id())?;
                content.copy_to(&mut sink, 0..item.data_len.into())?;
                content.finish()?;
            }
            _ => {}
        }
    }
    sink.pad_to(index_offset(accessible))?;
    index::emit(tree, &mut sink)?;
    sink.pad_to(plan.sizes.image)?;
    Ok(sink.flush()?)
}

/// Writes an item's header and, for a directory, those of its `.` and `..`.
fn emit_header<W: Write>(
    plan: &Plan,
    entry: Entry<'_>,
    item: &Item,
    sink: &mut Sink<'_, W>,
) -> Result<(), BuildError> {
    let tree = &plan.tree;
    let here = item.place;
    let is_root = entry.id() == EntryId::ROOT;
    let is_link = !entry.is_first_name();
    let mode = if is_link {
        HARD_LINK
    } else {
        mode_bits(item.file_type, item.executable)
    };
    let next = tree.header(entry.next_sibling());
    let (next, spec) = if is_link {
        (next, tree.header(Some(tree.target(entry))))
    } else if is_root {
        (here.body, here.header)
    } else if item.is_directory() {
        (next, here.body)
    } else {
        (next, item.device)
    };
    let size = if is_link { 0 } else { item.data_len };
    sink.add(&header::encode(
        next | mode,
        spec,
        size,
        name_in_header(entry),
    ))?;
    if !item.is_directory() {
        return Ok(());
    }
    let hard_link = |next, target, name| header::encode(next | HARD_LINK, target, 0, name);
    if !is_root {
        let next = here.body.saturating_add(MIN_HEADER_LEN);
        sink.add(&hard_link(next, here.header, b"."))?;
    }
    let first_child = tree.header(entry.children().next());
    let parent = tree.header(Some(entry.parent()));
    Ok(sink.add(&hard_link(first_child, parent, b".."))?)
}
