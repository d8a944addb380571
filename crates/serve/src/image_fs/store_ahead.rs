mod listed;

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
    thread,
};

use rustix::io::Errno;
use verimount_fuse::{self as fuse, Connection};
use verimount_source::Scratch;
use verimount_sync::{Condvar, Mutex};
use verimount_tree::NodeId;

use self::listed::{Listed, MOST_AHEAD, READERS};
use crate::VerifiedTree;

pub(super) use self::listed::SmallFile;

/// The most files that wait to be stored: those of all readers.
const MAX_QUEUED: usize = READERS * MOST_AHEAD as usize;

/// Puts small files into the kernel's cache ahead of readers that read them in the order in which they were listed, as `tar` does.
///
/// Such a reader waits for a request for each of them otherwise. What is stored is verified like all that is read.
///
/// The kernel has the pages of a file locked while it asks for them, and waits for that lock when it is given these pages. So
/// this is left to a thread that answers no requests, and for which no other thread waits.
#[derive(Default)]
pub(super) struct StoreAhead(OnceLock<Arc<Shared>>);

struct Shared {
    tree: Arc<VerifiedTree>,
    state: Mutex<State>,
    /// Something was queued, or `over` was set.
    queued: Condvar,
}

#[derive(Default)]
struct State {
    listed: Listed,
    /// Files that are to be stored.
    queue: VecDeque<SmallFile>,
    over: bool,
}

impl StoreAhead {
    /// Begins to store files of `tree`.
    pub(super) fn start(&self, tree: Arc<VerifiedTree>, connection: Connection) {
        let shared = Arc::new(Shared {
            tree,
            state: Mutex::default(),
            queued: Condvar::new(),
        });
        let work = {
            let shared = shared.clone();
            move || shared.work(&connection)
        };
        let thread = thread::Builder::new().name("store-ahead".to_owned());
        // Without it the kernel asks for each file.
        if thread.spawn(work).is_ok() {
            let _ = self.0.set(shared);
        }
    }

    /// The kernel was told of these files, in this order.
    pub(super) fn listed(&self, files: Vec<SmallFile>) {
        if let Some(shared) = self.0.get() {
            let listed = &mut shared.state.lock().listed;
            files.into_iter().for_each(|file| listed.add(file));
        }
    }

    /// The beginning of a file is being read.
    pub(super) fn reached(&self, node: NodeId) {
        if let Some(shared) = self.0.get() {
            shared.reached(node);
        }
    }

    /// Ends the thread.
    pub(super) fn end(&self) {
        if let Some(shared) = self.0.get() {
            shared.end();
        }
    }
}

impl Drop for StoreAhead {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn reached(&self, node: NodeId) {
        let mut state = self.state.lock();
        let State { listed, queue, .. } = &mut *state;
        // The kernel asks for it already.
        queue.retain(|queued| queued.node != node);
        let room = MAX_QUEUED - queue.len();
        let before = queue.len();
        queue.extend(listed.reached(node).take(room));
        if queue.len() > before {
            self.queued.notify_one();
        }
    }

    fn end(&self) {
        self.state.lock().over = true;
        self.queued.notify_one();
    }

    /// The next file to store; `None` at the end.
    fn next(&self) -> Option<SmallFile> {
        let mut state = self.state.lock();
        while !state.over {
            match state.queue.pop_front() {
                Some(file) => return Some(file),
                None => state = self.queued.wait(state),
            }
        }
        None
    }

    fn work(&self, connection: &Connection) {
        let mut scratch = Scratch::default();
        while let Some(SmallFile { node, size }) = self.next() {
            // If it cannot be read, its reader will be told so, if there is one.
            let Ok(bytes) = self.tree.unasked_read(node, size as usize, &mut scratch) else {
                continue;
            };
            match connection.store(fuse::NodeId(node.get()), 0, bytes) {
                Ok(()) => self.tree.stored_ahead(),
                // The kernel has forgotten the file.
                Err(Errno::NOENT) => {}
                // The mount has ended, or the kernel takes none.
                Err(_) => self.end(),
            }
        }
    }
}
