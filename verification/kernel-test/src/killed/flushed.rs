use std::fmt;

/// The beginning of a line of the console about a flush.
const MARK: &str = "@flushed ";

/// The guest's report that it has flushed a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flushed {
    pub(super) volume: usize,
    /// The last write before the flush.
    pub(super) generation: u64,
}

impl Flushed {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (_, said) = line.split_once(MARK)?;
        let (volume, generation) = said.split_once(' ')?;
        Some(Self {
            volume: volume.parse().ok()?,
            generation: generation.parse().ok()?,
        })
    }
}

impl fmt::Display for Flushed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK}{} {}", self.volume, self.generation)
    }
}
