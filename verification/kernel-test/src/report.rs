use std::collections::VecDeque;

use anyhow::{Result, ensure};

/// What begins a line that is about a test. Everything else is the console's.
pub(crate) const MARK: &str = "@test ";

/// How many lines of the console are kept, to be shown if something fails.
const MAX_CONSOLE: usize = 200;

/// What a guest's tests came to.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The guest, of which there may be several at a time.
    guest: String,
    /// How many tests passed, by their group, in order.
    passed: Vec<(String, usize)>,
    failed: usize,
    is_whole: bool,
    console: VecDeque<String>,
}

/// What became of one test, as a line.
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
    /// Of tests that are still to be done in this guest.
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

    /// Notes what became of a test.
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

    /// Whether the guest has said that it has done all its tests.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Prints how many tests passed, at once: other guests' reports may come at the same time.
    ///
    /// # Errors
    /// Some failed, or `ended` says why not all were done; the guest's console is then shown, too.
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
