//! Positional input and output for every layer of Verimount.
//!
//! [`ReadAt`] is both what a layer consumes and what it offers, so layers stack: a file, the
//! verified view of that file, the image inside that view. [`WriteAt`] adds the writing side:
//! storage. All methods take `&self`; any number of threads may use one source at once.
//! [`GrowingFile`] is what a seal is appended to.

mod aligned;
mod counting;
mod error;
mod file;
mod file_storage;
mod growing_file;
mod in_order;
mod memory;
mod read_ahead;
mod read_at;
mod scratch;
mod streams;
mod window;
mod write_at;

pub use aligned::AlignedBuf;
pub use counting::{Counting, ReadCounts, WriteCounts};
pub use error::{ReadError, WriteError};
pub use file::FileSource;
pub use file_storage::FileStorage;
pub use growing_file::GrowingFile;
pub use in_order::in_order;
pub use memory::MemoryStorage;
pub use read_ahead::ReadAhead;
pub use read_at::{ReadAt, check_range};
pub use scratch::Scratch;
pub use streams::Streams;
pub use window::Window;
pub use write_at::WriteAt;
