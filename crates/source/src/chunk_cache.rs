use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    ops::Range,
    sync::Arc,
    thread::{self, JoinHandle},
};

use verimount_sync::{Condvar, Mutex, MutexGuard};

use crate::{AlignedBuf, ReadAt, ReadError, Scratch, announced::Announced, check_range};

/// Unit of reading and keeping, in bytes.
const CHUNK: u64 = 1 << 20;

/// Reads of at least this many bytes bypass the chunks that are not read yet: their reader reads ahead already.
const LARGE_READ: usize = 512 << 10;

/// How many chunks are read ahead of a reader.
const DEPTH: u64 = 2;

/// The most chunks that are kept, 24 MiB: enough for eight readers, each with [`DEPTH`] chunks
/// ahead and the one it reads.
const MAX_CHUNKS: usize = 24;

/// Reads chunks of another source, in threads of its own, before readers of small pieces [reach](ReadAt::will_reach) them.
/// It keeps only bytes that the source returned: over a source that verifies, only verified bytes.
pub struct ChunkCache {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    source: Arc<dyn ReadAt>,
    state: Mutex<State>,
    /// Something was queued, or `over` was set.
    queued: Condvar,
    /// A chunk was read, or has failed.
    settled: Condvar,
}

#[derive(Default)]
struct State {
    announced: Announced,
    /// All chunks, the most recently used last.
    chunks: Vec<(u64, Chunk)>,
    /// Numbers of chunks that no thread has begun to read.
    queue: VecDeque<u64>,
    /// Memory of evicted chunks, reused because new memory would have to be cleared first.
    recycled: Vec<AlignedBuf>,
    over: bool,
}

#[derive(Clone)]
enum Chunk {
    Coming,
    Here(Arc<AlignedBuf>),
    /// It could not be read. It stays for a while, so that it is not read ahead again for each read
    /// of the bytes before it. A reader that needs it reads the source, and gets the error.
    Failed,
}

/// A chunk that is being read. Dropping this, even in a panic, wakes all that wait for it.
struct Reading<'a> {
    shared: &'a Shared,
    number: u64,
    /// Its bytes, after they were read.
    bytes: Option<AlignedBuf>,
}

impl ChunkCache {
    /// Reads `source` in up to `threads` threads.
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
        let threads = (0..threads.get()).map_while(|number| start(number).ok());
        Self {
            threads: threads.collect(),
            shared,
        }
    }

    /// The chunk with this number, if it was read ahead; waits for it if it is being read, and reads it if no thread has begun to.
    fn chunk<'s>(
        &'s self,
        number: u64,
        mut state: MutexGuard<'s, State>,
    ) -> Option<Arc<AlignedBuf>> {
        loop {
            match state.find(number)? {
                Chunk::Here(bytes) => return Some(bytes),
                Chunk::Failed => return None,
                // Waking a thread would take longer.
                Chunk::Coming if state.take(number) => {
                    self.shared.read_chunk(number, state);
                    state = self.shared.state.lock();
                }
                Chunk::Coming => state = self.shared.settled.wait(state),
            }
        }
    }

    /// Reads from the source what is in no chunk. Without chunks nothing is copied.
    fn read_large<'s>(
        &self,
        scratch: &'s mut Scratch,
        offset: u64,
        len: usize,
    ) -> Result<&'s [u8], ReadError> {
        let source = &self.shared.source;
        let wanted = offset..offset + len as u64;
        let numbers = offset / CHUNK..wanted.end.div_ceil(CHUNK);
        let chunks = numbers.filter_map(|number| Some((number, self.for_large(number, &wanted)?)));
        let chunks: Vec<_> = chunks.collect();
        if chunks.is_empty() {
            return source.read_borrowed(scratch, offset, len);
        }
        let (mut rest, mut at) = (scratch.grown(len), offset);
        for (number, bytes) in chunks {
            let part = overlap(&wanted, number);
            let (before, behind) = rest.split_at_mut((part.start - at) as usize);
            let (here, behind) = behind.split_at_mut((part.end - part.start) as usize);
            if !before.is_empty() {
                source.read_exact_at(before, at)?;
            }
            here.copy_from_slice(&bytes.as_slice()[(part.start % CHUNK) as usize..][..here.len()]);
            (rest, at) = (behind, part.end);
        }
        if !rest.is_empty() {
            source.read_exact_at(rest, at)?;
        }
        Ok(scratch.grown(len))
    }

    /// The chunk with this number for a reader that wants this range. If it wants all of a chunk that no thread has begun to read,
    /// none will: to read it into the reader's memory saves a copy.
    fn for_large(&self, number: u64, wanted: &Range<u64>) -> Option<Arc<AlignedBuf>> {
        let mut state = self.shared.state.lock();
        let part = overlap(wanted, number);
        let is_whole = part.end - part.start == CHUNK;
        if is_whole && state.queue.contains(&number) {
            state.forget(number);
            return None;
        }
        self.chunk(number, state)
    }

    /// Queues the chunks after the one with the byte before `end`, if the reader will go on and as far as there is room.
    fn request_after(&self, end: u64) -> MutexGuard<'_, State> {
        let number = (end - 1) / CHUNK;
        let mut state = self.shared.state.lock();
        let chunks = match state.announced.until(end) {
            until if until == self.size() => until.div_ceil(CHUNK),
            until => until / CHUNK,
        };
        for next in number + 1..chunks.min(number + 1 + DEPTH) {
            // One that is there stays there until the reader comes to it.
            if state.find(next).is_none() {
                if !state.make_room() {
                    break;
                }
                state.chunks.push((next, Chunk::Coming));
                state.queue.push_back(next);
                self.shared.queued.notify_one();
                state.check();
            }
        }
        state
    }
}

impl ReadAt for ChunkCache {
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
        if len >= LARGE_READ {
            return self.read_large(scratch, offset, len);
        }
        if len == 0 {
            return source.read_borrowed(scratch, offset, len);
        }
        let last = offset + len as u64 - 1;
        let (first_chunk, last_chunk) = (offset / CHUNK, last / CHUNK);
        let start = (offset % CHUNK) as usize;
        let state = self.request_after(last + 1);
        let Some(first) = self.chunk(first_chunk, state) else {
            return source.read_borrowed(scratch, offset, len);
        };
        if first_chunk == last_chunk {
            return Ok(scratch.share(first, start..start + len));
        }
        if let Some(last) = self.chunk(last_chunk, self.shared.state.lock()) {
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

    fn will_reach(&self, offset: u64, len: u64) {
        // Without threads every read goes directly to the source.
        if !self.threads.is_empty() {
            let end = offset.saturating_add(len).min(self.size());
            self.shared.state.lock().announced.add(offset..end);
        }
        self.shared.source.will_reach(offset, len);
    }
}

/// The bytes of a range that are in a chunk.
fn overlap(range: &Range<u64>, number: u64) -> Range<u64> {
    let start = number * CHUNK;
    range.start.max(start)..range.end.min(start + CHUNK)
}

impl Drop for ChunkCache {
    fn drop(&mut self) {
        self.shared.state.lock().over = true;
        self.shared.queued.notify_all();
        for thread in self.threads.drain(..) {
            // If the thread panicked, there is nobody to tell.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Worker loop: reads queued chunks until `Drop` sets `over`.
    fn work(&self) {
        let mut state = self.state.lock();
        while !state.over {
            let Some(number) = state.queue.pop_front() else {
                state = self.queued.wait(state);
                continue;
            };
            self.read_chunk(number, state);
            state = self.state.lock();
        }
    }

    /// Reads a chunk that was taken from the queue.
    fn read_chunk(&self, number: u64, mut state: MutexGuard<'_, State>) {
        let recycled = state.recycled.pop();
        drop(state);
        let mut reading = Reading {
            shared: self,
            number,
            bytes: None,
        };
        reading.bytes = self.read(number, recycled);
    }

    /// Reads a chunk; `None` if that fails. A reader that needs it will get the error.
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
        self.shared
            .state
            .lock()
            .settle(self.number, self.bytes.take());
        self.shared.settled.notify_all();
    }
}

impl State {
    fn position(&self, number: u64) -> Option<usize> {
        self.chunks.iter().position(|(own, _)| *own == number)
    }

    /// A chunk, which becomes the most recently used.
    fn find(&mut self, number: u64) -> Option<Chunk> {
        let chunk = self.chunks.remove(self.position(number)?);
        self.chunks.push(chunk.clone());
        Some(chunk.1)
    }

    /// Takes a chunk from the queue; `false` if a thread has begun to read it.
    fn take(&mut self, number: u64) -> bool {
        let queued = self.queue.iter().position(|queued| *queued == number);
        queued.is_some_and(|queued| self.queue.remove(queued).is_some())
    }

    /// Evicts the least recently used chunk if there are [`MAX_CHUNKS`]; whether there is room now.
    fn make_room(&mut self) -> bool {
        if self.chunks.len() < MAX_CHUNKS {
            return true;
        }
        let is_settled = |(_, chunk): &(u64, Chunk)| !matches!(chunk, Chunk::Coming);
        let Some(oldest) = self.chunks.iter().position(is_settled) else {
            return false;
        };
        // Memory that a reader still shares is not reused.
        if let (_, Chunk::Here(bytes)) = self.chunks.remove(oldest)
            && let Some(bytes) = Arc::into_inner(bytes)
        {
            self.recycled.push(bytes);
        }
        true
    }

    /// Removes a chunk that no thread has begun to read.
    fn forget(&mut self, number: u64) {
        self.queue.retain(|queued| *queued != number);
        self.chunks.retain(|(own, _)| *own != number);
        self.check();
    }

    fn settle(&mut self, number: u64, read: Option<AlignedBuf>) {
        let Some(position) = self.position(number) else {
            return;
        };
        debug_assert!(
            matches!(self.chunks[position].1, Chunk::Coming) && !self.queue.contains(&number),
            "two threads read chunk {number}"
        );
        self.chunks[position].1 = match read {
            Some(bytes) => Chunk::Here(Arc::new(bytes)),
            None => Chunk::Failed,
        };
        self.check();
    }

    fn check(&self) {
        let state = |number| {
            self.position(number)
                .map(|position| &self.chunks[position].1)
        };
        let memory = |(_, chunk): &&(u64, Chunk)| matches!(chunk, Chunk::Here(_));
        debug_assert!(self.chunks.len() <= MAX_CHUNKS);
        debug_assert!(
            self.chunks.iter().filter(memory).count() + self.recycled.len() <= MAX_CHUNKS,
            "memory is kept beyond the limit"
        );
        debug_assert!(
            (0..self.chunks.len()).all(|own| self.position(self.chunks[own].0) == Some(own)),
            "a chunk is kept twice"
        );
        debug_assert!(
            self.queue
                .iter()
                .all(|number| matches!(state(*number), Some(Chunk::Coming))),
            "what is queued has no place"
        );
    }
}
