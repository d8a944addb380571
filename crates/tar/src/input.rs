//! Reading an archive from front to back.

use verimount_source::ReadAt;

use crate::error::{Defect, Failure};

/// The unit of an archive in bytes.
pub(crate) const BLOCK: usize = 512;

/// A block of an archive.
pub(crate) type Block = [u8; BLOCK];

/// How much is read at once, in bytes: the headers of many small members.
const WINDOW: usize = 16 << 10;

/// The bytes of an archive from some place on.
pub(crate) struct Input<S> {
    source: S,
    at: u64,
    /// A part of the archive, which `at` is most often inside.
    window: Vec<u8>,
    window_at: u64,
}

impl<S: ReadAt> Input<S> {
    pub(crate) fn new(source: S) -> Self {
        Self {
            source,
            at: 0,
            window: Vec::new(),
            window_at: 0,
        }
    }

    /// Where the next byte is.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The next block; `None` at the end.
    pub(crate) fn block(&mut self) -> Result<Option<Block>, Failure> {
        if self.at == self.source.size() {
            return Ok(None);
        }
        let mut block = [0; BLOCK];
        self.fill(&mut block)?;
        Ok(Some(block))
    }

    /// The next `len` bytes, and skips the rest of their last block. `len` must have a limit.
    pub(crate) fn bytes(&mut self, len: usize) -> Result<Vec<u8>, Failure> {
        self.check(len_of(len))?;
        let mut bytes = vec![0; len];
        self.fill(&mut bytes)?;
        let rest = len.next_multiple_of(BLOCK).saturating_sub(len);
        self.skip(len_of(rest))?;
        Ok(bytes)
    }

    /// Skips `len` bytes.
    pub(crate) fn skip(&mut self, len: u64) -> Result<(), Failure> {
        self.at = self.check(len)?;
        Ok(())
    }

    /// The end of the next `len` bytes, which must be there.
    fn check(&self, len: u64) -> Result<u64, Failure> {
        let end = self.at.checked_add(len);
        let end = end.filter(|end| *end <= self.source.size());
        end.ok_or(Failure::Defect(Defect::Truncated))
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), Failure> {
        let end = self.check(len_of(buffer.len()))?;
        if buffer.len() > WINDOW {
            self.source.read_exact_at(buffer, self.at)?;
        } else {
            if self.in_window(buffer.len()).is_none() {
                self.load()?;
            }
            let bytes = self.in_window(buffer.len());
            buffer.copy_from_slice(bytes.ok_or(Defect::Truncated)?);
        }
        self.at = end;
        Ok(())
    }

    /// The next `len` bytes, if all of them are in the window.
    fn in_window(&self, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(self.at.checked_sub(self.window_at)?).ok()?;
        self.window.get(start..start.checked_add(len)?)
    }

    /// Moves the window to the next byte.
    fn load(&mut self) -> Result<(), Failure> {
        let left = self.source.size().saturating_sub(self.at);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(WINDOW);
        // Nothing is in it should the read fail.
        let mut window = std::mem::take(&mut self.window);
        window.resize(len, 0);
        self.source.read_exact_at(&mut window, self.at)?;
        self.window = window;
        self.window_at = self.at;
        Ok(())
    }
}

fn len_of(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
