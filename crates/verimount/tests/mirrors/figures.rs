use std::{fmt, ops::AddAssign, time::Duration};

/// What happened.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) sequences: u64,
    pub(crate) opened: u64,
    /// Reads, all of which were right.
    pub(crate) reads: u64,
    /// Reads that another place than the first answered.
    pub(crate) healed: u64,
    /// Ranges that were repaired.
    pub(crate) repaired: u64,
    /// Blocks that were damaged at a place.
    pub(crate) damaged: u64,
    /// Answers of servers that were wrong or missing.
    pub(crate) ill_answers: u64,
    /// Bytes of the cache that were changed.
    pub(crate) flipped: u64,
    /// The longest read or opening.
    pub(crate) longest: Duration,
}

impl Figures {
    /// Whether enough went wrong for the test to mean something.
    pub(crate) fn assert_sense(&self) {
        let all_happened = self.reads > self.sequences
            && self.healed > self.sequences
            && self.repaired > 0
            && self.damaged > self.sequences
            && self.ill_answers > self.sequences / 4
            && self.flipped > 0;
        assert!(all_happened || self.sequences < 20, "{self}");
    }
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.sequences += other.sequences;
        self.opened += other.opened;
        self.reads += other.reads;
        self.healed += other.healed;
        self.repaired += other.repaired;
        self.damaged += other.damaged;
        self.ill_answers += other.ill_answers;
        self.flipped += other.flipped;
        self.longest = self.longest.max(other.longest);
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} sequences: opened {} times, {} reads, all right; {} of them by another place than the first; {} blocks \
             damaged, {} ranges repaired; {} answers of servers ill, {} bytes of the cache changed; the longest read took \
             {:.1} s",
            self.sequences,
            self.opened,
            self.reads,
            self.healed,
            self.damaged,
            self.repaired,
            self.ill_answers,
            self.flipped,
            self.longest.as_secs_f64()
        )
    }
}
