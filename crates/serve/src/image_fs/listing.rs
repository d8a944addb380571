//! Adds to listings what FUSE expects and a tree does not have: `.` and `..`.

use std::{ffi::OsStr, ops::ControlFlow};

use verimount_fuse::{Name, NodeId};
use verimount_tree::{Cursor, DirEntry, FileType};

/// The number of entries before those of the tree. A tree's cursor is this much less than a position.
const DOTS: u64 = 2;

/// Adds those of `.` and `..` that are at `position` or later. Returns the cursor at which the tree's
/// entries continue; `None` if there is no room for more, or no such position.
///
/// The kernel does not use their inode numbers.
pub(super) fn add_dots(
    node: NodeId,
    position: u64,
    mut add: impl FnMut(Name<'_>) -> bool,
) -> Option<Cursor> {
    let dots = [".", ".."].into_iter().zip(1..);
    for (name, next) in dots.skip(position.min(DOTS) as usize) {
        let has_room = add(Name {
            name: OsStr::new(name),
            ino: node.0,
            mode: FileType::Directory.mode_bits(),
            next,
        });
        if !has_room {
            return None;
        }
    }
    Cursor::new(position.saturating_sub(DOTS))
}

/// An entry of the tree, with the position after it.
pub(super) fn name<'n>(entry: &DirEntry<'n>, next: Cursor) -> Name<'n> {
    Name {
        name: entry.name,
        ino: entry.ino,
        mode: entry.file_type.mode_bits(),
        next: next.get() + DOTS,
    }
}

/// Continues a listing as long as there is room.
pub(super) fn continue_if(has_room: bool) -> ControlFlow<()> {
    if has_room {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}
