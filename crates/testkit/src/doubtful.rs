use std::{
    collections::BTreeSet,
    io,
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

use verimount_source::{Ask, Fetch, Given, Hint, ReadAt, ReadError, stream_in_pieces};
use verimount_sync::Mutex;

/// A source some of whose bytes are wrong: a copy, until it is distrusted, or for ever.
#[derive(Debug)]
pub struct Doubtful<S> {
    inner: S,
    wrong: Mutex<BTreeSet<u64>>,
    is_copy: bool,
    distrusted: AtomicUsize,
}

impl<S> Doubtful<S> {
    /// A copy of `inner` with wrong bytes at these offsets, each of which is right after it was distrusted.
    pub fn copy(inner: S, wrong: impl IntoIterator<Item = u64>) -> Self {
        Self {
            inner,
            wrong: Mutex::new(wrong.into_iter().collect()),
            is_copy: true,
            distrusted: AtomicUsize::new(0),
        }
    }

    /// `inner` with wrong bytes at these offsets, which stay wrong, although the source says that they may change.
    pub fn liar(inner: S, wrong: impl IntoIterator<Item = u64>) -> Self {
        Self {
            is_copy: false,
            ..Self::copy(inner, wrong)
        }
    }

    /// How often something was distrusted.
    pub fn distrusted(&self) -> usize {
        self.distrusted.load(SeqCst)
    }
}

impl<S: ReadAt> Fetch for Doubtful<S> {
    fn length(&self) -> u64 {
        self.inner.size()
    }

    fn fetch(&self, buf: &mut [u8], offset: u64, _: Ask<'_>) -> Result<Given, ReadError> {
        self.inner.read_exact_at(buf, offset)?;
        let wrong = self.wrong.lock();
        for at in wrong.range(offset..offset + buf.len() as u64) {
            buf[(at - offset) as usize] ^= 0x10;
        }
        Ok(Given::default())
    }

    fn stream(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        stream_in_pieces(self, range, take)
    }

    fn hint(&self, _: Range<u64>, _: Hint) {}

    fn distrust(&self, range: Range<u64>, _: &Given) -> u32 {
        self.distrusted.fetch_add(1, SeqCst);
        if self.is_copy {
            let mut wrong = self.wrong.lock();
            wrong.retain(|at| !range.contains(at));
        }
        1
    }

    fn mend(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
