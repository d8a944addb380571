//! Many sequences at the same time: most of their time is waiting.

use std::{
    panic::resume_unwind,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{figures::Figures, image::Image, trial::trial};

/// How many sequences run at the same time.
const LANES: usize = 32;

/// What lasts longer hangs. Deadlines are a second.
const PATIENCE: Duration = Duration::from_secs(120);

/// Threads that each try sequences until there are no more.
pub(crate) struct Lanes(Vec<Lane>);

struct Lane {
    thread: JoinHandle<Figures>,
    doing: Arc<Doing>,
}

/// What a lane is doing, and since when.
pub(crate) struct Doing(Mutex<(String, Instant)>);

impl Doing {
    fn new() -> Self {
        Self(Mutex::new((String::new(), Instant::now())))
    }

    pub(crate) fn begins(&self, what: String) {
        *self.0.lock().unwrap() = (what, Instant::now());
    }

    fn assert_soon(&self) {
        // What a lane that failed was doing, is of no interest.
        if let Ok(doing) = self.0.lock() {
            assert!(doing.1.elapsed() < PATIENCE, "it hangs: {}", doing.0);
        }
    }
}

impl Lanes {
    pub(crate) fn start(seed: u64, count: u64, image: Arc<Image>) -> Self {
        let next = Arc::new(AtomicU64::new(0));
        let start = |_| {
            let doing = Arc::new(Doing::new());
            let (next, image) = (next.clone(), image.clone());
            let thread = thread::spawn({
                let doing = doing.clone();
                move || {
                    let mut figures = Figures::default();
                    loop {
                        let number = next.fetch_add(1, SeqCst);
                        if number >= count {
                            return figures;
                        }
                        figures += trial(seed.wrapping_add(number), &image, &doing);
                    }
                }
            });
            Lane { thread, doing }
        };
        Self((0..LANES).map(start).collect())
    }

    /// Waits for all.
    ///
    /// # Panics
    /// As one of them does, or if one hangs: it is then not waited for.
    pub(crate) fn finish(self) -> Figures {
        let mut figures = Figures::default();
        for lane in self.0 {
            while !lane.thread.is_finished() {
                lane.doing.assert_soon();
                thread::sleep(Duration::from_millis(5));
            }
            figures += lane
                .thread
                .join()
                .unwrap_or_else(|panic| resume_unwind(panic));
        }
        figures
    }
}
