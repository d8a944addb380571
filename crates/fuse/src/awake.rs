use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// No latency, in microseconds: idle processors do not sleep.
const NONE: i32 = 0;
/// No limit.
const ANY: i32 = -1;

/// How long after the last request the limit is removed: longer than a program that uses a mount
/// pauses between two calls, and short compared to the time in which nobody uses the mount.
const PAUSE: Duration = Duration::from_millis(1);

/// Keeps idle processors awake while requests come.
///
/// A request passes from one processor to another and back. Waking a sleeping processor takes longer
/// than most requests: on a virtual machine some 25 µs each time.
pub struct Awake {
    shared: Arc<Shared>,
    keeper: JoinHandle<()>,
}

struct Shared {
    /// Whether a request came since the keeper last looked.
    asked: AtomicBool,
    ended: AtomicBool,
}

impl Awake {
    /// The kernel's interface to limit the wake-up latency of idle processors (PM QoS). A limit holds
    /// while the file is open, so it never outlives this process.
    pub const PATH: &str = "/dev/cpu_dma_latency";

    /// Starts the thread that sets and removes the limit.
    ///
    /// # Errors
    /// The system's error: only root may set this limit, and not every kernel has it.
    pub fn start() -> io::Result<Self> {
        Self::by(OpenOptions::new().write(true).open(Self::PATH)?)
    }

    /// Does it by this limit, which is opened and not yet set.
    fn by(limit: File) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            asked: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let keeper = {
            let shared = shared.clone();
            let builder = thread::Builder::new().name("awake".to_owned());
            builder.spawn(move || {
                if let Err(error) = shared.keep(limit) {
                    tracing::warn!(%error, "processors are no longer kept awake: {}", Self::PATH);
                }
            })?
        };
        Ok(Self { shared, keeper })
    }

    /// Notes that a request has come.
    pub fn request(&self) {
        // Load before the swap: threads that only load share the cache line.
        let asked = &self.shared.asked;
        if !asked.load(Relaxed) && !asked.swap(true, Relaxed) {
            self.keeper.thread().unpark();
        }
    }
}

impl Shared {
    fn keep(&self, mut limit: File) -> io::Result<()> {
        let mut set = |microseconds: i32| limit.write_all(&microseconds.to_ne_bytes());
        while !self.ended.load(Relaxed) {
            if self.asked.load(Relaxed) {
                set(NONE)?;
                while self.asked.swap(false, Relaxed) {
                    thread::sleep(PAUSE);
                }
                set(ANY)?;
            }
            thread::park();
        }
        Ok(())
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.shared.ended.store(true, Relaxed);
        self.keeper.thread().unpark();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use verimount_testkit::eventually;

    use super::*;

    /// Waits until `count` limits were written, and returns them.
    fn limits(file: &File, count: usize) -> Vec<i32> {
        let len = count * size_of::<i32>();
        eventually("the limits are written", || {
            file.metadata().unwrap().len() >= len as u64
        });
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let (limits, _) = bytes.as_chunks();
        limits.iter().copied().map(i32::from_ne_bytes).collect()
    }

    #[test]
    fn limited_while_requests_come() {
        let file = tempfile::tempfile().unwrap();
        let awake = Awake::by(file.try_clone().unwrap()).unwrap();
        awake.request();
        assert_eq!(limits(&file, 2), [NONE, ANY]);
        awake.request();
        assert_eq!(limits(&file, 4), [NONE, ANY, NONE, ANY]);
    }

    #[test]
    fn ends_when_dropped() {
        let file = tempfile::tempfile().unwrap();
        let awake = Awake::by(file.try_clone().unwrap()).unwrap();
        let shared = Arc::downgrade(&awake.shared);
        awake.request();
        drop(awake);
        // Its thread has dropped its reference.
        eventually("the thread has ended", || shared.strong_count() == 0);
    }
}
