use std::{
    collections::{HashMap, VecDeque},
    io, mem,
    time::{Duration, Instant},
};

use crate::{AuditStatus, Line, Outcome, Tally, Target, target::Failed};

/// The most bytes that wait to be written for requests that wait: each is of a thread of some process.
const MAX_HELD: usize = 64 << 20;

/// The most bytes that wait to be written for requests that went on.
const MAX_BEHIND: usize = 4 << 20;

/// The most bytes that are written at once.
const MAX_BATCH: usize = 256 << 10;

/// Is told how a request goes on.
pub(crate) type Resume = Box<dyn FnOnce(Outcome) + Send>;

/// Lines that were not written yet, and who waits for that.
pub(crate) struct State {
    /// The first may have been begun. Not empty only while the target is written to, or does not take more.
    queue: VecDeque<Entry>,
    /// The path of the target.
    name: String,
    /// How many of them are being written.
    in_flight: usize,
    bytes: usize,
    /// What is known of requests that wait, or waited and are about to be asked again.
    tickets: HashMap<u64, Ticket>,
    /// Where lines go, unless somebody writes to it.
    pub(crate) target: Option<Target>,
    /// Who writes to it.
    pub(crate) writing: Option<Writing>,
    /// It must be opened again before it is written to.
    pub(crate) is_gone: bool,
    /// It should be opened again.
    pub(crate) is_old: bool,
    /// It did not take all that it was given last.
    pub(crate) is_stuck: bool,
    pub(crate) failure: Option<String>,
    /// How many lines were lost since one was written.
    pub(crate) lost: u64,
    /// Whether the clock looks now and then.
    pub(crate) is_watched: bool,
    pub(crate) has_ended: bool,
}

/// Somebody who writes.
pub(crate) struct Writing {
    /// Whose lines are written on the thread of the request itself.
    pub(crate) request: Option<u64>,
    pub(crate) deadline: Instant,
    /// Whether the request has failed since.
    pub(crate) is_overdue: bool,
}

/// The lines of a request.
struct Entry {
    /// `None` if it does not wait for them.
    request: Option<u64>,
    lines: Vec<Line>,
    /// How many bytes of them are in the target.
    written: usize,
    deadline: Instant,
}

struct Ticket {
    lines: Vec<Line>,
    progress: Progress,
}

enum Progress {
    /// `None` until somebody is to be told.
    Waits(Option<Resume>),
    Ended(Outcome),
}

/// Those who are to be told, when no lock is held.
#[derive(Default)]
#[must_use]
pub(crate) struct ToTell(Vec<(Resume, Outcome)>);

impl ToTell {
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    pub(crate) fn tell(self) {
        for (resume, outcome) in self.0 {
            resume(outcome);
        }
    }
}

impl Entry {
    fn len(&self) -> usize {
        self.lines.iter().map(|line| line.text.len()).sum()
    }
}

impl State {
    pub(crate) fn new(target: Target) -> Self {
        Self {
            queue: VecDeque::new(),
            name: target.name(),
            in_flight: 0,
            bytes: 0,
            tickets: HashMap::new(),
            target: Some(target),
            writing: None,
            is_gone: false,
            is_old: false,
            is_stuck: false,
            failure: None,
            lost: 0,
            is_watched: false,
            has_ended: false,
        }
    }

    /// Whether a request may write its lines itself.
    pub(crate) fn is_free(&self) -> bool {
        self.writing.is_none() && self.queue.is_empty() && !self.is_gone && self.target.is_some()
    }

    pub(crate) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// How the request with these lines ended that it waited for; `None` if it has not, or they are others.
    pub(crate) fn take_outcome(&mut self, request: u64, lines: &[Line]) -> Option<Outcome> {
        let ticket = self.tickets.remove(&request)?;
        let is_same = ticket.lines.len() == lines.len()
            && ticket.lines.iter().zip(lines).all(|(a, b)| a.says_as(b));
        match ticket.progress {
            Progress::Ended(outcome) if is_same => Some(outcome),
            _ => None,
        }
    }

    /// Has a request wait. False if there is no room for more.
    pub(crate) fn hold(&mut self, request: u64, lines: Vec<Line>, deadline: Instant) -> bool {
        let ticket = Ticket {
            lines: lines.clone(),
            progress: Progress::Waits(None),
        };
        let is_queued = self.push(Some(request), lines, deadline, MAX_HELD);
        if is_queued {
            self.tickets.insert(request, ticket);
        }
        is_queued
    }

    /// Writes lines later, for a request that goes on. False if there is no room for more.
    pub(crate) fn queue(&mut self, lines: Vec<Line>) -> bool {
        self.push(None, lines, Instant::now(), MAX_BEHIND)
    }

    fn push(
        &mut self,
        request: Option<u64>,
        lines: Vec<Line>,
        deadline: Instant,
        most: usize,
    ) -> bool {
        let entry = Entry {
            request,
            lines,
            written: 0,
            deadline,
        };
        let bytes = self.bytes.saturating_add(entry.len());
        if bytes > most {
            return false;
        }
        self.bytes = bytes;
        self.queue.push_back(entry);
        true
    }

    /// Puts lines first of which some bytes were written. A request waits for them if it is given.
    pub(crate) fn go_on_with(
        &mut self,
        request: Option<u64>,
        lines: Vec<Line>,
        written: usize,
        deadline: Instant,
    ) {
        if let Some(request) = request {
            let ticket = Ticket {
                lines: lines.clone(),
                progress: Progress::Waits(None),
            };
            self.tickets.insert(request, ticket);
        }
        let entry = Entry {
            request,
            lines,
            written,
            deadline,
        };
        self.bytes = self.bytes.saturating_add(entry.len());
        self.queue.push_front(entry);
    }

    /// The next bytes to write, of which [`Self::wrote`] is to be told.
    pub(crate) fn batch(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for entry in &self.queue {
            let begin = bytes.len();
            let texts = entry.lines.iter().map(|line| &line.text);
            texts.for_each(|text| bytes.extend_from_slice(text));
            bytes.drain(begin..begin.saturating_add(entry.written).min(bytes.len()));
            self.in_flight = self.in_flight.saturating_add(1);
            if bytes.len() >= MAX_BATCH {
                break;
            }
        }
        bytes
    }

    /// Notes how many bytes of the batch were written.
    pub(crate) fn wrote(&mut self, mut bytes: usize) -> ToTell {
        self.in_flight = 0;
        let mut told = ToTell::default();
        while let Some(entry) = self.queue.front_mut() {
            let left = entry.len().saturating_sub(entry.written);
            if bytes < left {
                entry.written = entry.written.saturating_add(bytes);
                break;
            }
            bytes = bytes.saturating_sub(left);
            let Some(entry) = self.pop() else { break };
            entry.lines.iter().for_each(|line| line.tally.decided());
            self.end(entry.request, Outcome::Written, &mut told);
        }
        told
    }

    fn pop(&mut self) -> Option<Entry> {
        let entry = self.queue.pop_front()?;
        self.bytes = self.bytes.saturating_sub(entry.len());
        Some(entry)
    }

    /// Fails what has waited for too long. What was begun is still written to its end.
    pub(crate) fn expire(&mut self, now: Instant) -> ToTell {
        self.refuse(|entry| entry.deadline <= now)
    }

    /// Fails all that wait.
    pub(crate) fn refuse_all(&mut self) -> ToTell {
        self.refuse(|_| true)
    }

    /// In one pass: there may be as many as all threads of a machine.
    fn refuse(&mut self, is_due: impl Fn(&Entry) -> bool) -> ToTell {
        let mut told = ToTell::default();
        let waits = |entry: &Entry| entry.request.is_some() && is_due(entry);
        if !self.queue.iter().any(waits) {
            return told;
        }
        let mut left = VecDeque::with_capacity(self.queue.len());
        for (at, mut entry) in mem::take(&mut self.queue).into_iter().enumerate() {
            let due = entry.request.filter(|_| is_due(&entry));
            if due.is_some() {
                self.end(due, Outcome::Refused, &mut told);
                // What was begun is written to its end.
                if at >= self.in_flight && entry.written == 0 {
                    self.bytes = self.bytes.saturating_sub(entry.len());
                    entry.lines.iter().for_each(|line| line.tally.refused());
                    continue;
                }
                entry.request = None;
            }
            left.push_back(entry);
        }
        self.queue = left;
        told
    }

    fn end(&mut self, request: Option<u64>, outcome: Outcome, told: &mut ToTell) {
        let Some((request, ticket)) =
            request.and_then(|request| Some((request, self.tickets.get_mut(&request)?)))
        else {
            return;
        };
        let before = mem::replace(&mut ticket.progress, Progress::Ended(outcome));
        if let Progress::Waits(Some(resume)) = before {
            if outcome == Outcome::Refused {
                self.tickets.remove(&request);
            }
            told.0.push((resume, outcome));
        }
    }

    /// Has `resume` told how a request goes on that waits.
    pub(crate) fn attach(&mut self, request: u64, resume: Resume) -> ToTell {
        let mut told = ToTell::default();
        let Some(ticket) = self.tickets.get_mut(&request) else {
            // It was forgotten: it can only be asked again.
            told.0.push((resume, Outcome::Written));
            return told;
        };
        match &mut ticket.progress {
            Progress::Waits(waits) => *waits = Some(resume),
            Progress::Ended(outcome) => {
                let outcome = *outcome;
                if outcome == Outcome::Refused {
                    self.tickets.remove(&request);
                }
                told.0.push((resume, outcome));
            }
        }
        told
    }

    /// A request waits no longer, or was answered.
    pub(crate) fn forget(&mut self, request: u64) {
        if self.tickets.remove(&request).is_some() {
            // There is no ticket any more, so nobody is told.
            let told = self.refuse(|entry| entry.request == Some(request));
            debug_assert!(told.0.is_empty());
        }
    }

    /// The target did not take all that was given to it.
    pub(crate) fn failed(&mut self, failed: &Failed) {
        self.is_gone |= failed.is_gone;
        self.is_stuck = true;
        if failed.reason.kind() != io::ErrorKind::WouldBlock {
            self.cannot(&failed.reason);
        }
    }

    /// Says once why it cannot be written.
    pub(crate) fn cannot(&mut self, reason: &io::Error) {
        if self.failure.is_none() {
            tracing::error!(%reason, "the audit log cannot be written");
        }
        self.failure = Some(reason.to_string());
    }

    /// The target takes lines again.
    pub(crate) fn recovered(&mut self) {
        self.is_stuck = false;
        if self.failure.take().is_some() {
            tracing::info!("the audit log is written again");
        }
    }

    /// There is another target.
    pub(crate) fn replace(&mut self, target: Target) {
        self.target = Some(target);
        self.is_gone = false;
        self.is_old = false;
        // What was begun in the old one is written whole.
        if let Some(first) = self.queue.front_mut() {
            first.written = 0;
        }
    }

    /// What is left is lost. How many lines that are.
    pub(crate) fn give_up(&mut self) -> (usize, ToTell) {
        let mut told = ToTell::default();
        let mut count = 0usize;
        while let Some(entry) = self.pop() {
            count = count.saturating_add(entry.lines.len());
            let count_one = if entry.request.is_some() {
                Tally::refused
            } else {
                Tally::lost
            };
            entry.lines.iter().for_each(|line| count_one(&line.tally));
            self.end(entry.request, Outcome::Refused, &mut told);
        }
        (count, told)
    }

    pub(crate) fn status(&self) -> AuditStatus {
        AuditStatus {
            target: self.name.clone(),
            waiting: self.queue.len(),
            failure: self.failure.clone(),
        }
    }
}

/// When something that begins now has waited for too long.
pub(crate) fn deadline(patience: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(patience).unwrap_or(now)
}
