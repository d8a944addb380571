//! Periodic flushing: writes become durable after a while even if no client flushes.

use std::{
    io,
    sync::{Arc, Weak},
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::Volume;

use super::Unflushed;

/// Flushes a volume a while after a write, unless a client flushes first.
///
/// Its thread sleeps while everything is flushed, and ends when this is dropped or a flush fails. A
/// failed flush latches the volume, so every later write and flush reports the cause.
#[derive(Debug)]
pub struct CommitTimer {
    unflushed: Arc<Unflushed>,
    thread: Option<JoinHandle<()>>,
}

impl CommitTimer {
    /// The default time that writes may stay unflushed, as in the kernel's dm-integrity.
    pub const DEFAULT_TIME: Duration = Duration::from_secs(10);

    /// Starts to flush `volume` whenever a write has been unflushed for `time`.
    ///
    /// # Errors
    /// The system could not create a thread.
    pub fn start(volume: &Arc<Volume>, time: Duration) -> io::Result<Self> {
        let unflushed = volume.unflushed.clone();
        unflushed.begin_waiting();
        let volume = Arc::downgrade(volume);
        let waited_for = unflushed.clone();
        let work = move || flush_when_due(&volume, &waited_for, time);
        let thread = thread::Builder::new().name("commit timer".into());
        Ok(Self {
            unflushed,
            thread: Some(thread.spawn(work)?),
        })
    }
}

impl Drop for CommitTimer {
    fn drop(&mut self) {
        self.unflushed.end_waiting();
        // The thread has already reported its panic.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn flush_when_due(volume: &Weak<Volume>, unflushed: &Unflushed, time: Duration) {
    while unflushed.wait_until_due(time) {
        let Some(volume) = volume.upgrade() else {
            return;
        };
        if volume.flush().is_err() {
            return;
        }
    }
}
