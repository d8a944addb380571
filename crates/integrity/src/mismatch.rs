use std::fmt;

use thiserror::Error;

use crate::tagger::DISCARDED;

/// A block that does not match its tag.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("block at sector {sector}: stored tag {expected}, computed tag {actual}{}", self.guess())]
pub struct BadBlock {
    /// The first sector of the block, counted within the volume.
    pub sector: u64,
    /// The stored tag.
    pub expected: Tag,
    /// The tag computed from the data that was read.
    pub actual: Tag,
}

impl BadBlock {
    /// Whether the stored tag marks a discarded block, which is valid only where discards are
    /// allowed.
    pub fn is_discarded(&self) -> bool {
        matches!(&self.expected, Tag::Known(bytes) if bytes.iter().all(|&byte| byte == DISCARDED))
    }

    /// A hint for the user, if the stored tag suggests one.
    fn guess(&self) -> &'static str {
        if self.is_discarded() {
            "; the block looks discarded, not damaged: open the volume with discards allowed to accept it"
        } else {
            ""
        }
    }
}

/// A tag in a report. Displayed in lower-case hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tag {
    /// These bytes.
    Known(Box<[u8]>),
    /// Not shown: an attacker who learns the keyed tag of tampered data could store it to make the
    /// data pass.
    Secret,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Self::Secret => f.write_str("not shown (keyed)"),
        }
    }
}
