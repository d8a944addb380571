use std::collections::VecDeque;

use anyhow::{Result, ensure};

/// What begins a line that is about a test. Everything else is the console's.
pub(super) const MARK: &str = "@test ";

/// How many lines of the console are kept, to be shown if something fails.
const MAX_CONSOLE: usize = 200;

/// What the guest's tests came to.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// How many tests passed, by their group, in order.
    passed: Vec<(String, usize)>,
    failed: usize,
    is_whole: bool,
    console: VecDeque<String>,
}

/// What became of one test, as a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line<'a> {
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
    /// Takes a line of the guest's console.
    pub(super) fn take(&mut self, line: &str) {
        match Line::parse(line) {
            Some(Line::Passed { group }) => match self.passed.last_mut() {
                Some((last, passed)) if last == group => *passed += 1,
                _ => {
                    println!("Testing {group}");
                    self.passed.push((group.to_owned(), 1));
                }
            },
            Some(Line::Failed { group, test, why }) => {
                println!("FAILED {group}: {test}: {why}");
                self.failed += 1;
            }
            Some(Line::End) => self.is_whole = true,
            None => {
                if self.console.len() == MAX_CONSOLE {
                    self.console.pop_front();
                }
                self.console.push_back(line.to_owned());
            }
        }
    }

    /// Prints how many tests passed.
    ///
    /// # Errors
    /// Some failed, or were not run; the guest's console is then shown, too.
    pub(super) fn conclude(&self) -> Result<()> {
        for (group, passed) in &self.passed {
            println!("{group}: {passed} passed");
        }
        if self.failed > 0 || !self.is_whole {
            for line in &self.console {
                println!("  guest: {line}");
            }
        }
        ensure!(self.is_whole, "the guest ended before its tests did");
        ensure!(self.failed == 0, "{} tests failed", self.failed);
        Ok(())
    }
}

impl Line<'_> {
    pub(super) fn print(&self) {
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
