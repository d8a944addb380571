//! Indexes with a record of 8 bytes for each logical cluster.

use crate::{
    compressed::record::{Head, HeadKind, Record, blocks},
    raw::{self, cluster_type},
};

/// The length of a record in bytes.
pub(crate) const RECORD: u64 = 8;

/// How far behind the header the records begin, in bytes.
pub(crate) const PADDING: u64 = 8;

/// What a raw record says.
pub(crate) fn record(raw: &raw::FullRecord) -> Record {
    let detail = raw.detail.get();
    let Some(kind) = HeadKind::new(raw.advice.get() & cluster_type::MASK) else {
        let [low, high, forward @ ..] = detail.to_le_bytes();
        let distance = u16::from_le_bytes([low, high]);
        let blocks = blocks(distance);
        return Record::Following {
            back: if blocks.is_some() { 1 } else { distance.into() },
            // Old images have 0.
            forward: u64::from(u16::from_le_bytes(forward)).max(1),
            blocks,
        };
    };
    Record::Head(Head {
        kind,
        offset: raw.offset.get().into(),
        block: detail.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(advice: u16, offset: u16, detail: u32) -> raw::FullRecord {
        raw::FullRecord {
            advice: advice.into(),
            offset: offset.into(),
            detail: detail.into(),
        }
    }

    #[test]
    fn records_are_heads_or_distances() {
        let following = |back, forward, blocks| Record::Following {
            back,
            forward,
            blocks,
        };
        assert_eq!(record(&raw(2, 0, 0x0005_0003)), following(3, 5, None));
        assert_eq!(record(&raw(2, 0, 0x0000_0803)), following(1, 1, Some(3)));
        for (advice, kind) in [
            (0, HeadKind::Plain),
            (1, HeadKind::First),
            (0x8003, HeadKind::Second),
        ] {
            let head = Head {
                kind,
                offset: 7,
                block: 9,
            };
            assert_eq!(record(&raw(advice, 7, 9)), Record::Head(head));
        }
    }
}
