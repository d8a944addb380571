use std::{
    cell::Cell,
    io::{self, IsTerminal, stderr},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use verimount::{Progress, Step, Watcher};
use verimount_sync::Mutex;

use crate::interrupt::{self, go_on};

/// How long work takes before a bar is shown. Shorter work shows none.
const DELAY: Duration = Duration::from_millis(500);

/// Shows the progress of an operation, by a bar for each step, until it is interrupted.
pub(crate) fn watch() -> io::Result<Watcher> {
    interrupt::watch()?;
    let shown: Mutex<Option<(Step, Bar)>> = Mutex::new(None);
    Ok(Watcher::new(move |progress| {
        let mut shown = shown.lock();
        // The old bar is cleared before there is a new one.
        drop(shown.take_if(|(step, _)| *step != progress.step));
        let (_, bar) = shown.get_or_insert_with(|| (progress.step, Bar::of(&progress)));
        bar.set_total(progress.total);
        bar.reach(progress.done);
        go_on()
    }))
}

fn name(step: Step) -> &'static str {
    match step {
        Step::Receive => "receiving",
        Step::Scan => "scanning",
        Step::Compare => "comparing files",
        Step::Build => "building",
        Step::Seal => "sealing",
        Step::Hash => "hashing",
        Step::Verify => "verifying",
        Step::Repair => "repairing",
        Step::Name => "naming files",
        Step::Extract => "extracting",
        Step::Format => "formatting",
        Step::Grow => "growing",
        Step::Recalculate => "recalculating tags",
        Step::Check => "checking",
        Step::Upload => "uploading",
        Step::Download => "downloading",
        _ => "working",
    }
}

/// What a bar shows.
const BYTES: &str = "{msg} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}";

/// What a bar shows where nobody knows how many bytes there are.
const BYTES_SO_FAR: &str = "{msg} {bytes} {binary_bytes_per_sec}";

/// What a bar shows where parts of a tree are counted instead of bytes, and nobody knows how many there are.
const PARTS_SO_FAR: &str = "{msg} {human_pos}";

/// A progress bar. It is on stderr, if that is a terminal, from [`DELAY`] on,
/// and cleared when it is dropped.
pub(crate) struct Bar {
    bar: ProgressBar,
    /// When to show it; `None` if it is shown, or there is no terminal.
    due: Cell<Option<Instant>>,
}

impl Bar {
    /// A bar for `total` bytes, on which `what` is done.
    pub(crate) fn new(total: u64, what: &'static str) -> Self {
        Self::with_template(BYTES, total, what)
    }

    /// A bar for a step that has just begun.
    fn of(progress: &Progress) -> Self {
        let template = match (progress.step, progress.total) {
            (Step::Scan | Step::Name, _) => PARTS_SO_FAR,
            (_, 0) => BYTES_SO_FAR,
            _ => BYTES,
        };
        Self::with_template(template, progress.total, name(progress.step))
    }

    fn with_template(template: &str, total: u64, what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.expect("the template is valid"));
        bar.set_message(what);
        let due = stderr().is_terminal().then(|| Instant::now() + DELAY);
        Self {
            bar,
            due: Cell::new(due),
        }
    }

    /// Changes the total number of bytes.
    pub(crate) fn set_total(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// So many more bytes are done.
    pub(crate) fn add(&self, bytes: u64) {
        self.reach(self.bar.position().saturating_add(bytes));
    }

    /// So many bytes are done in all.
    fn reach(&self, done: u64) {
        if self.due.get().is_some_and(|due| due <= Instant::now()) {
            self.due.set(None);
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
