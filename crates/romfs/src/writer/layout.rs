//! Assigns offsets in the image.

use super::{
    Options, index,
    tree::{Item, Place, Tree},
};
use crate::{
    Error, NodeKind, Unstorable,
    geometry::{ALIGNMENT, MIN_HEADER_LEN, header_len, index_offset},
};

/// The sizes of an image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Number of accessible bytes: the end of the last item.
    pub(super) accessible: u32,
    /// Bytes of the whole image.
    pub(super) image: u64,
}

/// Assigns a place to every item of the tree, in the order of the tree.
pub(super) fn lay_out(tree: &mut Tree, options: &Options) -> Result<Sizes, Error> {
    let block = u64::from(options.block_size.bytes());
    let volume_name_len = options.volume_name.as_bytes().len();
    let mut end = u32::try_from(header_len(volume_name_len)).unwrap_or(u32::MAX);
    let mut too_large = None;
    for (number, item) in tree.items.iter_mut().enumerate() {
        let Some((place, item_end)) = place(item, number == 0, end, block) else {
            too_large = Some(number);
            break;
        };
        item.place = place;
        end = item_end;
    }
    if let Some(number) = too_large {
        return Err(Error::Unstorable {
            path: tree.path(number),
            reason: Unstorable::ImageTooLarge,
        });
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
fn place(item: &Item, is_root: bool, start: u32, block: u64) -> Option<(Place, u32)> {
    let header_len = u64::try_from(header_len(item.name.len())).ok()?;
    let data_len = u64::from(item.data.len());
    let mut body = u64::from(start).checked_add(header_len)?;
    if item.kind == NodeKind::File && data_len >= block {
        body = body.next_multiple_of(block);
    }
    let body_len = match item.kind {
        // The root's own header is its `.`, so only `..` follows.
        NodeKind::Directory if is_root => MIN_HEADER_LEN.into(),
        NodeKind::Directory => u64::from(MIN_HEADER_LEN).checked_mul(2)?,
        _ => data_len,
    };
    let end = body.checked_add(body_len)?;
    let end = end.next_multiple_of(ALIGNMENT.into());
    let place = Place {
        header: u32::try_from(body.checked_sub(header_len)?).ok()?,
        body: u32::try_from(body).ok()?,
    };
    Some((place, u32::try_from(end).ok()?))
}
