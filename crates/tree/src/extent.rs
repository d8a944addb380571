//! Data and holes of files.

use std::num::NonZeroU64;

use crate::{Error, NodeId, Tree};

/// Whether a range of a file is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtentKind {
    /// Stored bytes.
    Data,
    /// A hole: it reads as zeros, and takes no space.
    Hole,
}

/// A range of a file that is either data or a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Whether it is data or a hole.
    pub kind: ExtentKind,
    /// Its length in bytes.
    pub len: NonZeroU64,
}

/// The most extents that one search passes. Everything after them counts as data, which is always
/// correct: a hole that is reported as data reads the same. Formats join neighbours of one kind, so few files need more
/// than one.
const MAX_EXTENTS: usize = 1 << 10;

/// The offset of the first data or hole at or after `offset`, as `SEEK_DATA` and `SEEK_HOLE` return it:
/// there is a hole at the end of the content.
///
/// # Errors
/// Any [`Error`]; [`Error::PastEnd`] if the content ends at `offset` or before, or if no data
/// follows.
pub fn seek(tree: &dyn Tree, node: NodeId, wanted: ExtentKind, offset: u64) -> Result<u64, Error> {
    let mut at = offset;
    for _ in 0..MAX_EXTENTS {
        let extent = match tree.extent(node, at) {
            Err(Error::PastEnd) if wanted == ExtentKind::Hole && at > offset => return Ok(at),
            other => other?,
        };
        if extent.kind == wanted {
            return Ok(at);
        }
        at = at.saturating_add(extent.len.get());
    }
    match wanted {
        ExtentKind::Data => Ok(at),
        ExtentKind::Hole => Ok(tree.attr(node)?.size),
    }
}
