//! Tests the reader with committed images, with crafted and with damaged ones, and the writer with the reader.

mod attributes;
mod committed;
mod compression;
mod craft;
mod hints;
mod hostile;
mod large_directories;
mod mutated;
mod numbers;
mod places;
mod releases;
mod source;
mod work;
mod writer;

use std::sync::Arc;

use verimount_erofs::ErofsTree;
use verimount_source::ReadAt;
use verimount_verity::Checked;

/// The tree in an image.
fn open(image: impl ReadAt + 'static) -> Result<ErofsTree, verimount_erofs::Error> {
    ErofsTree::open(Checked::unverified(Arc::new(image)), Vec::new())
}
