//! Assigns offsets in the image.

use verimount_scan::{Entry, EntryId};
use verimount_tree::FileType;

use super::{
    BuildError, Options, Unstorable, index, name_in_header,
    tree::{Item, Offsets, Tree},
};
use crate::geometry::{ALIGNMENT, MIN_HEADER_LEN, header_len, index_offset};

/// The sizes of an image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Number of accessible bytes: the end of the last item.
    pub(super) accessible: u32,
    /// Bytes of the whole image.
    pub(super) image: u64,
}

/// Assigns a place to every item of the tree, in the order of the tree.
pub(super) fn lay_out(tree: &mut Tree, options: &Options) -> Result<Sizes, BuildError> {
    let block = u64::from(options.block_size.bytes());
    let volume_name_len = options.volume_name.as_bytes().len();
    let mut end = u32::try_from(header_len(volume_name_len)).unwrap_or(u32::MAX);
    for (entry, item) in tree.source.entries().zip(&mut tree.items) {
        let Some((place, item_end)) = place(entry, item, end, block) else {
            return Err(BuildError::unstorable(entry, Unstorable::ImageTooLarge));
        };
        item.place = place;
        end = item_end;
    }
    let image = index_offset(end).saturating_add(index::len(tree));
    Ok(Sizes {
        accessible: end,
        image: image.next_multiple_of(block),
    })
}

/// Places an item at the first fit from `start` on, and returns its end; `None` beyond 4 GiB.
///
/// The data of a file of at least one block is aligned to blocks; all else is packed.
fn place(entry: Entry<'_>, item: &Item, start: u32, block: u64) -> Option<(Offsets, u32)> {
    let header_len = u64::try_from(header_len(name_in_header(entry).len())).ok()?;
    // A hard link is a header alone.
    let data_len = if entry.is_first_name() {
        u64::from(item.data_len)
    } else {
        0
    };
    let mut body = u64::from(start).checked_add(header_len)?;
    if item.file_type == FileType::RegularFile && data_len >= block {
        body = body.next_multiple_of(block);
    }
    let body_len = match item.file_type {
        // The root's own header is its `.`, so only `..` follows.
        FileType::Directory if entry.id() == EntryId::ROOT => MIN_HEADER_LEN.into(),
        FileType::Directory => u64::from(MIN_HEADER_LEN).checked_mul(2)?,
        _ => data_len,
    };
    let end = body.checked_add(body_len)?;
    let end = end.next_multiple_of(ALIGNMENT.into());
    let place = Offsets {
        header: u32::try_from(body.checked_sub(header_len)?).ok()?,
        body: u32::try_from(body).ok()?,
    };
    Some((place, u32::try_from(end).ok()?))
}
