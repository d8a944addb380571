use std::{io, ops::Range, sync::Arc};

use crate::{Ask, Fetch, Given, Hint, ReadAt, ReadError, Scratch, check_range};

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
        let of = inner.size();
        Self::within(inner, start, size, of)
    }
}

impl Window<Arc<dyn Fetch>> {
    /// The `size` bytes of `inner` from `start` on, which are fetched. Who gave what of them is told as `inner` does, by offsets
    /// there.
    ///
    /// # Errors
    /// [`ReadError::PastEnd`] if `inner` has fewer bytes.
    pub fn fetched(inner: Arc<dyn Fetch>, start: u64, size: u64) -> Result<Self, ReadError> {
        let of = inner.length();
        Self::within(inner, start, size, of)
    }
}

impl<S> Window<S> {
    fn within(inner: S, start: u64, size: u64, of: u64) -> Result<Self, ReadError> {
        match start.checked_add(size) {
            Some(end) if end <= of => Ok(Self { inner, start, size }),
            _ => Err(ReadError::PastEnd {
                offset: start,
                len: usize::try_from(size).unwrap_or(usize::MAX),
                size: of,
            }),
        }
    }

    /// The source behind the window.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Where the part of a range that is in the window is in the source.
    fn inside(&self, range: &Range<u64>) -> Range<u64> {
        self.start + range.start.min(self.size)..self.start + range.end.min(self.size)
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
        let range = self.inside(&(offset..offset.saturating_add(len)));
        self.inner.will_need(range.start, range.end - range.start);
    }

    fn will_reach(&self, offset: u64, len: u64) {
        let range = self.inside(&(offset..offset.saturating_add(len)));
        self.inner.will_reach(range.start, range.end - range.start);
    }
}

impl Fetch for Window<Arc<dyn Fetch>> {
    fn length(&self) -> u64 {
        self.size
    }

    fn fetch(&self, buf: &mut [u8], offset: u64, ask: Ask<'_>) -> Result<Given, ReadError> {
        check_range(offset, buf.len(), self.size)?;
        self.inner.fetch(buf, self.start + offset, ask)
    }

    fn stream(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        check_range(range.start, len, self.size)?;
        let range = self.start + range.start..self.start + range.end;
        self.inner.stream(range, take)
    }

    fn hint(&self, range: Range<u64>, hint: Hint) {
        self.inner.hint(self.inside(&range), hint);
    }

    fn distrust(&self, range: Range<u64>, given: &Given) -> u32 {
        self.inner.distrust(self.inside(&range), given)
    }

    fn mend(&self, right: &[u8], offset: u64) -> io::Result<()> {
        check_range(offset, right.len(), self.size).map_err(io::Error::other)?;
        self.inner.mend(right, self.start + offset)
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
