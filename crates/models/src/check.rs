use std::{fmt, ops::Range};

use crate::{
    Expected,
    digest::{Digest, Hasher},
};

/// Compares the content of a file with what it must be, while it is read from front to back.
///
/// ```
/// use verimount_models::{Check, Expected};
///
/// let expected = Expected::of_blob("ce013625030ba8dba906f756967f9e9ca394464a").unwrap();
/// let mut check = Check::new(expected, 6);
/// check.update(b"hel");
/// check.update(b"lo\n");
/// assert!(check.finish().is_ok());
/// ```
pub struct Check {
    expected: Expected,
    /// The size of the content in bytes.
    size: u64,
    /// How many bytes came.
    at: u64,
    /// How many parts are complete, where the present one begins, and its digest.
    parts: usize,
    start: u64,
    hasher: Option<Hasher>,
    /// The first part that differs.
    differs: Option<Differs>,
}

/// The content of a file is not what it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differs(Difference);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Difference {
    Size {
        found: u64,
        expected: u64,
    },
    Digest {
        /// The bytes, if that is not all of the file.
        part: Option<Range<u64>>,
        found: Digest,
        expected: Digest,
    },
}

impl Check {
    /// For a file of `size` bytes.
    pub fn new(expected: Expected, size: u64) -> Self {
        let mut check = Self {
            expected,
            size,
            at: 0,
            parts: 0,
            start: 0,
            hasher: None,
            differs: None,
        };
        check.begin_part();
        check
    }

    /// Adds the bytes that follow.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while let (Some(hasher), false) = (&mut self.hasher, bytes.is_empty()) {
            let end = self
                .expected
                .part(self.parts, self.size)
                .map_or(0, |(end, _)| end);
            let left = usize::try_from(end.saturating_sub(self.at)).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(left.min(bytes.len()));
            hasher.update(now);
            self.count(now);
            bytes = later;
            if self.at == end {
                self.end_part();
            }
        }
        // Those behind what is expected.
        self.count(bytes);
    }

    /// Ends the check.
    ///
    /// # Errors
    /// [`Differs`] if the bytes, or their number, are not what they must be.
    pub fn finish(mut self) -> Result<(), Differs> {
        let expected = self.expected.size().unwrap_or(self.size);
        if self.at != expected {
            let found = self.at;
            return Err(Differs(Difference::Size { found, expected }));
        }
        // The only part of an empty file.
        self.end_part();
        self.differs.map_or(Ok(()), Err)
    }

    fn count(&mut self, bytes: &[u8]) {
        // A slice has fewer than 2⁶⁴ bytes.
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.at = self.at.saturating_add(len);
    }

    fn begin_part(&mut self) {
        let part = self.expected.part(self.parts, self.size);
        self.hasher = part.map(|(_, digest)| Hasher::new(digest.algorithm(), self.size));
        self.start = self.at;
    }

    fn end_part(&mut self) {
        let part = self.expected.part(self.parts, self.size);
        let (Some(hasher), Some((_, expected))) = (self.hasher.take(), part) else {
            return;
        };
        let found = hasher.finish();
        if found != *expected && self.differs.is_none() {
            let is_part = self.expected.size().is_some();
            self.differs = Some(Differs(Difference::Digest {
                part: is_part.then_some(self.start..self.at),
                found,
                expected: expected.clone(),
            }));
        }
        self.parts = self.parts.saturating_add(1);
        self.begin_part();
    }
}

impl fmt::Display for Differs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Difference::Size { found, expected } => {
                write!(f, "it has {found} bytes instead of {expected}")
            }
            Difference::Digest {
                part,
                found,
                expected,
            } => {
                match part {
                    Some(Range { start, end }) => write!(f, "its bytes {start} to {end} have ")?,
                    None => f.write_str("it has ")?,
                }
                write!(f, "{found} instead of {expected}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{digest::Algorithm, expected::Shard};

    const CONTENT: &[u8] = b"0123456789";

    fn digest(bytes: &[u8]) -> Digest {
        let mut hasher = Hasher::new(Algorithm::Sha256, 0);
        hasher.update(bytes);
        hasher.finish()
    }

    fn shards(ends: &[usize]) -> Expected {
        let mut start = 0;
        let shards = ends.iter().map(|&end| {
            let shard = Shard {
                end: end as u64,
                digest: digest(&CONTENT[start..end]),
            };
            let from = start as u64;
            start = end;
            (from, shard)
        });
        Expected::shards(shards.collect()).unwrap()
    }

    fn check(expected: &Expected, content: &[u8], step: usize) -> Result<(), Differs> {
        let mut check = Check::new(expected.clone(), content.len() as u64);
        content.chunks(step).for_each(|piece| check.update(piece));
        check.finish()
    }

    #[test]
    fn content_may_come_in_any_pieces() {
        let empty = Expected::whole(digest(b""));
        assert_eq!(check(&empty, b"", 1), Ok(()));
        assert!(check(&empty, b"x", 1).is_err());
        for expected in [
            Expected::whole(digest(CONTENT)),
            shards(&[10]),
            shards(&[3, 4, 10]),
        ] {
            for step in 1..12 {
                assert_eq!(check(&expected, CONTENT, step), Ok(()));
                for wrong in [
                    &CONTENT[..9],
                    b"0123456780",
                    b"x123456789",
                    b"0123456789x",
                    b"",
                ] {
                    assert!(check(&expected, wrong, step).is_err(), "{wrong:?}");
                }
            }
        }
    }

    #[test]
    fn the_first_part_that_differs_is_named() {
        let differs = check(&shards(&[3, 6, 10]), b"012x45678x", 4).unwrap_err();
        let text = differs.to_string();
        assert!(text.starts_with("its bytes 3 to 6 have sha256:"), "{text}");
        let differs = check(&shards(&[3, 6]), CONTENT, 4).unwrap_err();
        assert_eq!(differs.to_string(), "it has 10 bytes instead of 6");
    }

    #[test]
    fn too_few_bytes_are_not_enough() {
        let mut check = Check::new(Expected::whole(digest(CONTENT)), 10);
        check.update(&CONTENT[..9]);
        assert!(check.finish().is_err());
    }
}
