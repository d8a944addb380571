//! The log of a process that stays. Logging never makes the work wait, and never floods the log.

mod destination;
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
    queue::{LineSender, Queue},
    rate_limit::RateLimit,
};

/// The kinds of lines, each by the place in the code that logs it.
type Kinds = RateLimit<tracing::callsite::Identifier>;

/// The log of this process, written to standard error.
pub(crate) struct Log {
    kinds: Arc<Kinds>,
    queue: Queue,
}

impl Log {
    /// Logs what happens from now on. The environment variable `RUST_LOG` chooses what; without it,
    /// all but what is for debugging.
    ///
    /// # Errors
    /// What the system says to a new thread.
    pub(crate) fn start() -> io::Result<Self> {
        let kinds = Arc::new(Kinds::new());
        let queue = {
            let kinds = Arc::clone(&kinds);
            Queue::start(move |now| report_left_out(&kinds, now))?
        };
        let level = EnvFilter::builder()
            .with_default_directive(LevelFilter::INFO.into())
            .from_env_lossy();
        let lines = fmt::layer().with_ansi(false).with_writer(queue.sender());
        let limit = Limit {
            kinds: Arc::clone(&kinds),
            sender: queue.sender(),
        };
        registry().with(level).with(lines.with_filter(limit)).init();
        // By itself, a panic would be written by the thread that serves a request.
        panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
        Ok(Self { kinds, queue })
    }

    /// From now on, writes to `file` instead of standard error.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn write_to(&self, file: LogFile) -> io::Result<()> {
        self.queue.write_to(file)
    }

    /// Writes what waits, if the log takes it in a moment.
    pub(crate) fn finish(self) {
        for (message, count) in self.kinds.take_left_out() {
            say_left_out(&message, count);
        }
        self.queue.flush();
    }
}

/// Lets a line of a kind pass unless there were too many.
struct Limit {
    kinds: Arc<Kinds>,
    sender: LineSender,
}

impl<S: Subscriber> Filter<S> for Limit {
    fn enabled(&self, _: &tracing::Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        // What is said here of other lines is limited with them.
        if event.metadata().target() == module_path!() {
            return true;
        }
        let kind = event.metadata().callsite();
        let admitted = self.kinds.admit(kind, Instant::now(), || message(event));
        if admitted.is_first_left_out() {
            self.sender.wake();
        }
        admitted.is_admitted()
    }
}

/// Says how many lines were left out, where their period is over; when to look again.
fn report_left_out(kinds: &Kinds, now: Instant) -> Option<Instant> {
    for (message, count) in kinds.take_left_out_until(now) {
        say_left_out(&message, count);
    }
    kinds.next_report()
}

fn say_left_out(message: &str, count: u64) {
    tracing::warn!(
        count,
        kind = message,
        "more lines of this kind were not logged"
    );
}

/// The text of an event, without its fields.
fn message(event: &Event<'_>) -> String {
    struct Message(String);
    impl tracing::field::Visit for Message {
        fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
            if field.name() == "message" {
                self.0 = format!("{value:?}");
            }
        }
    }
    let mut message = Message(String::new());
    event.record(&mut message);
    message.0
}
