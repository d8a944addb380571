use anyhow::Result;

use crate::report::Line;

/// A group of tests. Each prints a line.
pub(super) struct Tests {
    group: &'static str,
}

impl Tests {
    pub(super) fn new(group: &'static str) -> Self {
        Self { group }
    }

    /// Runs one test.
    pub(super) fn test(&self, test: &str, work: impl FnOnce() -> Result<()>) {
        let group = self.group;
        match work() {
            Ok(()) => Line::Passed { group }.print(),
            Err(error) => {
                // A report is one line.
                let why = format!("{error:#}").replace('\n', " / ");
                let why = why.as_str();
                Line::Failed { group, test, why }.print();
            }
        }
    }
}
