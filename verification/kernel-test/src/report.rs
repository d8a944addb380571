use std::collections::VecDeque;

use anyhow::{Result, ensure};

/// The beginning of a line about a test. All other lines are the console's.
pub(crate) const MARK: &str = "@test ";

/// How many lines of the console are kept, and shown after a failure.
const MAX_CONSOLE: usize = 200;

/// The results of a guest's tests.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The name of the guest; several can run at the same time.
    guest: String,
    /// How many tests passed, by group, in order.
    passed: Vec<(String, usize)>,
    failed: usize,
    is_whole: bool,
    console: VecDeque<String>,
}

/// The outcome of one test, as a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    Passed {
        group: &'a str,
    },
    Failed {
        group: &'a str,
        test: &'a str,
        why: &'a str,
    },
    End,
}

impl Report {
    /// For tests in this guest.
    pub(crate) fn new(guest: &str) -> Self {
        Self {
            guest: guest.to_owned(),
            ..Self::default()
        }
    }

    /// Takes a line of the guest's console.
    pub(crate) fn take(&mut self, line: &str) {
        match Line::parse(line) {
            Some(line) => self.note(&line),
            None => {
                if self.console.len() == MAX_CONSOLE {
                    self.console.pop_front();
                }
                self.console.push_back(line.to_owned());
            }
        }
    }

    /// Records the outcome of a test.
    pub(crate) fn note(&mut self, line: &Line<'_>) {
        match line {
            Line::Passed { group } => match self.passed.last_mut() {
                Some((last, passed)) if last == group => *passed += 1,
                _ => {
                    println!("{}: testing {group}", self.guest);
                    self.passed.push(((*group).to_owned(), 1));
                }
            },
            Line::Failed { group, test, why } => {
                println!("{}: FAILED {group}: {test}: {why}", self.guest);
                self.failed += 1;
            }
            Line::End => self.is_whole = true,
        }
    }

    /// Whether the guest has reported the end of all its tests.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Prints how many tests passed, in one write: other guests' reports may be printed at the same time.
    ///
    /// # Errors
    /// Some tests failed, or `ended` has the reason why not all ran. Then the guest's console is printed,
    /// too.
    pub(crate) fn conclude(&self, ended: Result<()>) -> Result<()> {
        let guest = &self.guest;
        let mut lines = Vec::new();
        for (group, passed) in &self.passed {
            lines.push(format!("{guest}: {group}: {passed} passed\n"));
        }
        if self.failed > 0 || ended.is_err() {
            let console = self.console.iter();
            lines.extend(console.map(|line| format!("{guest}: console: {line}\n")));
        }
        print!("{}", lines.concat());
        ended?;
        ensure!(self.failed == 0, "{} tests failed", self.failed);
        Ok(())
    }
}

impl Line<'_> {
    pub(crate) fn print(&self) {
        match self {
            Line::Passed { group } => println!("{MARK}passed {group}"),
            Line::Failed { group, test, why } => println!("{MARK}failed {group}|{test}|{why}"),
            Line::End => println!("{MARK}end"),
        }
    }
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let line = &line[line.find(MARK)? + MARK.len()..];
        if line == "end" {
            return Some(Self::End);
        }
        let (word, rest) = line.split_once(' ')?;
        match word {
            "passed" => Some(Self::Passed { group: rest }),
            "failed" => {
                let mut parts = rest.splitn(3, '|');
                Some(Self::Failed {
                    group: parts.next()?,
                    test: parts.next()?,
                    why: parts.next()?,
                })
            }
            _ => None,
        }
    }
}
