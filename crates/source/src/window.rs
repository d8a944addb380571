use std::{io, time::Duration};

use crate::{ReadAt, ReadError, Scratch, check_range};

/// A range of another source, as a source of its own.
#[derive(Debug, Clone)]
pub struct Window<S> {
    inner: S,
    start: u64,
    size: u64,
}

impl<S: ReadAt> Window<S> {
    /// The `size` bytes of `inner` from `start` on.
    ///
    /// # Errors
    /// [`ReadError::PastEnd`] if `inner` has fewer bytes.
    pub fn new(inner: S, start: u64, size: u64) -> Result<Self, ReadError> {
        match start.checked_add(size) {
            Some(end) if end <= inner.size() => Ok(Self { inner, start, size }),
            _ => Err(ReadError::PastEnd {
                offset: start,
                len: usize::try_from(size).unwrap_or(usize::MAX),
                size: inner.size(),
            }),
        }
    }

    /// The source behind the window.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Where the part of a range that is in the window is in the source: its offset and length.
    fn inside(&self, offset: u64, len: u64) -> (u64, u64) {
        let offset = offset.min(self.size);
        (self.start + offset, len.min(self.size - offset))
    }
}

impl<S: ReadAt> ReadAt for Window<S> {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        check_range(offset, buf.len(), self.size)?;
        self.inner.read_exact_at(buf, self.start + offset)
    }

    fn read_within(
        &self,
        buf: &mut [u8],
        offset: u64,
        patience: Duration,
    ) -> Result<(), ReadError> {
        check_range(offset, buf.len(), self.size)?;
        self.inner.read_within(buf, self.start + offset, patience)
    }

    fn read_borrowed<'s>(
        &self,
        scratch: &'s mut Scratch,
        offset: u64,
        len: usize,
    ) -> Result<&'s [u8], ReadError> {
        check_range(offset, len, self.size)?;
        self.inner.read_borrowed(scratch, self.start + offset, len)
    }

    fn will_need(&self, offset: u64, len: u64) {
        let (offset, len) = self.inside(offset, len);
        self.inner.will_need(offset, len);
    }

    fn will_reach(&self, offset: u64, len: u64) {
        let (offset, len) = self.inside(offset, len);
        self.inner.will_reach(offset, len);
    }

    fn distrust(&self, offset: u64, len: u64) -> bool {
        let (offset, len) = self.inside(offset, len);
        self.inner.distrust(offset, len)
    }

    fn copies(&self) -> u32 {
        self.inner.copies()
    }

    fn mend(&self, offset: u64, right: &[u8]) -> io::Result<()> {
        check_range(offset, right.len(), self.size).map_err(io::Error::other)?;
        self.inner.mend(self.start + offset, right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_shows_its_range_and_no_more() {
        let bytes: Vec<u8> = (0..100).collect();
        let window = Window::new(bytes.clone(), 10, 20).unwrap();
        let mut buf = [0; 20];
        window.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(buf, bytes[10..30]);
        assert!(matches!(
            window.read_exact_at(&mut buf, 1),
            Err(ReadError::PastEnd { .. })
        ));
        assert!(matches!(
            window.read_exact_at(&mut buf[..1], u64::MAX),
            Err(ReadError::PastEnd { .. })
        ));
        window.will_need(u64::MAX, u64::MAX);
    }

    #[test]
    fn a_window_must_fit() {
        assert!(Window::new(vec![0; 10], 5, 5).is_ok());
        assert!(Window::new(vec![0; 10], 5, 6).is_err());
        assert!(Window::new(vec![0; 10], u64::MAX, 2).is_err());
    }
}
