use std::{
    io,
    ops::{Deref, Range},
    time::Duration,
};

use crate::{ReadAt, ReadError, Scratch, check_range, given::Given};

/// The most bytes in a piece of a stream.
const STREAMED: usize = 1 << 20;

/// Bytes that nobody has checked: at a server, in a cache, in one of several places, in a file. Whoever verifies them says what
/// is [wrong](Self::distrust) and what is [right](Self::mend).
///
/// What is [read](ReadAt) on this machine can be fetched as well. A source that can do more implements this, and not [`ReadAt`].
/// All methods are required, so that a source that stands for another one hands everything on.
pub trait Fetch: Send + Sync {
    /// The number of bytes, fixed when the source was opened.
    fn length(&self) -> u64;

    /// Fills `buf` with the bytes from `offset` on. Returns who gave them.
    ///
    /// # Errors
    /// Any [`ReadError`]; the contents of `buf` are then unspecified and must not be used.
    fn fetch(&self, buf: &mut [u8], offset: u64, ask: Ask<'_>) -> Result<Given, ReadError>;

    /// Gives the bytes of a range to `take`, in order and in pieces. Nothing of it will be fetched again, nor anything near it:
    /// a server is asked for no other bytes, and nothing is kept.
    ///
    /// # Errors
    /// As [`Self::fetch`]. Some pieces may have been given before.
    fn stream(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), ReadError>;

    /// Says that a range will be needed. Returns without waiting. A source that can start the I/O early does so; in this way,
    /// fetches of several ranges overlap. Ranges outside the source and failures are ignored.
    fn hint(&self, range: Range<u64>, hint: Hint);

    /// Says that bytes in `range` are wrong, which were `given` there. Returns how many further fetches may give others, at most;
    /// 0 if none.
    ///
    /// A source that keeps copies drops those of this range.
    fn distrust(&self, range: Range<u64>, given: &Given) -> u32;

    /// Says that these are the right bytes from `offset` on, as was verified. A source that may change what it stores replaces what
    /// is wrong there, durably, now or soon.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] of a source that cannot be changed, and those of writing. What is stored is then as right or
    /// wrong as before, or mixed with what is right.
    fn mend(&self, right: &[u8], offset: u64) -> io::Result<()>;
}

/// How bytes are asked for. By default, as long as it takes, and for the first time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ask<'a> {
    /// For somebody who can ask elsewhere: a source that gets its bytes from another machine fails as soon as it has trouble, or
    /// nothing has come for this long. It goes on getting them: another fetch may find them there.
    pub patience: Option<Duration>,
    /// What was given just before, some of which was wrong.
    pub after: Option<&'a Given>,
    /// Not from what a cache keeps: that may be what others gave.
    pub past_caches: bool,
}

impl<'a> Ask<'a> {
    /// Asks after this was given, some of which was wrong.
    pub fn after(given: &'a Given) -> Self {
        Self {
            after: Some(given),
            ..Self::default()
        }
    }

    /// Asks for somebody with this patience, if it is not unlimited.
    pub fn within(patience: Option<Duration>) -> Self {
        Self {
            patience,
            ..Self::default()
        }
    }

    /// Asks for it not from what a cache keeps.
    #[must_use]
    pub fn past_caches(self) -> Self {
        Self {
            past_caches: true,
            ..self
        }
    }
}

/// How a range will be needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// All of it, soon.
    Need,
    /// All of it, soon, and nothing around it: a source that fetches in larger units asks for these bytes only.
    Alone,
    /// A sequential reader will read on over it, perhaps not to the end. [`ReadAhead`](crate::ReadAhead) decides what is announced
    /// so.
    Reach,
}

/// A pointer to a source, for who reads its bytes as they are.
#[derive(Clone, Copy)]
pub struct Unchecked<P>(pub P);

impl<P: Deref<Target: Fetch> + Send + Sync> ReadAt for Unchecked<P> {
    fn size(&self) -> u64 {
        self.0.length()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        self.0.fetch(buf, offset, Ask::default()).map(drop)
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.0.hint(offset..offset.saturating_add(len), Hint::Need);
    }

    fn will_reach(&self, offset: u64, len: u64) {
        self.0.hint(offset..offset.saturating_add(len), Hint::Reach);
    }
}

/// There is one copy, nearby, and nobody else to ask.
impl<S: ReadAt> Fetch for S {
    fn length(&self) -> u64 {
        self.size()
    }

    fn fetch(&self, buf: &mut [u8], offset: u64, _: Ask<'_>) -> Result<Given, ReadError> {
        self.read_exact_at(buf, offset)?;
        Ok(Given::default())
    }

    fn stream(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        // It reads no more than is asked for.
        pieces_of(self, range, take, |_| {})
    }

    fn hint(&self, range: Range<u64>, hint: Hint) {
        let len = range.end.saturating_sub(range.start);
        match hint {
            Hint::Need | Hint::Alone => self.will_need(range.start, len),
            Hint::Reach => self.will_reach(range.start, len),
        }
    }

    fn distrust(&self, _: Range<u64>, _: &Given) -> u32 {
        0
    }

    fn mend(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// [Streams](Fetch::stream) from a source that can only fetch pieces, and stands for others, which may fetch in larger units.
///
/// # Errors
/// As [`Fetch::stream`].
pub fn stream_in_pieces(
    source: &dyn Fetch,
    range: Range<u64>,
    take: &mut dyn FnMut(&[u8]),
) -> Result<(), ReadError> {
    let announce = |piece| source.hint(piece, Hint::Alone);
    pieces_of(source, range, take, announce)
}

fn pieces_of(
    source: &dyn Fetch,
    range: Range<u64>,
    take: &mut dyn FnMut(&[u8]),
    announce: impl Fn(Range<u64>),
) -> Result<(), ReadError> {
    let mut scratch = Scratch::default();
    for start in range.clone().step_by(STREAMED) {
        let len = (range.end - start).min(STREAMED as u64) as usize;
        // Checked before the buffer grows, so that an absurd length costs nothing.
        check_range(start, len, source.length())?;
        let buf = scratch.grown(len);
        announce(start..start + len as u64);
        source.fetch(buf, start, Ask::default())?;
        take(buf);
    }
    Ok(())
}
