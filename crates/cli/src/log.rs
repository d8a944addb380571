//! The log of a server process. Logging never blocks the server, and its rate is limited.

mod destination;
mod fields;
mod journal;
mod kind;
mod queue;
mod rate_limit;

use std::{io, panic, sync::Arc, time::Instant};

use tracing::{Event, Subscriber};
use tracing_subscriber::{
    EnvFilter,
    filter::LevelFilter,
    fmt,
    layer::{Context, Filter, Layer, SubscriberExt},
    registry,
    util::SubscriberInitExt,
};

pub(crate) use self::destination::LogFile;
use self::{
    fields::Fields,
    journal::WithPriority,
    kind::{LineKind, message},
    queue::Queue,
    rate_limit::{Admission, LeftOut, RateLimit},
};

/// The rate limit of each kind of line.
type Kinds = RateLimit<LineKind>;

/// The log of this process, written to standard error.
#[derive(Clone)]
pub(crate) struct Log {
    kinds: Arc<Kinds>,
    queue: Queue,
}

impl Log {
    /// Starts logging. The environment variable `RUST_LOG` selects the events; the default level is
    /// info.
    ///
    /// # Errors
    /// The system could not create a thread.
    pub(crate) fn start() -> io::Result<Self> {
        let kinds = Arc::new(Kinds::new());
        let queue = {
            let kinds = Arc::clone(&kinds);
            Queue::start(move |now| report_left_out(&kinds, now))?
        };
        let level = EnvFilter::builder()
            .with_default_directive(LevelFilter::INFO.into())
            .from_env_lossy();
        let lines = fmt::layer().with_ansi(false).fmt_fields(Fields);
        let lines = lines.with_writer(queue.clone());
        let lines = match WithPriority::if_journal() {
            Some(format) => lines.event_format(format).boxed(),
            None => lines.boxed(),
        };
        let log = Self { kinds, queue };
        let lines = lines.with_filter(log.clone());
        registry().with(level).with(lines).init();
        // By default, the panicking thread, which may be serving a request, would write the message
        // itself and could block.
        panic::set_hook(Box::new(|panic| tracing::error!(%panic, "this is a bug")));
        Ok(log)
    }

    /// Redirects the log from standard error to `file`.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn write_to(&self, file: LogFile) -> io::Result<()> {
        self.queue.write_to(file)
    }

    /// Writes the pending lines, waiting only briefly for a blocked log.
    pub(crate) fn finish(self) {
        self.kinds.take_left_out().into_iter().for_each(report);
        self.queue.drain();
    }
}

/// Drops lines beyond the rate limit of their kind.
impl<S: Subscriber> Filter<S> for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        // Reports on dropped lines are limited along with those lines.
        if event.metadata().target() == module_path!() {
            return true;
        }
        let kind = LineKind::of(event);
        let admitted = self.kinds.admit(kind, Instant::now(), || message(event));
        if admitted == Admission::FirstLeftOut {
            self.queue.wake();
        }
        admitted == Admission::Logged
    }
}

/// Logs how many lines were dropped in periods that have ended. Returns when to check again.
fn report_left_out(kinds: &Kinds, now: Instant) -> Option<Instant> {
    kinds.take_left_out_until(now).into_iter().for_each(report);
    kinds.next_report()
}

fn report(left_out: LeftOut<LineKind>) {
    let LeftOut { count, of } = left_out;
    match of {
        Some((LineKind { uid, rule, .. }, kind)) => {
            tracing::warn!(count, kind, uid, rule, "dropped further lines of this kind");
        }
        None => tracing::warn!(count, "dropped lines of too many users and rules"),
    }
}
