//! What FUSE has of a listing that a tree has not: `.` and `..`.

use std::{ffi::OsStr, ops::ControlFlow};

use verimount_fuse::{Name, NodeId};
use verimount_tree::{Cursor, DirEntry, FileType};

/// How many entries come before those of the tree, whose places are numbered behind them.
const DOTS: u64 = 2;

/// Adds `.` and `..` as far as a listing from `position` on has them. Returns where in the tree's
/// entries it goes on; `None` if there is no room for more, or no such place.
///
/// Their numbers are of no use to the kernel.
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

/// An entry of the tree, and the place behind it.
pub(super) fn name<'n>(entry: &DirEntry<'n>, next: Cursor) -> Name<'n> {
    Name {
        name: entry.name,
        ino: entry.node.get(),
        mode: entry.file_type.mode_bits(),
        next: next.get() + DOTS,
    }
}

/// Whether a listing goes on: as long as there was room.
pub(super) fn continue_if(has_room: bool) -> ControlFlow<()> {
    match has_room {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    }
}
