use std::{
    io::{self, Write},
    ops::ControlFlow,
};

use verimount_source::{Progress, Scratch};
use verimount_tree::{Error as TreeError, NodeId, Tree};

/// How much is read, verified and written at a time.
const CHUNK: usize = 1 << 20;

/// Why a file was not copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] TreeError),
    /// It was cancelled through its progress callback.
    #[error("interrupted")]
    Cancelled,
    /// The copy could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Writes the content of a file of a tree to `out`.
///
/// # Errors
/// [`CopyError::Read`] and [`CopyError::Write`].
pub fn copy_content(tree: &dyn Tree, file: NodeId, out: &mut impl Write) -> Result<(), CopyError> {
    copy_watched(tree, file, out, &mut |_| ControlFlow::Continue(()))
}

/// The same. `progress` gets the number of bytes copied since the last call, and can cancel.
///
/// # Errors
/// Any [`CopyError`].
pub(crate) fn copy_watched(
    tree: &dyn Tree,
    file: NodeId,
    out: &mut impl Write,
    progress: &mut Progress<'_>,
) -> Result<(), CopyError> {
    let mut scratch = Scratch::default();
    let mut offset = 0;
    loop {
        let bytes = tree.read(file, offset, CHUNK, &mut scratch)?;
        if bytes.is_empty() {
            return Ok(());
        }
        out.write_all(bytes)?;
        let len = bytes.len() as u64;
        if progress(len).is_break() {
            return Err(CopyError::Cancelled);
        }
        offset += len;
    }
}
