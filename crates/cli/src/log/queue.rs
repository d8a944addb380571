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

/// The maximum number of pending lines; further lines are lost, and counted. A line has about 300
/// bytes, or up to 41 KiB with the longest paths.
const MAX_WAITING: usize = 512;

/// How long the process waits at its end for a blocked log.
const PATIENCE: Duration = Duration::from_secs(1);

/// A queue of lines, written by a separate thread, so that a blocked log, such as a pipe that
/// nobody reads, blocks no other thread.
#[derive(Clone)]
pub(super) struct Queue {
    messages: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

enum Message {
    Line(Vec<u8>),
    /// Switch to this file, and send back the result.
    WriteTo(LogFile, SyncSender<io::Result<()>>),
    /// Call `report`.
    Wake,
    /// Drop the sender when all earlier lines have been written.
    Flush(SyncSender<()>),
}

impl Queue {
    /// Starts the writing thread. It calls `report` whenever due; `report` returns when it is due
    /// next.
    ///
    /// # Errors
    /// The system could not create a thread.
    pub(super) fn start(
        report: impl FnMut(Instant) -> Option<Instant> + Send + 'static,
    ) -> io::Result<Self> {
        let (messages, received) = sync_channel(MAX_WAITING);
        let lost = Arc::<AtomicU64>::default();
        let counted = lost.clone();
        thread::Builder::new().spawn(move || write_lines(&received, &counted, report))?;
        Ok(Self { messages, lost })
    }

    /// Writes the pending lines, and then switches to `file`.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn write_to(&self, file: LogFile) -> io::Result<()> {
        let (answer, answered) = sync_channel(1);
        let ended = |_| io::Error::other("the log's thread has ended");
        let request = Message::WriteTo(file, answer);
        self.messages.send(request).or(Err(ended(())))?;
        answered.recv().or(Err(ended(())))?
    }

    /// Waits briefly until the pending lines are written.
    pub(super) fn drain(&self) {
        let (done, is_done) = sync_channel(0);
        if self.messages.try_send(Message::Flush(done)).is_ok() {
            // Nothing is ever sent on this channel; the sender is only dropped.
            let _ = is_done.recv_timeout(PATIENCE);
        }
    }

    /// Wakes the thread to call `report`.
    pub(super) fn wake(&self) {
        // If the queue is full, the thread is awake and will call it anyway.
        let _ = self.messages.try_send(Message::Wake);
    }
}

impl Write for Queue {
    /// Queues one line.
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

impl MakeWriter<'_> for Queue {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Writes a line, and returns how many were lost before it. One that cannot be written is lost, too.
fn write_line(mut log: impl Write, line: &[u8], lost: &AtomicU64) -> Option<u64> {
    if log.write_all(line).is_err() {
        lost.fetch_add(1, Relaxed);
        return None;
    }
    Some(lost.swap(0, Relaxed)).filter(|lost| *lost > 0)
}

/// The writing thread.
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
                if let Some(count) = write_line(stderr(), &line, lost) {
                    tracing::warn!(count, "lines were lost while the log was blocked or full");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_room_are_counted_until_there_is_some() {
        let lost = AtomicU64::new(1);
        let mut full: [u8; 3] = [0; 3];
        for _ in 0..2 {
            assert_eq!(write_line(&mut full[..], b"line", &lost), None);
        }
        let mut log = Vec::new();
        assert_eq!(write_line(&mut log, b"line", &lost), Some(3));
        assert_eq!(write_line(&mut log, b"line", &lost), None);
        assert_eq!(log, b"lineline");
    }
}
