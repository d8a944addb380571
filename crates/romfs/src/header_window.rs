//! Reading the headers of a chain together where they follow one another.

use verimount_source::ReadAt;

use crate::{
    NodeId, Romfs,
    geometry::{MAX_HEADER_LEN, to_usize},
    header::Header,
};

/// The most that is read at once, in bytes.
const MAX_LEN: usize = 64 << 10;

/// A part of an image that begins with a header, and as much behind it as the headers before gave
/// hope for.
#[derive(Default)]
pub(crate) struct HeaderWindow {
    start: u32,
    bytes: Vec<u8>,
}

impl HeaderWindow {
    /// The header of `id`; `None` if it cannot be had this way, for a read of its own to say why.
    pub(crate) fn header<S: ReadAt>(&mut self, image: &Romfs<S>, id: NodeId) -> Option<Header> {
        let inside = self.offset(id).and_then(|at| self.parse(id, at));
        inside.or_else(|| {
            self.load(image, id)?;
            self.parse(id, 0)
        })
    }

    /// Where `id` is in the window; at most, at its end.
    fn offset(&self, id: NodeId) -> Option<usize> {
        let offset = to_usize(id.get().checked_sub(self.start)?);
        (offset <= self.bytes.len()).then_some(offset)
    }

    fn parse(&self, id: NodeId, at: usize) -> Option<Header> {
        Header::parse(id, self.bytes.get(at..)?).ok()
    }

    /// Reads what begins with the header of `id`: twice as much as before if this header follows
    /// the ones that were read, else no more than one header.
    fn load<S: ReadAt>(&mut self, image: &Romfs<S>, id: NodeId) -> Option<()> {
        let len = match self.offset(id) {
            Some(_) => self.bytes.len().saturating_mul(2).min(MAX_LEN),
            None => MAX_HEADER_LEN,
        };
        let available = image.size().checked_sub(id.get());
        let available = to_usize(available.filter(|_| id >= image.root())?);
        self.start = id.get();
        self.bytes.resize(len.max(MAX_HEADER_LEN).min(available), 0);
        let read = image.source.read_exact_at(&mut self.bytes, id.into());
        if read.is_err() {
            self.bytes.clear();
        }
        read.ok()
    }
}

const _: () = assert!(MAX_HEADER_LEN < MAX_LEN);
