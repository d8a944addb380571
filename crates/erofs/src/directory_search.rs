//! Finding the block of a directory that a name is in, with few reads.
//!
//! A million names take some 7000 blocks. Halving would read 13 of them. The names themselves tell more: as most are numbers
//! or hashes, where a name is among others can be estimated from its first bytes.

use std::ops::RangeInclusive;

use crate::{
    Error,
    directory_block::{DirectoryBlock, Side},
    metadata::Bytes,
    space::Address,
};

/// How many bytes of a name are a number for an estimate: it fits in 64 bits.
const DIGITS: usize = 7;

/// A block of a directory that was read.
pub(crate) struct Block {
    pub(crate) number: u64,
    pub(crate) address: Address,
    pub(crate) bytes: Bytes,
}

impl Block {
    /// The entries of the block.
    pub(crate) fn parsed(&self) -> Result<DirectoryBlock<'_>, Error> {
        DirectoryBlock::new(&self.bytes, self.address)
    }
}

/// The only one of `count` blocks that can contain `name`; `None` if none can.
pub(crate) fn search(
    count: u64,
    name: &[u8],
    read: impl Fn(u64) -> Result<Block, Error>,
) -> Result<Option<Block>, Error> {
    let Some(last) = count.checked_sub(1) else {
        return Ok(None);
    };
    // The last one first: most often it is behind the inode, which was read.
    let mut high = read(last)?;
    match high.parsed()?.side(name)? {
        Side::Before if last > 0 => {}
        Side::Inside => return Ok(Some(high)),
        Side::Before | Side::Behind => return Ok(None),
    }
    let mut low = read(0)?;
    match low.parsed()?.side(name)? {
        Side::Behind => {}
        Side::Inside => return Ok(Some(low)),
        Side::Before => return Ok(None),
    }
    let mut halve = false;
    while let room @ 1.. = between(&low, &high) {
        let number = if halve {
            low.number.midpoint(high.number)
        } else {
            estimate(&low, &high, name)?
        };
        let block = read(number)?;
        match block.parsed()?.side(name)? {
            Side::Before => high = block,
            Side::Inside => return Ok(Some(block)),
            Side::Behind => low = block,
        }
        // Names that are distributed as no estimate expects cost twice what halving does, and no more.
        halve = !halve && between(&low, &high) > room / 2;
    }
    Ok(None)
}

/// How many blocks are between two.
fn between(low: &Block, high: &Block) -> u64 {
    high.number.saturating_sub(low.number).saturating_sub(1)
}

/// A block between `low` and `high`, which have some between them: where `name` would be if names were evenly distributed.
fn estimate(low: &Block, high: &Block, name: &[u8]) -> Result<u64, Error> {
    let (below, above) = (low.parsed()?, high.parsed()?);
    let (first, last) = (below.last_name()?, above.first_name()?);
    let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let mut digits = Digits::default();
    for name in below.names().chain(above.names()) {
        digits.add(name?.get(common..).unwrap_or_default());
    }
    let number = |name: &[u8]| u128::from(digits.number(name.get(common..).unwrap_or_default()));
    let (start, end) = (number(first), number(last));
    let inside = number(name)
        .clamp(start, end.max(start))
        .saturating_sub(start);
    let room = between(low, high);
    let scaled = inside.saturating_mul(room.into());
    let steps = scaled
        .checked_div(end.saturating_sub(start))
        .unwrap_or_default();
    let steps = u64::try_from(steps)
        .unwrap_or(u64::MAX)
        .min(room.saturating_sub(1));
    Ok(low.number.saturating_add(1).saturating_add(steps))
}

/// Bytes that come together: who sees one of them in names expects the others.
const CLASSES: [RangeInclusive<u8>; 5] = [
    b'0'..=b'9',
    b'a'..=b'f',
    b'g'..=b'z',
    b'A'..=b'F',
    b'G'..=b'Z',
];

/// What the first bytes of names can be, each as a digit of a number.
#[derive(Default)]
struct Digits([Alphabet; DIGITS]);

impl Digits {
    /// Adds the bytes of a name, and those of their classes.
    fn add(&mut self, name: &[u8]) {
        for (place, alphabet) in self.0.iter_mut().enumerate() {
            match name.get(place) {
                Some(byte) => alphabet.add(*byte),
                None => alphabet.has_end = true,
            }
        }
    }

    /// The beginning of a name as a number. Names that were added are ordered as their numbers are, which may be equal.
    fn number(&self, name: &[u8]) -> u64 {
        let places = self.0.iter().enumerate();
        places.fold(0_u64, |number, (place, alphabet)| {
            let digit = alphabet.digit(name.get(place).copied());
            number
                .saturating_mul(alphabet.len().into())
                .saturating_add(digit.into())
        })
    }
}

/// The bytes at one place of names.
#[derive(Default)]
struct Alphabet {
    /// A bit for each byte.
    bits: [u128; 2],
    /// Some names end before it.
    has_end: bool,
}

impl Alphabet {
    fn add(&mut self, byte: u8) {
        let class = CLASSES.into_iter().find(|class| class.contains(&byte));
        let [low, high] = &mut self.bits;
        let half = if byte < 128 { *low } else { *high };
        if half & 1_u128.rotate_left(u32::from(byte) & 127) != 0 {
            return;
        }
        for byte in class.unwrap_or(byte..=byte) {
            let half = if byte < 128 { &mut *low } else { &mut *high };
            *half |= 1_u128.rotate_left(u32::from(byte) & 127);
        }
    }

    /// The number of digits.
    fn len(&self) -> u32 {
        let [low, high] = self.bits.map(u128::count_ones);
        low.saturating_add(high).saturating_add(self.has_end.into())
    }

    /// The digit for a byte, or for the end of the name.
    fn digit(&self, byte: Option<u8>) -> u32 {
        let digit = byte.map_or(0, |byte| {
            self.rank(byte).saturating_add(self.has_end.into())
        });
        digit.min(self.len().saturating_sub(1))
    }

    /// How many bytes of the alphabet are below this one.
    fn rank(&self, byte: u8) -> u32 {
        let [low, high] = self.bits;
        let mask = 1_u128.rotate_left(u32::from(byte) & 127).wrapping_sub(1);
        if byte < 128 {
            (low & mask).count_ones()
        } else {
            low.count_ones().saturating_add((high & mask).count_ones())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ordered_as_names_are() {
        let names: [&[u8]; 8] = [b"", b"0", b"00", b"0000001", b"12", b"9", b"a\x80", b"\xff"];
        let mut digits = Digits::default();
        names.iter().for_each(|name| digits.add(name));
        let numbers = names.map(|name| digits.number(name));
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        // Three kinds of digits, 0xff and the end, in the first place.
        assert_eq!(digits.0[0].len(), 10 + 6 + 1 + 1);
        let mut all = Digits::default();
        (0..=255).for_each(|byte| all.add(&[byte; DIGITS]));
        all.add(b"");
        assert_eq!(all.number(&[255; DIGITS]), 257_u64.pow(7) - 1);
        assert_eq!(all.number(b""), 0);
    }
}
