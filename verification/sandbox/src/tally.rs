//! What became of attempts.

use std::{collections::BTreeSet, fmt, io};

use rustix::io::Errno;
use verimount_sandbox::decided_calls;

use crate::{attempt::Attempt, thread::Stopped};

/// Whether something is refused that was tried.
pub fn is_refused(result: &io::Result<i64>) -> bool {
    let errno = result.as_ref().err().and_then(Errno::from_io_error);
    matches!(errno, Some(Errno::ACCESS | Errno::PERM | Errno::NOSYS))
}

/// What was tried of what is not a daemon's own, by which calls.
#[derive(Default)]
pub struct Tally {
    daemons: BTreeSet<String>,
    arguments: BTreeSet<&'static str>,
    calls: BTreeSet<i64>,
    tried: usize,
    reached: Vec<String>,
}

impl Tally {
    /// Has a thread of a daemon try everything.
    pub fn try_all(&mut self, attempts: &[Attempt<'_>], thread: &Stopped, daemon: &str) {
        for attempt in attempts {
            let result = attempt.make(thread);
            if !is_refused(&result) {
                let what = format!("{daemon}: {}: {result:?}", attempt.name);
                self.reached.push(what);
            }
            self.calls.insert(attempt.number);
            self.arguments.insert(attempt.name);
        }
        self.tried += attempts.len();
        self.daemons.insert(daemon.to_owned());
    }

    /// Notes what has changed, whatever the system has said.
    pub fn compare(&mut self, before: &str, after: &str) {
        if before != after {
            let change = format!("it was changed from {before} to {after}");
            self.reached.push(change);
        }
    }

    /// What was reached.
    pub fn reached(&self) -> &[String] {
        &self.reached
    }

    /// The calls whose arguments the sandbox decides about, and which were not tried.
    pub fn untried(&self) -> Vec<&'static str> {
        let untried = decided_calls().filter(|(_, number)| !self.calls.contains(number));
        untried.map(|(name, _)| name).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed: BTreeSet<_> = decided_calls().map(|(_, number)| number).collect();
        let of_listed = self.calls.intersection(&listed).count();
        write!(
            formatter,
            "Sandbox: {of_listed} of {} listed calls and {} others x {} foreign arguments x {} daemons (kinds, users): \
             {} tried in their threads, {} reached anything",
            listed.len(),
            self.calls.len() - of_listed,
            self.arguments.len(),
            self.daemons.len(),
            self.tried,
            self.reached.len()
        )
    }
}
