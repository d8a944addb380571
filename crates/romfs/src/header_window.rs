//! Reading adjacent headers of a chain together.

use verimount_source::ReadAt;

use crate::{
    NodeId, Romfs,
    geometry::{MAX_HEADER_LEN, to_usize},
    header::Header,
};

/// The maximum length of a read, in bytes.
const MAX_LEN: usize = 64 << 10;

/// A window grows only if it had at least one header for so many bytes: an image could have each of its headers at the end of a
/// window, and many times its own size would be read.
const DENSITY: usize = 1024;

/// A part of an image that begins with a header. It grows as long as headers are adjacent.
#[derive(Default)]
pub(crate) struct HeaderWindow {
    start: u32,
    bytes: Vec<u8>,
    /// How many headers were found in it.
    headers: usize,
}

impl HeaderWindow {
    /// The header of `id`; `None` if it cannot be read this way, so that a separate read reports
    /// why.
    pub(crate) fn header<S: ReadAt>(&mut self, image: &Romfs<S>, id: NodeId) -> Option<Header> {
        let inside = self.offset(id).and_then(|at| self.parse(id, at));
        inside.or_else(|| {
            self.load(image, id)?;
            self.parse(id, 0)
        })
    }

    /// The position of `id` in the window or at its end; `None` outside.
    fn offset(&self, id: NodeId) -> Option<usize> {
        let offset = to_usize(id.get().checked_sub(self.start)?);
        (offset <= self.bytes.len()).then_some(offset)
    }

    fn parse(&mut self, id: NodeId, at: usize) -> Option<Header> {
        let header = Header::parse(id, self.bytes.get(at..)?).ok()?;
        self.headers = self.headers.saturating_add(1);
        Some(header)
    }

    /// Reads a window that begins with the header of `id`: twice as long as before if the header is
    /// in or right after the last window, else only one header.
    fn load<S: ReadAt>(&mut self, image: &Romfs<S>, id: NodeId) -> Option<()> {
        let len = match self.offset(id) {
            Some(_) if self.bytes.len() <= self.headers.saturating_mul(DENSITY) => {
                self.bytes.len().saturating_mul(2).min(MAX_LEN)
            }
            _ => MAX_HEADER_LEN,
        };
        let available = image.size().checked_sub(id.get());
        let available = to_usize(available.filter(|_| id >= image.root())?);
        self.start = id.get();
        self.headers = 0;
        self.bytes.resize(len.max(MAX_HEADER_LEN).min(available), 0);
        let read = image.source.read_exact_at(&mut self.bytes, id.into());
        if read.is_err() {
            self.bytes.clear();
        }
        read.ok()
    }
}

const _: () = assert!(MAX_HEADER_LEN < MAX_LEN);
