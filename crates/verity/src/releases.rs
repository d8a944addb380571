use std::{fmt::Debug, sync::Arc};

use verimount_source::ReadError;

use crate::Mismatch;

/// Who can tell blocks of another release of a file, which has taken its place, from damaged and forged ones.
///
/// It is asked about blocks that do not match only. Nothing that it says makes a read succeed.
pub trait Releases: Debug + Send + Sync {
    /// Why a read fails, in the place of a mismatch, if all of these blocks are those of another release. It may take as long
    /// as reads.
    fn failure(&self, wrong: &[Mismatch]) -> Option<ReadError>;

    /// These blocks do not match, and another copy of them is read, which may. It does not wait.
    fn suspect(self: Arc<Self>, wrong: Vec<Mismatch>);
}

/// The error of a read of blocks of which at least one, which is first, does not match.
pub(crate) fn failure(releases: Option<&Arc<dyn Releases>>, wrong: Vec<Mismatch>) -> ReadError {
    let known = releases.and_then(|releases| releases.failure(&wrong));
    known.unwrap_or_else(|| {
        let first = wrong.into_iter().next().expect("a block does not match");
        ReadError::Rejected(Box::new(first))
    })
}

/// Tells of blocks that do not match, of which another copy is read.
pub(crate) fn suspect(releases: Option<&Arc<dyn Releases>>, wrong: Vec<Mismatch>) {
    if let Some(releases) = releases {
        releases.clone().suspect(wrong);
    }
}
