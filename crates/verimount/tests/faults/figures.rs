use std::{fmt, ops::AddAssign, time::Duration};

/// What happened.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) sequences: u64,
    /// Those that read everything, and asked for less, as the cache had an earlier release.
    pub(crate) updates: u64,
    pub(crate) opened: u64,
    pub(crate) not_opened: u64,
    /// Reads that gave bytes, all of which were right.
    pub(crate) read: u64,
    /// Reads that failed while the server was ill, or had been when they began to be fetched.
    pub(crate) failed: u64,
    pub(crate) requests: u64,
    pub(crate) wrong_answers: u64,
    /// Bytes of the cache that were changed.
    pub(crate) flipped: u64,
    /// Bytes of the cache that were rejected.
    pub(crate) rejected: u64,
    pub(crate) evicted: u64,
    /// The longest read or opening.
    pub(crate) longest: Duration,
}

impl Figures {
    /// Whether enough went wrong, and enough was read nevertheless, for the test to mean something.
    pub(crate) fn assert_sense(&self) {
        let all_happened = self.opened > 0
            && self.not_opened > 0
            && self.read > self.sequences
            && self.failed > 0
            && self.wrong_answers > self.sequences
            && self.flipped > self.sequences
            && self.rejected > 0
            && self.evicted > 0;
        assert!(all_happened || self.sequences < 20, "{self}");
        assert!(self.updates > 0 || self.sequences < 200, "{self}");
    }
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.sequences += other.sequences;
        self.updates += other.updates;
        self.opened += other.opened;
        self.not_opened += other.not_opened;
        self.read += other.read;
        self.failed += other.failed;
        self.requests += other.requests;
        self.wrong_answers += other.wrong_answers;
        self.flipped += other.flipped;
        self.rejected += other.rejected;
        self.evicted += other.evicted;
        self.longest = self.longest.max(other.longest);
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} sequences, {} of them updates: opened {} times, not {} times; {} reads were right, {} failed; \
             {} of {} answers were wrong; of the cache {} bytes were changed, {} rejected, {} evicted; \
             the longest read took {:.1} s",
            self.sequences,
            self.updates,
            self.opened,
            self.not_opened,
            self.read,
            self.failed,
            self.wrong_answers,
            self.requests,
            self.flipped,
            self.rejected,
            self.evicted,
            self.longest.as_secs_f64()
        )
    }
}
