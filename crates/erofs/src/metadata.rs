//! Reads metadata in windows, and keeps the most recently used ones.

use std::{ops::Deref, ops::Range, sync::Arc};

use quick_cache::sync::Cache;
use verimount_source::AlignedBuf;

use crate::{
    Error,
    block_size::BlockSize,
    error::Defect,
    numbers::{to_u64, to_usize},
    space::{Address, Space},
};

/// The least size of a window in bytes. Inodes of one directory are near each other: a window has some hundred.
pub(crate) const MIN_WINDOW: u64 = 16 << 10;

/// How many bytes of metadata are kept.
const KEPT_BYTES: u64 = 32 << 20;

/// The windows that were used last.
pub(crate) struct Metadata {
    window: u64,
    kept: Cache<(Space, u64), Arc<AlignedBuf>>,
}

impl Metadata {
    /// Nothing yet, of an image with blocks of this size. No block is in two windows.
    pub(crate) fn new(block_size: BlockSize) -> Self {
        let window = block_size.bytes().max(MIN_WINDOW);
        let count = KEPT_BYTES.checked_div(window).unwrap_or_default();
        Self {
            window,
            kept: Cache::new(to_usize(count)),
        }
    }

    /// Keeps the beginning of an image of `size` bytes, if it is a whole window.
    pub(crate) fn keep_beginning(&self, beginning: AlignedBuf, size: u64) {
        if to_u64(beginning.as_slice().len()) == self.window.min(size) {
            self.kept.insert((Space::Image, 0), Arc::new(beginning));
        }
    }

    /// The `len` bytes at `address`, in a space of `size` bytes that `load` reads. A structure that crosses the end of
    /// a window is copied; `len` is limited by the caller.
    pub(crate) fn bytes(
        &self,
        address: Address,
        len: usize,
        size: u64,
        load: impl Fn(u64, &mut [u8]) -> Result<(), Error>,
    ) -> Result<Bytes, Error> {
        let end = address.at.checked_add(to_u64(len));
        if end.is_none_or(|end| end > size) {
            return Err(Defect::Range.at(address).into());
        }
        match self.bytes_in_windows(address, len, size, &load) {
            // Perhaps other bytes of the window are unreadable.
            Err(Error::Source(_)) => {
                let mut buf = AlignedBuf::default();
                load(address.at, buf.grown(len))?;
                Ok(Bytes::all(buf, len))
            }
            read => read,
        }
    }

    fn bytes_in_windows(
        &self,
        address: Address,
        len: usize,
        size: u64,
        load: &impl Fn(u64, &mut [u8]) -> Result<(), Error>,
    ) -> Result<Bytes, Error> {
        let window = |at: u64| {
            let number = at.checked_div(self.window).unwrap_or_default();
            let start = number.saturating_mul(self.window);
            let bytes = self.kept.get_or_insert_with(&(address.space, number), || {
                let mut buf = AlignedBuf::default();
                let len = to_usize(self.window.min(size.saturating_sub(start)));
                load(start, buf.grown(len))?;
                Ok::<_, Error>(Arc::new(buf))
            })?;
            Ok::<_, Error>((bytes, to_usize(at.saturating_sub(start))))
        };
        let (bytes, start) = window(address.at)?;
        let end = start.saturating_add(len);
        if end <= bytes.as_slice().len() {
            let range = start..end;
            return Ok(Bytes { bytes, range });
        }
        let mut copy = AlignedBuf::default();
        let mut rest = copy.grown(len);
        let mut at = address.at;
        while !rest.is_empty() {
            let (bytes, start) = window(at)?;
            let part = bytes.as_slice().get(start..).unwrap_or_default();
            let part_len = part.len().min(rest.len());
            let (to, behind) = rest.split_at_mut(part_len);
            to.copy_from_slice(part.get(..part_len).unwrap_or_default());
            at = at.saturating_add(to_u64(part_len));
            rest = behind;
        }
        Ok(Bytes::all(copy, len))
    }
}

/// A part of a window.
#[derive(Debug, Clone)]
pub(crate) struct Bytes {
    bytes: Arc<AlignedBuf>,
    /// Inside `bytes`.
    range: Range<usize>,
}

impl Bytes {
    /// The first `len` bytes of a buffer.
    fn all(buf: AlignedBuf, len: usize) -> Self {
        Self {
            bytes: Arc::new(buf),
            range: 0..len,
        }
    }

    /// The window, and where in it the part is.
    pub(crate) fn into_parts(self) -> (Arc<AlignedBuf>, Range<usize>) {
        (self.bytes, self.range)
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
            .as_slice()
            .get(self.range.clone())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use verimount_source::ReadError;

    use super::*;

    #[test]
    fn windows_are_loaded_once_and_structures_may_cross_them() {
        let metadata = Metadata::new(BlockSize::from_bits(9).unwrap());
        let size = 5 * MIN_WINDOW / 2;
        let loads = Cell::new(0);
        let load = |start: u64, buf: &mut [u8]| {
            loads.set(loads.get() + 1);
            for (byte, at) in buf.iter_mut().zip(start..) {
                *byte = (at / 100) as u8;
            }
            Ok(())
        };
        let get = |at, len| metadata.bytes(Address::in_image(at), len, size, load);
        for (at, len, loads_so_far) in [
            (0, 100, 1),
            (MIN_WINDOW - 7, 7, 1),
            (MIN_WINDOW - 7, 14, 2),
            (size - 1, 1, 3),
            (0, size as usize, 3),
            (size, 0, 3),
        ] {
            let found = get(at, len).unwrap();
            let expected: Vec<u8> = (at..).take(len).map(|at| (at / 100) as u8).collect();
            assert_eq!(*found, *expected);
            assert_eq!(loads.get(), loads_so_far);
        }
        for (at, len) in [(size, 1), (size - 1, 2), (u64::MAX, 1), (0, usize::MAX)] {
            assert!(matches!(get(at, len), Err(Error::Corrupt(_))));
        }
    }

    #[test]
    fn damage_hides_only_what_it_is_in() {
        let metadata = Metadata::new(BlockSize::from_bits(9).unwrap());
        let bad = 4096..8192;
        let load = |start: u64, buf: &mut [u8]| {
            if start < bad.end && bad.start < start + buf.len() as u64 {
                return Err(ReadError::Rejected("as a test".into()).into());
            }
            buf.fill(1);
            Ok(())
        };
        let get = |at, len| metadata.bytes(Address::in_image(at), len, 2 * MIN_WINDOW, load);
        for (at, len) in [(0, 4096), (8192, 1), (8192, MIN_WINDOW as usize)] {
            assert_eq!(*get(at, len).unwrap(), *vec![1; len]);
        }
        for (at, len) in [(0, 4097), (5000, 1), (8191, 2)] {
            assert!(matches!(get(at, len), Err(Error::Source(_))), "{at}");
        }
    }
}
