use std::{ops::Range, path::Path, sync::Arc};

use verimount_romfs::{Error as RomfsError, NodeKind, Romfs};
use verimount_source::ReadAt;
use verimount_tree::Error;

/// Calls `part` with the range of each file of an image, which may be damaged, and the file's path from
/// the root. Returns the reason if some files cannot be named.
///
/// There are no files if `content` is not an image, or too damaged to be recognised.
///
/// # Errors
/// The reason why no file can be named.
pub fn name_parts(
    content: Arc<dyn ReadAt>,
    mut part: impl FnMut(Range<u64>, &Path),
) -> Result<Option<Error>, Error> {
    let image = match Romfs::open_damaged(content) {
        Ok(image) => image,
        Err(RomfsError::NotRomfs | RomfsError::Source(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut lost = None;
    let lose = |error| {
        lost.get_or_insert(error);
    };
    let walked = image.walk_damaged::<RomfsError>(lose, |path, node| {
        // A header and its name end where the data begins; only files and links have any.
        let data = match node.kind {
            NodeKind::File | NodeKind::Symlink => node.data_offset,
            _ => u64::from(node.id) + 1,
        };
        part(node.id.into()..data + u64::from(node.size), path);
        Ok(())
    });
    Ok(walked.err().or(lost).map(Error::from))
}
