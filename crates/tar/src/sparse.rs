//! Maps of files with holes, in all forms.

use std::ops::Range;

use verimount_source::ReadAt;
use zerocopy::FromBytes;

use crate::{
    error::{Defect, Failure},
    header::{GnuEnd, GnuMapBlock, RawRange},
    input::{BLOCK, Block, Input},
    number::decimal,
};

/// The most ranges of all files with holes in an archive.
pub(crate) const MAX_RANGES: usize = 1 << 22;

/// The largest file in bytes: Linux has no larger ones.
const MAX_SIZE: u64 = (1 << 63) - 1;

/// The ranges of a file that are in the archive.
#[derive(Debug, Clone, Default)]
pub(crate) struct Map {
    /// In order, not empty and apart from each other.
    ranges: Vec<Range<u64>>,
    /// Bytes of all of them.
    stored: u64,
    /// The end of what has been added, empty ranges included.
    end: u64,
}

impl Map {
    /// Adds a range behind all others.
    pub(crate) fn add(&mut self, offset: u64, len: u64) -> Result<(), Defect> {
        let end = offset.checked_add(len).filter(|_| offset >= self.end);
        let end = end.ok_or(Defect::Map)?;
        self.stored = self.stored.checked_add(len).ok_or(Defect::Map)?;
        let count = self.ranges.len();
        match self.ranges.last_mut() {
            _ if len == 0 => {}
            Some(last) if last.end == offset => last.end = end,
            _ if count == MAX_RANGES => return Err(Defect::Holes),
            _ => self.ranges.push(offset..end),
        }
        self.end = end;
        Ok(())
    }

    /// The ranges of a file with `size` bytes, of which `stored` follow in the archive; `None` for a file without holes.
    pub(crate) fn finish(
        self,
        size: u64,
        stored: u64,
    ) -> Result<Option<Box<[Range<u64>]>>, Defect> {
        if size > MAX_SIZE || self.end > size || self.stored != stored {
            return Err(Defect::Map);
        }
        Ok((stored < size).then(|| self.ranges.into()))
    }
}

/// Reads the map of a header in the GNU format, which goes on in blocks behind it.
pub(crate) fn read_gnu<S: ReadAt>(end: &GnuEnd, input: &mut Input<S>) -> Result<Map, Failure> {
    let mut map = Map::default();
    add_all(&mut map, &end.map)?;
    let mut is_continued = end.is_continued;
    while is_continued != 0 {
        let block = input.block()?.ok_or(Defect::Truncated)?;
        let block = GnuMapBlock::ref_from_bytes(&block).map_err(|_| Defect::Map)?;
        add_all(&mut map, &block.map)?;
        is_continued = block.is_continued;
    }
    Ok(map)
}

fn add_all(map: &mut Map, ranges: &[RawRange]) -> Result<(), Defect> {
    let ranges = ranges.iter().take_while(|range| !range.is_end());
    for range in ranges {
        let (offset, len) = range.get()?;
        map.add(offset, len)?;
    }
    Ok(())
}

/// Reads the map in front of a member's content: lines with decimal numbers, in whole blocks. Gives the
/// bytes of the content that are left behind it, too, of `len` in all.
pub(crate) fn read_in_front<S: ReadAt>(
    input: &mut Input<S>,
    len: u64,
) -> Result<(Map, u64), Failure> {
    let start = input.at();
    let mut lines = Lines {
        input,
        block: [0; BLOCK],
        next: BLOCK,
        end: start.checked_add(len).ok_or(Defect::Map)?,
    };
    let mut map = Map::default();
    for _ in 0..lines.number()? {
        let offset = lines.number()?;
        map.add(offset, lines.number()?)?;
    }
    let left = lines.end.checked_sub(input.at());
    Ok((map, left.ok_or(Defect::Map)?))
}

/// Lines with numbers.
struct Lines<'a, S> {
    input: &'a mut Input<S>,
    block: Block,
    /// The next character in the block.
    next: usize,
    /// Where the member ends.
    end: u64,
}

impl<S: ReadAt> Lines<'_, S> {
    fn number(&mut self) -> Result<u64, Failure> {
        /// Digits of the largest number.
        const MAX_DIGITS: usize = 20;
        let mut digits = Vec::new();
        loop {
            match self.character()? {
                b'\n' => return Ok(decimal(&digits).ok_or(Defect::Map)?),
                _ if digits.len() == MAX_DIGITS => return Err(Defect::Map.into()),
                digit => digits.push(digit),
            }
        }
    }

    fn character(&mut self) -> Result<u8, Failure> {
        if self.next == BLOCK {
            if self.input.at() >= self.end {
                return Err(Defect::Map.into());
            }
            self.block = self.input.block()?.ok_or(Defect::Truncated)?;
            self.next = 0;
        }
        let character = self.block.get(self.next).copied().ok_or(Defect::Map)?;
        self.next = self.next.saturating_add(1);
        Ok(character)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(ranges: &[(u64, u64)]) -> Result<Map, Defect> {
        let mut map = Map::default();
        for (offset, len) in ranges {
            map.add(*offset, *len)?;
        }
        Ok(map)
    }

    #[test]
    fn ranges_are_in_order_and_joined() {
        let all = map(&[(0, 0), (4, 2), (6, 2), (10, 1), (20, 0)]).unwrap();
        assert_eq!(all.clone().finish(20, 5), Ok(Some([4..8, 10..11].into())));
        assert_eq!(all.clone().finish(19, 5), Err(Defect::Map));
        assert_eq!(all.finish(20, 6), Err(Defect::Map));
        assert_eq!(map(&[(0, 4), (4, 4)]).unwrap().finish(8, 8), Ok(None));
        assert_eq!(map(&[]).unwrap().finish(0, 0), Ok(None));
        assert_eq!(map(&[]).unwrap().finish(5, 0), Ok(Some([].into())));
        assert_eq!(map(&[]).unwrap().finish(1 << 63, 0), Err(Defect::Map));
        for wrong in [&[(4, 2), (5, 1)][..], &[(u64::MAX, 1)], &[(4, 0), (3, 1)]] {
            assert_eq!(map(wrong).err(), Some(Defect::Map), "{wrong:?}");
        }
    }

    #[test]
    fn a_map_in_front_has_lines_in_whole_blocks() {
        let mut bytes = b"2\n0\n10\n1000\n5\n".to_vec();
        bytes.resize(BLOCK + 20, b'x');
        let len = bytes.len() as u64;
        let read = |bytes: &[u8], len| read_in_front(&mut Input::new(bytes.to_vec()), len).ok();
        let (map, left) = read(&bytes, len).unwrap();
        assert_eq!(left, 20);
        assert_eq!(map.finish(1005, 15), Ok(Some([0..10, 1000..1005].into())));
        // The map goes on behind the member, or has what is no number.
        for (wrong, len) in [
            (&b"1\n0\n"[..], 512),
            (b"x\n", 512),
            (b"\n", 512),
            (b"0\n", 0),
        ] {
            let mut bytes = wrong.to_vec();
            bytes.resize(2 * BLOCK, b'1');
            assert!(read(&bytes, len).is_none(), "{wrong:?}");
        }
    }
}
