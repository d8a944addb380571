use std::{
    io::{self, Write, stderr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use tracing_subscriber::fmt::MakeWriter;

use super::LogFile;

/// How many lines wait at most to be written; what comes then is lost, and counted. A line has some
/// 300 bytes, and 20 KiB at most where it has the longest of paths.
const MAX_WAITING: usize = 512;

/// How long the end of the process waits for a log that takes no lines.
const PATIENCE: Duration = Duration::from_secs(1);

/// Lines on their way to the log, which a thread of its own writes: a log that blocks, such as a pipe
/// that nobody reads, makes nobody else wait.
pub(super) struct Queue {
    sender: LineSender,
}

/// What brings lines to a [`Queue`].
#[derive(Clone)]
pub(super) struct LineSender {
    messages: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

enum Message {
    Line(Vec<u8>),
    /// Write to this from now on, and say whether that could be.
    WriteTo(LogFile, SyncSender<io::Result<()>>),
    /// There is something to be reported.
    Wake,
    /// Drop this when all lines before it have been written.
    Flush(SyncSender<()>),
}

impl Queue {
    /// Starts the thread that writes. It calls `report` whenever that is due, which says when it is
    /// due next.
    ///
    /// # Errors
    /// What the system says to a new thread.
    pub(super) fn start(
        report: impl FnMut(Instant) -> Option<Instant> + Send + 'static,
    ) -> io::Result<Self> {
        let (messages, received) = sync_channel(MAX_WAITING);
        let lost = Arc::default();
        let sender = LineSender { messages, lost };
        let lost = Arc::clone(&sender.lost);
        thread::Builder::new().spawn(move || write_lines(&received, &lost, report))?;
        Ok(Self { sender })
    }

    pub(super) fn sender(&self) -> LineSender {
        self.sender.clone()
    }

    /// Writes what waits, and then to `file`.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn write_to(&self, file: LogFile) -> io::Result<()> {
        let (answer, answered) = sync_channel(1);
        let ended = |_| io::Error::other("the log's thread has ended");
        let request = Message::WriteTo(file, answer);
        self.sender.messages.send(request).or(Err(ended(())))?;
        answered.recv().or(Err(ended(())))?
    }

    /// Waits a moment for what waits to be written.
    pub(super) fn flush(&self) {
        let (done, is_done) = sync_channel(0);
        if self.sender.messages.try_send(Message::Flush(done)).is_ok() {
            // It is never sent anything, only dropped.
            let _ = is_done.recv_timeout(PATIENCE);
        }
    }
}

impl LineSender {
    /// Has the thread look whether there is something to be reported.
    pub(super) fn wake(&self) {
        // If there is no room, it is awake and will look.
        let _ = self.messages.try_send(Message::Wake);
    }
}

impl Write for LineSender {
    /// Takes in one line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self
            .messages
            .try_send(Message::Line(line.to_vec()))
            .is_err()
        {
            self.lost.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LineSender {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// The thread's work. Nobody can be told of lines that cannot be written.
fn write_lines(
    messages: &Receiver<Message>,
    lost: &AtomicU64,
    mut report: impl FnMut(Instant) -> Option<Instant>,
) {
    let mut file: Option<LogFile> = None;
    let mut next_report: Option<Instant> = None;
    loop {
        let message = match next_report {
            Some(at) => messages.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => messages.recv().or(Err(RecvTimeoutError::Disconnected)),
        };
        match message {
            Ok(Message::Line(line)) => {
                if let Some(file) = &mut file {
                    file.follow();
                }
                let _ = stderr().write_all(&line);
                match lost.swap(0, Relaxed) {
                    0 => {}
                    count => tracing::warn!(count, "lines were lost, as the log took none"),
                }
            }
            Ok(Message::WriteTo(next, answer)) => {
                let _ = answer.send(next.begin());
                file = Some(next);
            }
            Ok(Message::Flush(done)) => drop(done),
            Ok(Message::Wake) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        next_report = report(Instant::now());
    }
}
