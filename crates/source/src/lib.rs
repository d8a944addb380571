//! Positional input and output for every layer of Verimount.
//!
//! [`ReadAt`] is both what a layer consumes and what it offers, so layers stack: a file, the
//! verified view of that file, the image inside that view. [`WriteAt`] adds the writing side:
//! storage. [`Fetch`] is for bytes that nobody has checked, and whoever does says what is wrong. All methods take `&self`; any
//! number of threads may use one source at once.
//! [`GrowingFile`] is what a seal is appended to, and [`Sink`] what an image is written to.
//!
//! # A source of one's own
//!
//! Bytes that are not stored anywhere, each the last byte of its offset:
//!
//! ```
//! use verimount_source::{ReadAt, ReadError, Window, check_range};
//!
//! struct Pattern(u64);
//!
//! impl ReadAt for Pattern {
//!     fn size(&self) -> u64 {
//!         self.0
//!     }
//!
//!     fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
//!         check_range(offset, buf.len(), self.size())?;
//!         for (byte, at) in buf.iter_mut().zip(offset..) {
//!             *byte = at as u8;
//!         }
//!         Ok(())
//!     }
//! }
//!
//! let part = Window::new(Pattern(1 << 40), 1 << 30, 100)?;
//! let mut buf = [0; 3];
//! part.read_exact_at(&mut buf, 5)?;
//! assert_eq!(buf, [5, 6, 7]);
//! assert!(part.read_exact_at(&mut buf, 98).is_err());
//! # Ok::<_, ReadError>(())
//! ```

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod aligned;
mod announced;
mod chunk_cache;
mod counters;
mod counting;
mod error;
mod fetch;
mod file;
mod file_id;
mod file_range;
mod file_storage;
mod given;
mod granule;
mod growing_file;
mod in_order;
mod kept;
mod memory;
mod mendable_file;
mod output_file;
mod processors;
mod progress;
mod read_ahead;
mod read_at;
mod scratch;
mod sink;
mod streams;
mod window;
mod write_at;

pub use aligned::AlignedBuf;
pub use chunk_cache::ChunkCache;
pub use counting::{Counting, ReadCounts, WriteCounts};
pub use error::{ReadError, WriteError};
pub use fetch::{Ask, Fetch, Hint, Unchecked, stream_in_pieces};
pub use file::FileSource;
pub use file_id::FileId;
pub use file_range::FileRange;
pub use file_storage::FileStorage;
pub use given::{Given, Giver};
pub use granule::{GRANULE, granules, whole_granules};
pub use growing_file::GrowingFile;
pub use in_order::{in_order, in_order_with};
pub use kept::{Kept, keep};
pub use memory::MemoryStorage;
pub use mendable_file::MendableFile;
pub use output_file::{OutputFile, folder_of};
pub use processors::all_processors;
pub use progress::Progress;
pub use read_ahead::ReadAhead;
pub use read_at::{ReadAt, check_range};
pub use scratch::Scratch;
pub use sink::{Sink, SinkError};
pub use streams::{LARGEST_STEP, Streams};
pub use window::Window;
pub use write_at::WriteAt;
