use std::{
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use parking_lot::Mutex;

use super::in_order::{Difference, InOrder};
use crate::processors::all_processors;

/// The most threads. The contents of files are read one after the other, so more would wait.
const MAX_THREADS: usize = 4;

/// How many pieces may wait for a thread: enough that the next file is read while the last one is still hashed. With those
/// that are read at a time, of 256 KiB, this is 16 MiB for each thread.
const WAITING: usize = 64;

/// Threads that hash files while others read them.
#[derive(Debug)]
pub(crate) struct Hashers {
    feed: Feed,
    threads: Vec<JoinHandle<Vec<Difference>>>,
    has_failed: Arc<AtomicBool>,
}

/// Where pieces of files are given to the threads.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    lanes: Vec<SyncSender<Message>>,
    buffers: Arc<Buffers>,
}

/// Buffers that were used before: to get new ones from the system takes longer than to fill them. There are no more than can
/// wait for threads.
#[derive(Debug, Default)]
struct Buffers(Mutex<Vec<Vec<u8>>>);

#[derive(Debug)]
enum Message {
    Piece {
        /// The number of the file among those of the thread.
        file: usize,
        offset: u64,
        bytes: Vec<u8>,
    },
    End,
}

impl Hashers {
    /// Threads for these files, which are numbered from 0.
    pub(crate) fn start(files: Vec<InOrder>) -> Self {
        let count = all_processors().get().min(MAX_THREADS);
        let mut shares: Vec<Vec<Option<InOrder>>> = (0..count).map(|_| Vec::new()).collect();
        for (number, file) in files.into_iter().enumerate() {
            shares[number % count].push(Some(file));
        }
        let has_failed = Arc::new(AtomicBool::new(false));
        let buffers = Arc::new(Buffers::default());
        let lanes = shares.into_iter().map(|share| {
            let (send, receive) = sync_channel(WAITING);
            let (has_failed, buffers) = (has_failed.clone(), buffers.clone());
            let run = move || hash(share, &receive, &buffers, &has_failed);
            (send, thread::spawn(run))
        });
        let (lanes, threads) = lanes.unzip();
        Self {
            feed: Feed { lanes, buffers },
            threads,
            has_failed,
        }
    }

    pub(crate) fn feed(&self) -> Feed {
        self.feed.clone()
    }

    /// Whether it is known already that a file is not what it must be.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// Waits for the threads. All files have been given to them, or one is known to be wrong.
    pub(crate) fn finish(self) -> Vec<Difference> {
        self.feed.lanes.iter().for_each(|lane| {
            // Fails if the thread has panicked, which comes out below.
            let _ = lane.send(Message::End);
        });
        let ended = self.threads.into_iter().map(JoinHandle::join);
        let found = ended.flat_map(|found| found.unwrap_or_else(|panic| resume_unwind(panic)));
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(|difference| difference.entry);
        found
    }
}

impl Feed {
    /// Gives a piece of a file to its thread.
    pub(crate) fn add(&self, file: usize, offset: u64, bytes: &[u8]) {
        let (lane, file) = (file % self.lanes.len(), file / self.lanes.len());
        let bytes = self.buffers.filled(bytes);
        // Fails if the thread has panicked, which comes out where it is waited for.
        let _ = self.lanes[lane].send(Message::Piece {
            file,
            offset,
            bytes,
        });
    }
}

impl Buffers {
    /// A buffer with these bytes.
    fn filled(&self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = self.0.lock().pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        buffer
    }

    fn give_back(&self, buffer: Vec<u8>) {
        self.0.lock().push(buffer);
    }
}

/// Hashes the files of one thread.
fn hash(
    mut files: Vec<Option<InOrder>>,
    pieces: &Receiver<Message>,
    buffers: &Buffers,
    has_failed: &AtomicBool,
) -> Vec<Difference> {
    let mut found = Vec::new();
    loop {
        match pieces.recv() {
            Ok(Message::Piece {
                file,
                offset,
                bytes,
            }) => {
                let place = &mut files[file];
                let used = match place {
                    Some(file) => file.add(offset, bytes),
                    None => Some(bytes),
                };
                used.into_iter()
                    .for_each(|buffer| buffers.give_back(buffer));
                if let Some(file) = place.take_if(|file| file.is_complete()) {
                    found.extend(file.finish());
                }
            }
            // Not all was read because a file is wrong.
            Ok(Message::End) if has_failed.load(Relaxed) => return found,
            Ok(Message::End) => break,
            // Reading has failed.
            Err(_) => return found,
        }
        if !found.is_empty() {
            // The others need not be complete.
            has_failed.store(true, Relaxed);
            return found;
        }
    }
    // Those that are empty, or end with a hole.
    found.extend(files.into_iter().flatten().flat_map(InOrder::finish));
    found
}
