use std::{fmt, str::FromStr};

use thiserror::Error;

/// A range of lengths, whose end is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SizeRange {
    /// In bytes.
    from: u64,
    /// In bytes; `None` for no upper bound.
    to: Option<u64>,
}

/// A text is not a range of lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "not a range of sizes: allowed are \"FROM..TO\", \"FROM..\" and \"..TO\", with bytes or K, M, G \
     or T (powers of 1024), and TO larger than FROM"
)]
pub(super) struct InvalidRange;

impl SizeRange {
    pub(super) fn contains(self, size: u64) -> bool {
        size >= self.from && self.to.is_none_or(|to| size < to)
    }
}

impl FromStr for SizeRange {
    type Err = InvalidRange;

    fn from_str(text: &str) -> Result<Self, InvalidRange> {
        let (from, to) = text.split_once("..").ok_or(InvalidRange)?;
        let range = Self {
            from: bound(from)?.unwrap_or(0),
            to: bound(to)?,
        };
        let is_some = text != ".." && range.to.is_none_or(|to| to > range.from);
        is_some.then_some(range).ok_or(InvalidRange)
    }
}

/// A number of bytes, unless the text is empty.
fn bound(text: &str) -> Result<Option<u64>, InvalidRange> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let mut units = units.into_iter();
    let with_unit = units.find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (digits, shift) = with_unit.unwrap_or((text, 0));
    let number: u64 = Some(digits)
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok())
        .ok_or(InvalidRange)?;
    let bytes = number.checked_mul(1 << shift).ok_or(InvalidRange)?;
    Ok(Some(bytes))
}

impl fmt::Display for SizeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to {
            Some(to) => write!(f, "{}..{to}", self.from),
            None => write!(f, "{}..", self.from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_end_before_their_end() {
        for (text, inside, outside) in [
            ("1K..2K", vec![1024, 2047], vec![1023, 2048]),
            ("..1M", vec![0, (1 << 20) - 1], vec![1 << 20]),
            ("3G..", vec![3 << 30, u64::MAX], vec![(3 << 30) - 1]),
            ("0..1", vec![0], vec![1]),
            ("16777215T..", vec![u64::MAX], vec![(1 << 63) - 1]),
            (" 5 .. 7 ", vec![5, 6], vec![4, 7]),
        ] {
            let range: SizeRange = text.parse().unwrap();
            assert!(inside.iter().all(|size| range.contains(*size)), "{text}");
            assert!(!outside.iter().any(|size| range.contains(*size)), "{text}");
        }
        for text in [
            "",
            "..",
            "5",
            "5..5",
            "6..5",
            "-1..5",
            "+1..5",
            "1k..",
            "K..",
            "1.5K..",
            "1..2..3",
            "16777216T..",
            "99999999999999999999..",
        ] {
            assert_eq!(text.parse::<SizeRange>(), Err(InvalidRange), "{text}");
        }
    }
}
