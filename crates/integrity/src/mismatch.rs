use std::fmt;

use thiserror::Error;

use crate::tagger::DISCARDED;

/// A block that does not match its tag.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the block at sector {sector}: its tag is {expected}, not {actual}{}", self.guess())]
pub struct BadBlock {
    /// The volume's sector at which the block begins.
    pub sector: u64,
    /// The tag that is stored.
    pub expected: Tag,
    /// The tag that the block should have, with the data it has.
    pub actual: Tag,
}

impl BadBlock {
    /// Whether the stored tag is that of a discarded block, which matches only where discards are
    /// allowed.
    pub fn is_discarded(&self) -> bool {
        matches!(&self.expected, Tag::Known(bytes) if bytes.iter().all(|&byte| byte == DISCARDED))
    }

    /// What the tag hints at.
    fn guess(&self) -> &'static str {
        match self.is_discarded() {
            true => "; it looks discarded, not damaged: allow discards to let it pass",
            false => "",
        }
    }
}

/// A tag to show. Displayed as lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tag {
    /// These bytes.
    Known(Box<[u8]>),
    /// Not shown: whoever learns the keyed tag of changed data could store it with the data.
    Secret,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::Secret => f.write_str("what the key gives"),
        }
    }
}
