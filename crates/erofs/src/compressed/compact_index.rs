//! Indexes in packs: two logical clusters in 8 bytes, or sixteen in 32.

use crate::{
    compressed::record::{Head, HeadKind, Record, blocks},
    error::Defect,
    numbers::to_usize,
    raw::cluster_type,
    space::Address,
};

/// How many bits of an entry the type takes.
const TYPE_BITS: u32 = 2;

/// The fewest bits of an entry's other part.
pub(crate) const MIN_VALUE_BITS: u8 = 12;

/// The packs of an index, which are of 8 bytes, then of 32, then of 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packs {
    /// Where they begin.
    pub(crate) at: Address,
    /// How many logical clusters the packs of 8 bytes in front have.
    front: u64,
    /// How many the packs of 32 bytes have.
    middle: u64,
}

/// The place of a logical cluster's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryPlace {
    /// Where its pack begins.
    pub(crate) pack: Address,
    pub(crate) kind: PackKind,
    /// Its position in the pack.
    pub(crate) position: usize,
}

/// A form of packs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackKind {
    /// Its length in bytes.
    pub(crate) len: u64,
    /// How many entries it has.
    pub(crate) entries: usize,
    /// How many bits an entry has: all but the last 4 bytes are entries.
    pub(crate) entry_bits: usize,
    /// The bytes of the pack that an entry takes on average.
    entry_len: u64,
}

impl PackKind {
    pub(crate) const SHORT: Self = Self {
        len: 8,
        entries: 2,
        entry_bits: 16,
        entry_len: 4,
    };
    pub(crate) const LONG: Self = Self {
        len: 32,
        entries: 16,
        entry_bits: 14,
        entry_len: 2,
    };
}

impl Packs {
    /// The packs from `at` on for a file of `total` blocks.
    pub(crate) fn new(at: Address, total: u64, has_long: bool) -> Self {
        // Long packs begin at multiples of their length.
        let to_boundary = at.at.wrapping_neg() & PackKind::LONG.len.saturating_sub(1);
        let front = to_boundary >> 2;
        let rest = total.saturating_sub(front);
        let middle = if has_long { rest & !15 } else { 0 };
        Self { at, front, middle }
    }

    /// Whether there are packs of 32 bytes.
    #[cfg(feature = "write")]
    pub(crate) fn has_long(&self) -> bool {
        self.middle > 0
    }

    /// Where the entry of a logical cluster is; `None` if no offset is that large.
    pub(crate) fn place(&self, number: u64) -> Option<EntryPlace> {
        let front_len = self.front.checked_mul(PackKind::SHORT.entry_len)?;
        let middle_len = self.middle.checked_mul(PackKind::LONG.entry_len)?;
        let (kind, start, inside) = match number.checked_sub(self.front) {
            None => (PackKind::SHORT, 0, number),
            Some(inside) if inside < self.middle => (PackKind::LONG, front_len, inside),
            Some(behind) => {
                let start = front_len.checked_add(middle_len)?;
                (PackKind::SHORT, start, behind.saturating_sub(self.middle))
            }
        };
        let at = start.checked_add(inside.checked_mul(kind.entry_len)?)?;
        let entry = self.at.plus(at)?;
        let in_pack = entry.at & kind.len.saturating_sub(1);
        let pack = Address {
            at: entry.at.saturating_sub(in_pack),
            ..entry
        };
        let position = to_usize(in_pack.checked_div(kind.entry_len)?);
        Some(EntryPlace {
            pack,
            kind,
            position,
        })
    }
}

/// A pack that was read.
pub(crate) struct Pack<'b> {
    pub(crate) bytes: &'b [u8],
    pub(crate) kind: PackKind,
    /// The base-2 logarithm of the size of logical clusters.
    pub(crate) cluster_bits: u32,
    /// Whether clusters may have several blocks.
    pub(crate) is_big: bool,
}

/// An entry of a pack.
struct Entry {
    /// A type, and what it means depends on it.
    cluster_type: u16,
    value: u16,
}

impl Pack<'_> {
    /// What the entry at this position says.
    pub(crate) fn record(&self, position: usize) -> Result<Record, Defect> {
        let entry = self.entry(position)?;
        if let Some(kind) = HeadKind::new(entry.cluster_type) {
            return Ok(Record::Head(Head {
                kind,
                offset: entry.value.into(),
                block: self.block(position)?,
            }));
        }
        if let Some(count) = blocks(entry.value) {
            return Ok(Record::Following {
                back: 1,
                forward: 1,
                blocks: Some(count),
            });
        }
        let is_last = position.saturating_add(1) == self.kind.entries;
        let (back, forward) = if is_last {
            // The last one tells the distance to the next pack's first head.
            (self.back_of_last(position)?, u64::from(entry.value).max(1))
        } else {
            (entry.value.into(), 1)
        };
        Ok(Record::Following {
            back,
            forward,
            blocks: None,
        })
    }

    /// How far the last entry is behind the beginning of its extent: one more than the one in front of it.
    fn back_of_last(&self, position: usize) -> Result<u64, Defect> {
        let before = position.checked_sub(1).ok_or(Defect::ClusterMap)?;
        let before = self.entry(before)?;
        let distance = match (HeadKind::new(before.cluster_type), blocks(before.value)) {
            (Some(_), _) => 0,
            (None, Some(_)) => 1,
            (None, None) => u64::from(before.value),
        };
        Ok(distance.saturating_add(1))
    }

    /// The block of the head at this position. The pack tells the one in front of all; the number of those between comes
    /// from the entries before.
    fn block(&self, position: usize) -> Result<u64, Defect> {
        let base = self.bytes.last_chunk().ok_or(Defect::ClusterMap)?;
        let base = u64::from(u32::from_le_bytes(*base));
        let between = if self.is_big {
            self.blocks_before(position)?
        } else {
            self.heads_before(position)?.saturating_add(1)
        };
        Ok(base.saturating_add(between))
    }

    /// How many extents of the pack are in front of this position, where each has one block.
    fn heads_before(&self, position: usize) -> Result<u64, Defect> {
        let mut heads = 0_u64;
        let mut end = position;
        while let Some(at) = end.checked_sub(1) {
            let entry = self.entry(at)?;
            let back = match HeadKind::new(entry.cluster_type) {
                Some(_) => 0,
                None => usize::from(entry.value),
            };
            // A beginning in an earlier pack is counted there.
            let Some(head) = at.checked_sub(back) else {
                break;
            };
            heads = heads.saturating_add(1);
            end = head;
        }
        Ok(heads)
    }

    /// How many blocks the extents of the pack in front of this position have.
    fn blocks_before(&self, position: usize) -> Result<u64, Defect> {
        let mut count = 0_u64;
        let mut end = position;
        while let Some(at) = end.checked_sub(1) {
            let entry = self.entry(at)?;
            if HeadKind::new(entry.cluster_type).is_some() {
                count = count.saturating_add(1);
                end = at;
            } else if let Some(own) = blocks(entry.value) {
                // It follows the beginning.
                count = count.saturating_add(own);
                end = at.saturating_sub(1);
            } else {
                // The one that tells the blocks is one behind the beginning.
                let further = entry.value.checked_sub(2).ok_or(Defect::ClusterMap)?;
                end = at.saturating_sub(further.into());
            }
        }
        Ok(count)
    }

    fn entry(&self, position: usize) -> Result<Entry, Defect> {
        let bit = position.saturating_mul(self.kind.entry_bits);
        let start = bit >> 3;
        let word = self.bytes.get(start..).and_then(|rest| rest.first_chunk());
        let word = u32::from_le_bytes(*word.ok_or(Defect::ClusterMap)?) >> (bit & 7);
        let value_bits = self.cluster_bits.max(MIN_VALUE_BITS.into());
        let mask = |bits: u32| 1_u32.rotate_left(bits).wrapping_sub(1);
        let value = word & mask(value_bits);
        let cluster_type = word.checked_shr(value_bits).unwrap_or_default() & mask(TYPE_BITS);
        Ok(Entry {
            cluster_type: u16::try_from(cluster_type).unwrap_or(cluster_type::FOLLOWING),
            value: u16::try_from(value).map_err(|_| Defect::ClusterMap)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_are_found() {
        let place = |at, total, has_long, number| {
            let packs = Packs::new(Address::in_image(at), total, has_long);
            let place = packs.place(number).unwrap();
            (place.pack.at, place.kind, place.position)
        };
        const SHORT: PackKind = PackKind::SHORT;
        const LONG: PackKind = PackKind::LONG;
        // Four entries up to byte 64, 32 in long packs, and two behind.
        assert_eq!(place(48, 38, true, 0), (48, SHORT, 0));
        assert_eq!(place(48, 38, true, 3), (56, SHORT, 1));
        assert_eq!(place(48, 38, true, 4), (64, LONG, 0));
        assert_eq!(place(48, 38, true, 35), (96, LONG, 15));
        assert_eq!(place(48, 38, true, 36), (128, SHORT, 0));
        assert_eq!(place(64, 38, true, 0), (64, LONG, 0));
        assert_eq!(place(64, 38, false, 5), (80, SHORT, 1));
        // Too few for a long pack.
        assert_eq!(place(64, 15, true, 2), (72, SHORT, 0));
    }

    /// A pack of these entries of type and value.
    fn pack(entries: &[(u32, u32)], base: u32) -> Vec<u8> {
        let bits = if entries.len() == 2 { 16 } else { 14 };
        let mut bytes = vec![0_u8; entries.len() * bits / 8];
        for (position, (kind, value)) in entries.iter().enumerate() {
            for bit in 0..bits {
                let set = (kind << 12 | value) >> bit & 1;
                let at = position * bits + bit;
                bytes[at / 8] |= (set as u8) << (at % 8);
            }
        }
        bytes.extend(base.to_le_bytes());
        bytes
    }

    fn records(bytes: &[u8], is_big: bool) -> Vec<Record> {
        let (kind, count) = if bytes.len() == 8 {
            (PackKind::SHORT, 2)
        } else {
            (PackKind::LONG, 16)
        };
        let pack = Pack {
            bytes,
            kind,
            cluster_bits: 12,
            is_big,
        };
        (0..count)
            .map(|position| pack.record(position).unwrap())
            .collect()
    }

    fn head(kind: HeadKind, offset: u64, block: u64) -> Record {
        Record::Head(Head {
            kind,
            offset,
            block,
        })
    }

    fn following(back: u64, forward: u64, blocks: Option<u64>) -> Record {
        Record::Following {
            back,
            forward,
            blocks,
        }
    }

    #[test]
    fn blocks_are_counted_without_big_clusters() {
        let short = pack(&[(1, 5), (0, 9)], 100);
        let expected = [head(HeadKind::First, 5, 101), head(HeadKind::Plain, 9, 102)];
        assert_eq!(records(&short, false), expected);
        // The first extent began two logical clusters before the pack.
        let mut entries = vec![(2, 2), (2, 3), (1, 7), (2, 1), (2, 2), (0, 8)];
        entries.extend([(1, 1); 8]);
        entries.extend([(2, 1), (2, 4)]);
        let records = records(&pack(&entries, 50), false);
        assert_eq!(records[1], following(3, 1, None));
        assert_eq!(records[2], head(HeadKind::First, 7, 51));
        assert_eq!(records[5], head(HeadKind::Plain, 8, 52));
        assert_eq!(records[13], head(HeadKind::First, 1, 60));
        // The last one tells how far the next beginning is.
        assert_eq!(records[15], following(2, 4, None));
    }

    #[test]
    fn blocks_are_counted_with_big_clusters() {
        let mut entries = vec![
            (1, 0),
            (2, 0x803),
            (2, 2),
            (2, 3),
            (1, 9),
            (1, 4),
            (2, 0x802),
        ];
        entries.extend([(0, 1); 7]);
        entries.extend([(1, 2), (2, 0x804)]);
        let records = records(&pack(&entries, 50), true);
        assert_eq!(records[0], head(HeadKind::First, 0, 50));
        assert_eq!(records[1], following(1, 1, Some(3)));
        assert_eq!(records[3], following(3, 1, None));
        assert_eq!(records[4], head(HeadKind::First, 9, 53));
        assert_eq!(records[5], head(HeadKind::First, 4, 54));
        assert_eq!(records[7], head(HeadKind::Plain, 1, 56));
        assert_eq!(records[14], head(HeadKind::First, 2, 63));
    }
}
