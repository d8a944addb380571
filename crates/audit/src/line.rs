use std::sync::Arc;

use crate::Tally;

/// A line of the log.
#[derive(Debug, Clone)]
pub struct Line {
    /// With the line feed.
    pub(crate) text: Vec<u8>,
    /// Where what follows the time begins: how many lines were lost before, of which it says 0 at first.
    pub(crate) body: usize,
    pub(crate) tally: Arc<Tally>,
}

impl Line {
    /// Whether both say the same, if perhaps at different times.
    pub(crate) fn says_as(&self, other: &Self) -> bool {
        self.text.get(self.body..) == other.text.get(other.body..)
    }

    /// Says in it how many were lost before.
    pub(crate) fn after_lost(&mut self, lost: u64) {
        let zero = self.body..self.body.saturating_add(1);
        self.text.splice(zero, lost.to_string().into_bytes());
    }
}
