//! What is checked while a file is sealed.

use std::{ops::ControlFlow, path::Path};

use verimount_models::Subject;
use verimount_scan::EntryId;
use verimount_source::{ReadAt, ReadError};

use super::{
    ModelSignature,
    hashers::{Feed, Hashers},
    in_order::InOrder,
};
use crate::{Error, build_fault::BuildFault, fault::ContentFault};

/// A file whose bytes are hashed when they are read.
struct Tapped<'a, S> {
    source: &'a S,
    feed: Feed,
}

impl<S: ReadAt> ReadAt for Tapped<'_, S> {
    fn size(&self) -> u64 {
        self.source.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.source.read_exact_at(buf, offset)?;
        self.feed.add(0, offset, buf);
        Ok(())
    }
}

/// Has `seal` read all of a file once, and compares it with what is signed.
pub(crate) fn seal_checked<T>(
    file: &Path,
    source: &impl ReadAt,
    signature: &ModelSignature,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    seal: impl FnOnce(&dyn ReadAt, &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<T, Error>,
) -> Result<T, Error> {
    let Subject::File(expected) = signature.manifest.subject() else {
        return Err(BuildFault::SignedDirectory.at(&*signature.path));
    };
    let mut content = InOrder::new(source.size(), None);
    content.expect(EntryId::ROOT, expected);
    let hashers = Hashers::start(vec![content]).map_err(|error| ContentFault::io(file, error))?;
    let tapped = Tapped {
        source,
        feed: hashers.feed(),
    };
    let sealed = hashers.watch(file, progress, |progress| seal(&tapped, progress))?;
    sealed.map_err(|difference| BuildFault::Differs(difference.differs).at(file))
}
