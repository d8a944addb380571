//! Positional input for every layer of Verimount.
//!
//! [`ReadAt`] is both what a layer consumes and what it offers, so layers stack: a file, the
//! verified view of that file, the image inside that view. All methods take `&self`; any number of
//! threads may read one source at once.

mod aligned;
mod counting;
mod error;
mod file;
mod memory;
mod read_ahead;
mod read_at;
mod scratch;
mod streams;
mod window;

pub use aligned::AlignedBuf;
pub use counting::{Counting, ReadCounts};
pub use error::ReadError;
pub use file::FileSource;
pub use read_ahead::ReadAhead;
pub use read_at::{ReadAt, check_range};
pub use scratch::Scratch;
pub use streams::Streams;
pub use window::Window;
