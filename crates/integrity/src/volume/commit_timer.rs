//! Flushing by time: what nobody flushes is durable a while later all the same.

use std::{
    io,
    sync::{Arc, Weak},
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::Volume;

use super::Unflushed;

/// Flushes a volume a while after it was written to, unless somebody else does.
///
/// Its thread sleeps as long as everything is flushed, and ends when this is dropped or a flush has
/// failed. The volume is latched then, so every later write and flush says why.
#[derive(Debug)]
pub struct CommitTimer {
    unflushed: Arc<Unflushed>,
    thread: Option<JoinHandle<()>>,
}

impl CommitTimer {
    /// How long what was written may stay unflushed: as long as the kernel's dm-integrity lets it.
    pub const DEFAULT_TIME: Duration = Duration::from_secs(10);

    /// Begins to flush `volume` whenever something has been written for `time` and not flushed.
    ///
    /// # Errors
    /// What the system says where it gives no thread.
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
        // A panic has been reported.
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
