use std::io::{self, Write};

use verimount_source::Scratch;
use verimount_tree::{Error as TreeError, NodeId, Tree};

/// How much is read, verified and written at a time.
pub(crate) const CHUNK: usize = 1 << 20;

/// Why a file was not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] TreeError),
    /// The copy could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Writes the content of a file of a tree to `out`.
///
/// # Errors
/// [`CopyError::Read`] and [`CopyError::Write`].
pub fn copy_content(tree: &dyn Tree, file: NodeId, out: &mut impl Write) -> Result<(), CopyError> {
    let mut scratch = Scratch::default();
    let mut offset = 0;
    loop {
        let bytes = tree.read(file, offset, CHUNK, &mut scratch)?;
        if bytes.is_empty() {
            return Ok(());
        }
        out.write_all(bytes)?;
        offset += bytes.len() as u64;
    }
}
