use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

use crate::{AlignedBuf, ReadAt, ReadError, Scratch, Streams, check_range};

/// How much is read ahead at a time, in bytes.
const CHUNK: u64 = 1 << 20;

/// Reads of at least this many bytes are not helped: whoever makes them reads ahead already.
const LARGE_READ: usize = 512 << 10;

/// How much a reader must have read in sequence before anything is read ahead for it, in bytes.
const FIRST_RUN: u64 = 256 << 10;

/// How many chunks are read ahead of a reader.
const DEPTH: u64 = 2;

/// How many chunks are kept at most: enough for eight readers, each with the one it reads, in
/// 24 MiB.
const MAX_CHUNKS: usize = 24;

/// Reads another source ahead of readers that read it in order in small pieces, in threads of its
/// own. What it hands out early, the source had handed out: over a source that verifies, nothing
/// is ever kept that was not verified.
pub struct ReadAhead {
    shared: Arc<Shared>,
    streams: Streams,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    source: Arc<dyn ReadAt>,
    state: Mutex<State>,
    /// Something was queued, or it is over.
    queued: Condvar,
    /// A chunk has come, or has failed to.
    settled: Condvar,
}

#[derive(Default)]
struct State {
    /// The chunks there are, the one used last at the end.
    chunks: Vec<(u64, Chunk)>,
    /// Numbers of chunks that nobody has begun to read.
    queue: VecDeque<u64>,
    /// Memory of forgotten chunks: new memory would have to be cleared first.
    recycled: Vec<AlignedBuf>,
    over: bool,
}

#[derive(Clone)]
enum Chunk {
    Coming,
    Here(Arc<AlignedBuf>),
    /// It could not be read. It stays for a while, so that it is not read ahead again for each read
    /// of the bytes before it; who needs it reads it, and gets the reason.
    Failed,
}

/// A chunk that a thread is reading. When this is dropped, however that comes, nobody waits for the
/// chunk any longer.
struct Reading<'a> {
    shared: &'a Shared,
    number: u64,
    /// Its bytes, once they are read.
    bytes: Option<AlignedBuf>,
}

impl ReadAhead {
    /// Reads `source` ahead in up to `threads` threads.
    pub fn new(source: Arc<dyn ReadAt>, threads: NonZeroUsize) -> Self {
        let shared = Arc::new(Shared {
            source,
            state: Mutex::default(),
            queued: Condvar::new(),
            settled: Condvar::new(),
        });
        let start = |number| {
            let shared = shared.clone();
            thread::Builder::new()
                .name(format!("read-ahead-{number}"))
                .spawn(move || shared.work())
        };
        // Without any thread nothing is ever queued, and every read goes straight to the source.
        let threads = (0..threads.get()).map_while(|number| start(number).ok());
        Self {
            threads: threads.collect(),
            shared,
            streams: Streams::default(),
        }
    }

    /// The chunk with this number if it is here, or after waiting for it if it is coming.
    fn chunk(&self, number: u64) -> Option<Arc<AlignedBuf>> {
        let mut state = self.shared.lock();
        loop {
            match state.find(number)? {
                Chunk::Here(bytes) => return Some(bytes),
                Chunk::Failed => return None,
                // Not begun yet: the reader itself is quicker.
                Chunk::Coming if state.take_back(number) => return None,
                Chunk::Coming => {
                    let settled = self.shared.settled.wait(state);
                    state = settled.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Has the chunks after the one with this number read, as far as there is room.
    fn request_after(&self, number: u64) {
        if self.threads.is_empty() {
            return;
        }
        let chunks = self.shared.source.size().div_ceil(CHUNK);
        let mut state = self.shared.lock();
        for next in number + 1..chunks.min(number + 1 + DEPTH) {
            if !state.has(next) {
                if !state.make_room() {
                    break;
                }
                state.chunks.push((next, Chunk::Coming));
                state.queue.push_back(next);
                self.shared.queued.notify_one();
            }
        }
    }
}

impl ReadAt for ReadAhead {
    fn size(&self) -> u64 {
        self.shared.source.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let mut scratch = Scratch::default();
        let bytes = self.read_borrowed(&mut scratch, offset, buf.len())?;
        buf.copy_from_slice(bytes);
        Ok(())
    }

    fn read_borrowed<'s>(
        &self,
        scratch: &'s mut Scratch,
        offset: u64,
        len: usize,
    ) -> Result<&'s [u8], ReadError> {
        check_range(offset, len, self.size())?;
        let source = &self.shared.source;
        if len == 0 || len >= LARGE_READ {
            return source.read_borrowed(scratch, offset, len);
        }
        let last = offset + len as u64 - 1;
        let (first_chunk, last_chunk) = (offset / CHUNK, last / CHUNK);
        if self.streams.note(&(offset..last + 1)) >= FIRST_RUN {
            self.request_after(last_chunk);
        }
        let start = (offset % CHUNK) as usize;
        if first_chunk == last_chunk
            && let Some(bytes) = self.chunk(first_chunk)
        {
            return Ok(scratch.share(bytes, start..start + len));
        }
        if first_chunk != last_chunk
            && let (Some(first), Some(last)) = (self.chunk(first_chunk), self.chunk(last_chunk))
        {
            let (from_first, from_last) = scratch.grown(len).split_at_mut(CHUNK as usize - start);
            from_first.copy_from_slice(&first.as_slice()[start..]);
            from_last.copy_from_slice(&last.as_slice()[..from_last.len()]);
            return Ok(scratch.grown(len));
        }
        source.read_borrowed(scratch, offset, len)
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.shared.source.will_need(offset, len);
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.queued.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing to say at the end.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is ever left half done while this is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is queued, until it is over.
    fn work(&self) {
        let mut state = self.lock();
        while !state.over {
            let Some(number) = state.queue.pop_front() else {
                let queued = self.queued.wait(state);
                state = queued.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let recycled = state.recycled.pop();
            drop(state);
            let mut reading = Reading {
                shared: self,
                number,
                bytes: None,
            };
            reading.bytes = self.read(number, recycled);
            drop(reading);
            state = self.lock();
        }
    }

    /// Reads a chunk; `None` if that fails, for whoever needs it to find out why.
    fn read(&self, number: u64, recycled: Option<AlignedBuf>) -> Option<AlignedBuf> {
        let offset = number * CHUNK;
        let len = CHUNK.min(self.source.size() - offset) as usize;
        let mut bytes = recycled.unwrap_or_default();
        let room = bytes.grown(CHUNK as usize);
        self.source.read_exact_at(&mut room[..len], offset).ok()?;
        Some(bytes)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.shared.lock().settle(self.number, self.bytes.take());
        self.shared.settled.notify_all();
    }
}

impl State {
    fn position(&self, number: u64) -> Option<usize> {
        self.chunks.iter().position(|(own, _)| *own == number)
    }

    fn has(&self, number: u64) -> bool {
        self.position(number).is_some()
    }

    /// A chunk, which is thereby the one used last.
    fn find(&mut self, number: u64) -> Option<Chunk> {
        let chunk = self.chunks.remove(self.position(number)?);
        self.chunks.push(chunk.clone());
        Some(chunk.1)
    }

    /// Takes a chunk off the queue and forgets it, if nobody has begun to read it.
    fn take_back(&mut self, number: u64) -> bool {
        let Some(queued) = self.queue.iter().position(|queued| *queued == number) else {
            return false;
        };
        self.queue.remove(queued);
        self.chunks.retain(|(own, _)| *own != number);
        true
    }

    /// Forgets, if there are as many chunks as may be, the one that was not used for longest;
    /// whether there is room now.
    fn make_room(&mut self) -> bool {
        if self.chunks.len() < MAX_CHUNKS {
            return true;
        }
        let is_settled = |(_, chunk): &(u64, Chunk)| !matches!(chunk, Chunk::Coming);
        let Some(oldest) = self.chunks.iter().position(is_settled) else {
            return false;
        };
        // Memory that a reader still has a share of is left to that reader.
        if let (_, Chunk::Here(bytes)) = self.chunks.remove(oldest)
            && let Some(bytes) = Arc::into_inner(bytes)
        {
            self.recycled.push(bytes);
        }
        true
    }

    fn settle(&mut self, number: u64, read: Option<AlignedBuf>) {
        let Some(position) = self.position(number) else {
            return;
        };
        self.chunks[position].1 = match read {
            Some(bytes) => Chunk::Here(Arc::new(bytes)),
            None => Chunk::Failed,
        };
    }
}
