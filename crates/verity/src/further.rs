/// How many further fetches of what was wrong a source is worth.
#[derive(Debug)]
pub(crate) struct Further(u32);

impl Default for Further {
    fn default() -> Self {
        Self(u32::MAX)
    }
}

impl Further {
    /// Whether to fetch again. `tell` tells the source that it was wrong, and returns how often it may give something else.
    pub(crate) fn is_worth_it(&mut self, tell: impl FnOnce() -> u32) -> bool {
        if self.0 > 0 {
            self.0 = tell().min(self.0);
        }
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}
