use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    os::fd::OwnedFd,
    sync::Arc,
    thread::{self, JoinHandle},
};

use rustix::io::Errno;
use verimount_source::Scratch;
use verimount_sync::{Condvar, Mutex};
use verimount_tree::NodeId;

use super::memory::{HUGE_PAGE, NewFile};
use crate::{VerifiedTree, verified_tree::is_mismatch};

/// What a thread reads, verifies and writes at a time, in bytes.
const PIECE: u64 = HUGE_PAGE as u64;

/// Fills files of the memory with verified content. Who waits for a file reads it, so that no file waits for another one whose
/// storage is slow; threads help with all files in turns.
pub(super) struct Loaders {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    tree: Arc<VerifiedTree>,
    queue: Mutex<Queue>,
    queued: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Files with pieces that no thread has begun to read.
    loads: VecDeque<Arc<Load>>,
    has_ended: bool,
}

/// A file that is being loaded.
struct Load {
    node: NodeId,
    size: u64,
    file: NewFile,
    progress: Mutex<Progress>,
    /// All is read, or nothing more will be.
    settled: Condvar,
}

#[derive(Default)]
struct Progress {
    /// The first piece that no thread has begun to read, by its offset.
    next: u64,
    /// How many pieces are being read.
    under_way: usize,
    failure: Option<LoadError>,
}

/// Why a file was not loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadError {
    /// It is damaged, which has been reported.
    Damaged,
    /// It could not be read now, which has been reported, or not be written.
    Failed(Errno),
    /// The mount has ended: nobody needs it.
    Ended,
}

/// A piece that is being read. Dropping this, even in a panic, tells who waits for the file.
struct Piece<'a> {
    load: &'a Load,
    outcome: Result<(), LoadError>,
}

impl Loaders {
    /// Loads files of `tree` with the help of up to `threads` threads.
    pub(super) fn new(tree: Arc<VerifiedTree>, threads: NonZeroUsize) -> Self {
        let shared = Arc::new(Shared {
            tree,
            queue: Mutex::default(),
            queued: Condvar::new(),
        });
        let start = |number| {
            let shared = shared.clone();
            thread::Builder::new()
                .name(format!("load-{number}"))
                .spawn(move || shared.work())
        };
        let threads = (0..threads.get()).map_while(|number| start(number).ok());
        Self {
            threads: threads.collect(),
            shared,
        }
    }

    /// Fills `file` with the content of a file of `size` bytes, which is at least one, waits for that, and seals it.
    ///
    /// # Errors
    /// [`LoadError`].
    pub(super) fn load(
        &self,
        node: NodeId,
        size: u64,
        file: NewFile,
    ) -> Result<OwnedFd, LoadError> {
        let load = Arc::new(Load {
            node,
            size,
            file,
            progress: Mutex::default(),
            settled: Condvar::new(),
        });
        if !self.shared.begin(&load) {
            return Err(LoadError::Ended);
        }
        let mut scratch = Scratch::default();
        while let Some(offset) = load.claim() {
            load.fill_piece(&self.shared.tree, offset, &mut scratch);
        }
        // Threads that wait for other files' storage would keep it, and with it the memory.
        self.shared.forget(&load);
        load.wait()?;
        load.file.seal().map_err(LoadError::Failed)
    }

    /// The bytes of all loads that no thread has begun to read.
    pub(super) fn left(&self) -> u64 {
        let queue = self.shared.queue.lock();
        let left = |load: &Arc<Load>| load.size.saturating_sub(load.progress.lock().next);
        queue.loads.iter().map(left).sum()
    }

    /// Gives up all loads, and all later ones.
    pub(super) fn end(&self) {
        let mut queue = self.shared.queue.lock();
        queue.has_ended = true;
        for load in queue.loads.drain(..) {
            load.fail(LoadError::Ended);
        }
        self.shared.queued.notify_all();
    }
}

impl Drop for Loaders {
    fn drop(&mut self) {
        self.end();
        for thread in self.threads.drain(..) {
            // It panicked; that was reported.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Queues a load. Whether it was, as the mount has not ended.
    fn begin(&self, load: &Arc<Load>) -> bool {
        let mut queue = self.queue.lock();
        if !queue.has_ended {
            queue.loads.push_back(Arc::clone(load));
            self.queued.notify_all();
        }
        !queue.has_ended
    }

    /// Takes out a load of which nothing is left to be claimed.
    fn forget(&self, load: &Arc<Load>) {
        let loads = &mut self.queue.lock().loads;
        loads.retain(|other| !Arc::ptr_eq(other, load));
    }

    fn work(&self) {
        let mut scratch = Scratch::default();
        while let Some((load, offset)) = self.next() {
            load.fill_piece(&self.tree, offset, &mut scratch);
        }
    }

    /// The next piece to be read; `None` if the mount has ended.
    fn next(&self) -> Option<(Arc<Load>, u64)> {
        let mut queue = self.queue.lock();
        loop {
            if queue.has_ended {
                return None;
            }
            let Some(load) = queue.loads.pop_front() else {
                queue = self.queued.wait(queue);
                continue;
            };
            if let Some(offset) = load.claim() {
                queue.loads.push_back(load.clone());
                return Some((load, offset));
            }
        }
    }
}

impl Load {
    /// The offset of a piece that no other thread reads.
    fn claim(&self) -> Option<u64> {
        let mut progress = self.progress.lock();
        let offset = progress.next;
        if offset >= self.size || progress.failure.is_some() {
            return None;
        }
        progress.next += PIECE;
        progress.under_way += 1;
        Some(offset)
    }

    /// Reads a piece that was claimed, and tells who waits for the file.
    fn fill_piece(&self, tree: &VerifiedTree, offset: u64, scratch: &mut Scratch) {
        let mut piece = Piece {
            load: self,
            outcome: Err(LoadError::Failed(Errno::IO)),
        };
        piece.outcome = self.fill(tree, offset, scratch);
    }

    fn fill(
        &self,
        tree: &VerifiedTree,
        offset: u64,
        scratch: &mut Scratch,
    ) -> Result<(), LoadError> {
        let len = PIECE.min(self.size - offset) as usize;
        let bytes = tree.plain_read(self.node, offset, len, scratch);
        let bytes = bytes.map_err(|error| {
            if is_mismatch(&error) {
                LoadError::Damaged
            } else {
                LoadError::Failed(error.errno())
            }
        })?;
        if bytes.len() != len {
            return Err(LoadError::Failed(Errno::IO));
        }
        let written = self.file.write(bytes, offset);
        written.map_err(LoadError::Failed)
    }

    fn fail(&self, error: LoadError) {
        self.progress.lock().failure.get_or_insert(error);
        self.settled.notify_all();
    }

    /// Waits until all is read, or nothing more will be.
    fn wait(&self) -> Result<(), LoadError> {
        let mut progress = self.progress.lock();
        loop {
            let is_over = progress.next >= self.size || progress.failure.is_some();
            if is_over && progress.under_way == 0 {
                return progress.failure.map_or(Ok(()), Err);
            }
            progress = self.settled.wait(progress);
        }
    }
}

impl Drop for Piece<'_> {
    fn drop(&mut self) {
        let mut progress = self.load.progress.lock();
        progress.under_way -= 1;
        if let Err(error) = self.outcome {
            progress.failure.get_or_insert(error);
        }
        self.load.settled.notify_all();
    }
}
