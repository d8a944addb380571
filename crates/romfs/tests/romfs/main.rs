//! Tests the reader and the writer against simple models, a second decoder, and hostile images.

mod crafted;
mod damaged;
mod exchanged;
mod generate;
mod golden;
mod index;
mod large_directories;
mod layout;
mod losses;
mod model;
mod mutated;
mod refusals;
mod romfs_tree;
mod round_trip;
mod work;

use verimount_testkit::plain_tree::{create, one_of_everything};

/// The image of [`one_of_everything`].
fn image_of_everything() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path(), one_of_everything().iter());
    model::build(folder.path(), 1024)
}
