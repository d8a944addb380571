//! Compressed contents.
//!
//! How long compressed contents are is known only when they have been made. So contents are written first
//! ([`contents`]), behind the room for the metadata, whose size is known: the length of an [`index`] depends on the
//! size of its file alone. The indexes go to their places in that room, and all else there follows.
//!
//! Contents are cut into pieces ([`batches`]) that are packed by themselves ([`piece`]), in several threads. So
//! the number of threads does not change a byte.

mod batches;
mod codec;
mod contents;
pub(super) mod index;
mod options;
mod parameters;
mod piece;

pub use self::options::{
    ClusterSize, Codec, Compression, InvalidClusterSize, InvalidCodec, Level, Lz4Level, ZstdLevel,
};
pub(super) use self::{contents::write, parameters::parameters};
