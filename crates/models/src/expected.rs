use crate::digest::{Algorithm, Digest};

/// What the content of a file must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected(Parts);

/// How the content is covered by digests.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Parts {
    /// All of it by one.
    Whole(Digest),
    /// In parts that follow each other. There is at least one.
    Shards(Box<[Shard]>),
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shard {
    /// Where it ends, in bytes. It begins where the one before ends.
    pub(crate) end: u64,
    pub(crate) digest: Digest,
}

impl Expected {
    pub(crate) fn whole(digest: Digest) -> Self {
        Self(Parts::Whole(digest))
    }

    /// The content of these parts; `None` if one is empty, or does not begin where the one before ends.
    pub(crate) fn shards(parts: Vec<(u64, Shard)>) -> Option<Self> {
        let mut end = 0;
        for (start, shard) in &parts {
            if *start != end || shard.end <= end {
                return None;
            }
            end = shard.end;
        }
        let shards: Box<[Shard]> = parts.into_iter().map(|(_, shard)| shard).collect();
        (!shards.is_empty()).then_some(Self(Parts::Shards(shards)))
    }

    /// Its size in bytes, if that is known before it is read.
    pub fn size(&self) -> Option<u64> {
        match &self.0 {
            Parts::Whole(_) => None,
            Parts::Shards(shards) => shards.last().map(|last| last.end),
        }
    }

    /// The part that follows `count` others: where it ends in a file of `size` bytes, and its digest.
    pub(crate) fn part(&self, count: usize, size: u64) -> Option<(u64, &Digest)> {
        match &self.0 {
            Parts::Whole(digest) => (count == 0).then_some((size, digest)),
            Parts::Shards(shards) => shards.get(count).map(|shard| (shard.end, &shard.digest)),
        }
    }

    /// What a blob of Hugging Face with this name must be: named by its SHA-256, or by its SHA-1 as an object of git.
    /// `None` if it is named otherwise.
    pub fn of_blob(name: &str) -> Option<Self> {
        let parse = |algorithm| Digest::parse(algorithm, name);
        let digest = parse(Algorithm::Sha256).or_else(|| parse(Algorithm::GitBlob));
        digest.map(Self::whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_follow_each_other() {
        let digest = || Digest::parse(Algorithm::Sha256, &"0".repeat(64)).unwrap();
        let shards = |ranges: &[(u64, u64)]| {
            let shard = |(start, end)| {
                let digest = digest();
                (start, Shard { end, digest })
            };
            Expected::shards(ranges.iter().copied().map(shard).collect())
        };
        let sizes = |ranges| shards(ranges).map(|expected| expected.size());
        assert_eq!(sizes(&[(0, 1)]), Some(Some(1)));
        assert_eq!(
            sizes(&[(0, 5), (5, 6), (6, u64::MAX)]),
            Some(Some(u64::MAX))
        );
        for wrong in [
            &[][..],
            &[(1, 2)],
            &[(0, 0)],
            &[(0, 2), (1, 3)],
            &[(0, 2), (3, 4)],
            &[(0, 2), (2, 1)],
        ] {
            assert_eq!(shards(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn blobs_have_the_name_of_a_digest() {
        for (digits, is_one) in [(40, true), (64, true), (0, false), (39, false), (65, false)] {
            let name = "0123456789abcdef".repeat(5)[..digits].to_owned();
            assert_eq!(Expected::of_blob(&name).is_some(), is_one, "{name}");
        }
        assert_eq!(Expected::of_blob("model.safetensors"), None);
    }
}
