use std::{
    convert::Infallible,
    io, mem,
    ops::ControlFlow,
    panic::resume_unwind,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{
            Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel,
        },
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use verimount_source::all_processors;
use verimount_sync::Mutex;

use super::in_order::{Difference, InOrder, Stopped};
use crate::{Error, fault::ContentFault};

/// The most threads. The contents of files are read one after the other, so more would wait.
const MAX_THREADS: usize = 4;

/// The longest piece in bytes. What is read at a time may be longer.
const PIECE: usize = 256 << 10;

/// How many pieces may wait for a thread: enough that the next file is read while the last one is still hashed. This is 16 MiB
/// for each thread.
const WAITING: usize = 64;

/// How often somebody who waits for the threads is asked whether to go on.
const PATIENCE: Duration = Duration::from_millis(20);

/// Threads that hash files while others read them. They stop when this is dropped.
#[derive(Debug)]
pub(crate) struct Hashers {
    feed: Feed,
    threads: Vec<JoinHandle<Vec<Difference>>>,
    /// Ends with the last thread.
    ended: Receiver<Infallible>,
}

/// What all threads know.
#[derive(Debug, Default)]
struct State {
    /// Whether a file is not what it must be.
    has_failed: AtomicBool,
    /// Whether nobody waits for the others.
    is_stopped: AtomicBool,
    buffers: Buffers,
}

/// Where pieces of files are given to the threads.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    lanes: Vec<SyncSender<Message>>,
    state: Arc<State>,
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
    ///
    /// # Errors
    /// Those of the system, if there can be no more threads.
    pub(crate) fn start(files: Vec<InOrder>) -> io::Result<Self> {
        let count = all_processors().get().min(MAX_THREADS).min(files.len());
        let mut shares: Vec<Vec<Option<InOrder>>> = (0..count).map(|_| Vec::new()).collect();
        for (number, file) in files.into_iter().enumerate() {
            shares[number % count].push(Some(file));
        }
        let state = Arc::new(State::default());
        let (end, ended) = channel();
        let lanes = shares.into_iter().map(|share| {
            let (send, receive) = sync_channel(WAITING);
            let (state, end): (_, Sender<Infallible>) = (state.clone(), end.clone());
            let thread = thread::Builder::new().spawn(move || {
                let _ended_with_the_thread = end;
                hash(share, &receive, &state)
            });
            Ok((send, thread?))
        });
        let lanes: io::Result<Vec<_>> = lanes.collect();
        let (lanes, threads) = lanes?.into_iter().unzip();
        let feed = Feed { lanes, state };
        Ok(Self {
            feed,
            threads,
            ended,
        })
    }

    pub(crate) fn feed(&self) -> Feed {
        self.feed.clone()
    }

    /// Has `work` feed all files to the threads, as long as nothing is wrong, and returns the first difference if there is one.
    /// `at` is what is worked on.
    pub(crate) fn watch<T>(
        self,
        at: &Path,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
        work: impl FnOnce(&mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<T, Error>,
    ) -> Result<Result<T, Difference>, Error> {
        let worked = work(&mut |bytes| {
            if self.has_failed() {
                ControlFlow::Break(())
            } else {
                progress(bytes)
            }
        });
        if worked.is_err() && !self.has_failed() {
            return worked.map(Ok);
        }
        match self.finish(progress) {
            Err(Stopped) => Err(ContentFault::Cancelled.at(at)),
            Ok(Some(difference)) => Ok(Err(difference)),
            Ok(None) => worked.map(Ok),
        }
    }

    /// Whether it is known already that a file is not what it must be.
    fn has_failed(&self) -> bool {
        self.feed.state.has_failed.load(Relaxed)
    }

    /// Waits for the threads. All files have been given to them, or one is known to be wrong.
    fn finish(
        mut self,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Option<Difference>, Stopped> {
        for lane in mem::take(&mut self.feed.lanes) {
            let mut end = Message::End;
            // Fails if the thread has found a difference, or has panicked, which comes out below.
            while let Err(TrySendError::Full(unsent)) = lane.try_send(end) {
                end = unsent;
                self.wait(progress)?;
            }
        }
        while !self.wait(progress)? {}
        let ended = mem::take(&mut self.threads)
            .into_iter()
            .map(JoinHandle::join);
        let found = ended.flat_map(|found| found.unwrap_or_else(|panic| resume_unwind(panic)));
        Ok(found.min_by_key(|difference| difference.entry))
    }

    /// Waits a little, unless `progress` wants no more, and returns whether all threads have ended.
    fn wait(&self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<bool, Stopped> {
        match self.ended.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Disconnected) => Ok(true),
            _ if progress(0).is_break() => Err(Stopped),
            _ => Ok(false),
        }
    }
}

impl Drop for Hashers {
    fn drop(&mut self) {
        self.feed.state.is_stopped.store(true, Relaxed);
    }
}

impl Feed {
    /// Gives bytes of a file to its thread.
    pub(crate) fn add(&self, file: usize, mut offset: u64, bytes: &[u8]) {
        let (lane, file) = (file % self.lanes.len(), file / self.lanes.len());
        for piece in bytes.chunks(PIECE) {
            let bytes = self.state.buffers.filled(piece);
            // Fails if the thread has found a difference, or has panicked, which comes out where it is waited for.
            let _ = self.lanes[lane].send(Message::Piece {
                file,
                offset,
                bytes,
            });
            offset += piece.len() as u64;
        }
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

/// Hashes the files of one thread, and returns the first differences that are found.
fn hash(
    mut files: Vec<Option<InOrder>>,
    pieces: &Receiver<Message>,
    state: &State,
) -> Vec<Difference> {
    let found = differences(&mut files, pieces, state).unwrap_or_else(|Stopped| Vec::new());
    if !found.is_empty() {
        // The others need not be complete.
        state.has_failed.store(true, Relaxed);
        state.is_stopped.store(true, Relaxed);
    }
    found
}

fn differences(
    files: &mut [Option<InOrder>],
    pieces: &Receiver<Message>,
    state: &State,
) -> Result<Vec<Difference>, Stopped> {
    let stop = &state.is_stopped;
    // Reading has failed if nobody sends any longer.
    while let Message::Piece {
        file,
        offset,
        bytes,
    } = pieces.recv().map_err(|_| Stopped)?
    {
        let place = &mut files[file];
        let used = match place {
            Some(file) => file.add(offset, bytes, stop)?,
            None => Some(bytes),
        };
        if let Some(buffer) = used {
            state.buffers.give_back(buffer);
        }
        if let Some(file) = place.take_if(|file| file.is_complete()) {
            let found = file.finish(stop)?;
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }
    // Not all was read if a file is wrong.
    if stop.load(Relaxed) {
        return Err(Stopped);
    }
    // Those that are empty, or have holes.
    for file in files.iter_mut().filter_map(Option::take) {
        let found = file.finish(stop)?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}
