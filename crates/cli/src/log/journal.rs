//! How systemd's journal takes lines: it knows when they came, and their priority by what they begin with, see sd-daemon(3).

use std::{env, io::stderr};

use rustix::fs::fstat;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Full, Writer},
    },
    registry::LookupSpan,
};

/// Lines as the journal takes them.
pub(super) struct WithPriority(Format<Full, ()>);

impl WithPriority {
    /// If standard error is the journal, of which the variable has device and inode number.
    pub(super) fn if_journal() -> Option<Self> {
        let stream = env::var("JOURNAL_STREAM").ok()?;
        let found = fstat(stderr()).ok()?;
        let is_it = stream == format!("{}:{}", found.st_dev, found.st_ino);
        is_it.then(|| Self(Format::default().with_ansi(false).without_time()))
    }
}

impl<S, N> FormatEvent<S, N> for WithPriority
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// The priority of syslog(3).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Seek},
        sync::Arc,
    };

    use tracing::subscriber::with_default;
    use tracing_subscriber::{fmt, layer::SubscriberExt, registry};

    use super::*;

    #[test]
    fn lines_begin_with_their_priority_and_have_no_time() {
        let mut file = tempfile::tempfile().unwrap();
        let written = Arc::new(file.try_clone().unwrap());
        let format = WithPriority(Format::default().with_ansi(false).without_time());
        let lines = fmt::layer().with_writer(written);
        with_default(registry().with(lines.event_format(format)), || {
            tracing::error!(block = 7, "mismatch");
            tracing::info!("ending");
        });
        let mut written = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut written).unwrap();
        let starts = written.lines().map(|line| line.split(' ').next().unwrap());
        assert_eq!(starts.collect::<Vec<_>>(), ["<3>ERROR", "<6>"], "{written}");
        assert!(written.contains("mismatch block=7"), "{written}");
    }

    #[test]
    fn a_terminal_is_not_the_journal() {
        assert!(WithPriority::if_journal().is_none());
    }
}
