use anyhow::Result;

use crate::report::Line;

/// A group of tests, each of which writes a line.
pub(super) struct Tests {
    group: &'static str,
}

impl Tests {
    pub(super) fn new(group: &'static str) -> Self {
        Self { group }
    }

    /// Does one test.
    pub(super) fn test(&self, test: &str, work: impl FnOnce() -> Result<()>) {
        let group = self.group;
        match work() {
            Ok(()) => Line::Passed { group }.print(),
            Err(error) => {
                // The report is of lines.
                let why = format!("{error:#}").replace('\n', " / ");
                let why = why.as_str();
                Line::Failed { group, test, why }.print();
            }
        }
    }
}
