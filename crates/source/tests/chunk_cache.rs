//! Reading chunks ahead changes when bytes are read, never which.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
        mpsc::{self, Sender},
    },
    thread,
    time::Duration,
};

use verimount_source::{ChunkCache, Counting, ReadAhead, ReadAt, ReadError, Scratch};
use verimount_testkit::{Slow, Watched, WatchedEvent, cases};

const MB: usize = 1 << 20;
const THREADS: NonZeroUsize = NonZeroUsize::new(2).unwrap();

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect()
}

/// Reads `source` in chunks ahead of sequential readers.
fn in_chunks(source: Arc<dyn ReadAt>) -> ReadAhead<ChunkCache> {
    ReadAhead::new(ChunkCache::new(source, THREADS))
}

/// Reads `range` in pieces of `piece` bytes and compares.
fn read_in_order(source: &dyn ReadAt, expected: &[u8], start: usize, piece: usize) {
    let mut scratch = Scratch::default();
    for (number, expected) in expected[start..].chunks(piece).enumerate() {
        let offset = (start + number * piece) as u64;
        let read = source.read_borrowed(&mut scratch, offset, expected.len());
        assert_eq!(read.unwrap(), expected, "at {offset}");
    }
}

#[test]
fn a_sequential_reader_is_read_ahead_of() {
    let bytes = bytes(20 * MB + 12345);
    // Over memory, a reader would be quicker than any thread that is to read for it, on a busy machine
    // also over what is a little slower.
    let slow = Slow::new(bytes.clone(), Duration::from_millis(10));
    let counted = Arc::new(Counting::new(slow));
    let source = in_chunks(counted.clone());
    read_in_order(&source, &bytes, 0, 64 << 10);
    let counts = counted.counts();
    // In pieces of 64 KiB these would be 321. A few are read so until the reader is known.
    assert!(counts.requests < 321 / 2, "{counts:?}");
    // What was read in pieces before a chunk was asked for may be read once more with it.
    assert!(counts.bytes < bytes.len() as u64 * 5 / 4, "{counts:?}");
}

#[test]
fn what_a_reader_will_reach_is_handed_down() {
    let bytes = bytes(3 * MB);
    let watched = Arc::new(Watched::new(bytes.clone()));
    let source = in_chunks(watched.clone());
    read_in_order(&source, &bytes, 0, 64 << 10);
    let mut events = watched.take_events();
    events.retain(|(event, _)| *event != WatchedEvent::Read);
    // The fourth piece shows that the reader is sequential; no piece shows that it goes on beyond the end.
    let (_, first) = &events[0];
    assert_eq!(first.start, 4 * (64 << 10));
    let (_, last) = events.last().unwrap();
    assert_eq!(last.end, 3 * MB as u64);
    let is_reach = |(event, _): &(WatchedEvent, _)| *event == WatchedEvent::Reach;
    assert!(events.iter().all(is_reach), "{events:?}");
}

#[test]
fn large_and_random_reads_are_left_alone() {
    let bytes = bytes(20 * MB);
    // Over memory, a reader would be quicker than any thread that is to read for it.
    let slow = Slow::new(bytes.clone(), Duration::from_millis(2));
    let counted = Arc::new(Counting::new(slow));
    let source = in_chunks(counted.clone());
    read_in_order(&source, &bytes, 0, MB);
    // Not where the reader in order was last said to go on.
    for place in [3, 7, 2, 8, 1, 6, 4, 5] {
        let mut buf = [0; 4096];
        source.read_exact_at(&mut buf, (place * MB) as u64).unwrap();
        assert_eq!(buf, bytes[place * MB..][..4096]);
    }
    assert_eq!(counted.counts().requests, 20 + 8);
    assert_eq!(counted.counts().bytes, (20 * MB + 8 * 4096) as u64);
}

#[test]
fn a_large_read_takes_what_was_read_ahead() {
    let bytes = bytes(20 * MB);
    let slow = Slow::new(bytes.clone(), Duration::from_millis(2));
    let counted = Arc::new(Counting::new(slow));
    let source = in_chunks(counted.clone());
    // As small files in order, which are followed by a large one.
    read_in_order(&source, &bytes[..5 * MB], 0, 64 << 10);
    // The reader is two chunks ahead; the last one may still be queued.
    let mut large = vec![0; 4 * MB];
    source
        .read_exact_at(&mut large, (9 * MB / 2) as u64)
        .unwrap();
    assert_eq!(large, bytes[9 * MB / 2..][..4 * MB]);
    let once = counted.counts().bytes;
    // Only what was read before the reader was known to go on may be read again, with its chunk.
    assert!(once < (9 * MB) as u64, "{once}");
}

#[test]
fn what_is_ahead_of_a_slow_reader_stays() {
    let bytes = bytes(100 * MB);
    let counted = Arc::new(Counting::new(bytes.clone()));
    let source = in_chunks(counted.clone());
    let piece = 64 << 10;
    read_in_order(&source, &bytes[..MB], 0, piece);
    // As inodes and contents that are read in turns: in all, more than is kept.
    for turn in 0..12 {
        let fast = (40 + 4 * turn) * MB;
        read_in_order(&source, &bytes[..fast + 4 * MB], fast, piece);
        let slow = MB + turn * piece;
        read_in_order(&source, &bytes[..slow + piece], slow, piece);
    }
    // The fast one has read 48 MiB, the slow one less than 2, and each has up to two chunks more.
    let read = counted.counts().bytes;
    assert!(read < (55 * MB) as u64, "{read}");
}

#[test]
fn many_readers_at_once() {
    let bytes = bytes(30 * MB);
    let source = in_chunks(Arc::new(bytes.clone()));
    thread::scope(|scope| {
        for reader in 0..12 {
            let (source, bytes) = (&source, &bytes);
            scope.spawn(move || read_in_order(source, bytes, reader * 2 * MB, 100_000));
        }
    });
}

/// A source that can be made to fail.
struct Failing {
    inner: Vec<u8>,
    fails: AtomicBool,
    failures: AtomicU64,
}

impl ReadAt for Failing {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        if self.fails.load(SeqCst) {
            self.failures.fetch_add(1, SeqCst);
            let len = buf.len();
            return Err(ReadError::Truncated { offset, len });
        }
        self.inner.read_exact_at(buf, offset)
    }
}

/// A chunk whose read-ahead failed is read again by the reader that needs it, which gets the error.
#[test]
fn failures_reach_the_reader_and_are_not_kept() {
    let bytes = bytes(40 * MB);
    let failing = Arc::new(Failing {
        inner: bytes.clone(),
        fails: AtomicBool::new(false),
        failures: AtomicU64::new(0),
    });
    let source = in_chunks(failing.clone());
    read_in_order(&source, &bytes[..4 * MB], 0, 64 << 10);
    failing.fails.store(true, SeqCst);
    // Beyond anything that can have been read ahead by then.
    let refused = source.read_exact_at(&mut [0; 4096], 10 << 20);
    assert!(matches!(refused, Err(ReadError::Truncated { .. })));
    assert!(failing.failures.load(SeqCst) > 0);
    failing.fails.store(false, SeqCst);
    read_in_order(&source, &bytes, 4 * MB, 64 << 10);
}

/// A source that refuses what touches one byte, and counts the chunks that it refuses.
struct Damaged {
    inner: Vec<u8>,
    bad: u64,
    refused_chunks: AtomicU64,
}

impl ReadAt for Damaged {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        if (offset..offset + buf.len() as u64).contains(&self.bad) {
            self.refused_chunks
                .fetch_add(u64::from(buf.len() == MB), SeqCst);
            return Err(ReadError::Rejected("damaged".into()));
        }
        self.inner.read_exact_at(buf, offset)
    }
}

#[test]
fn a_damaged_chunk_is_read_ahead_once() {
    let bytes = bytes(8 * MB);
    let damaged = Arc::new(Damaged {
        inner: bytes.clone(),
        bad: 5 << 20,
        refused_chunks: AtomicU64::new(0),
    });
    let source = in_chunks(damaged.clone());
    for _ in 0..50 {
        // The reads of each MiB have the two after it read ahead.
        read_in_order(&source, &bytes[..5 * MB], 3 * MB, 64 << 10);
        let refused = source.read_exact_at(&mut [0; 4096], 5 << 20);
        assert!(matches!(refused, Err(ReadError::Rejected(_))));
        read_in_order(&source, &bytes, (5 << 20) + 4096, 64 << 10);
    }
    // Waits for the threads.
    drop(source);
    assert!(damaged.refused_chunks.load(SeqCst) <= 1);
}

/// A source that panics when a thread reads ahead, and says so before.
struct Panicking {
    inner: Vec<u8>,
    begun: Sender<()>,
}

impl ReadAt for Panicking {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let reader = thread::current();
        if reader
            .name()
            .is_some_and(|name| name.starts_with("read-ahead"))
        {
            self.begun.send(()).unwrap();
            panic!("as a test");
        }
        self.inner.read_exact_at(buf, offset)
    }
}

/// Nobody waits for a chunk whose thread has panicked.
#[test]
fn a_panic_is_not_waited_for() {
    /// Far longer than any of this takes; without an end of the wait, the test never ends.
    const LIMIT: Duration = Duration::from_secs(60);
    let bytes = bytes(8 * MB);
    let (begun, begins) = mpsc::channel();
    let source = Panicking {
        inner: bytes.clone(),
        begun,
    };
    let source = Arc::new(in_chunks(Arc::new(source)));
    read_in_order(&*source, &bytes[..MB], 0, 64 << 10);
    // Both chunks that are read ahead now.
    for _ in 0..THREADS.get() {
        begins.recv_timeout(LIMIT).unwrap();
    }
    let (done, waits) = mpsc::channel();
    let reader = source.clone();
    thread::spawn(move || {
        read_in_order(&*reader, &bytes, MB, 64 << 10);
        done.send(()).unwrap();
    });
    waits.recv_timeout(LIMIT).unwrap();
}

#[test]
fn any_reads_give_the_bytes() {
    cases(32, 128, |u| {
        let len = u.int_in_range(1..=6 * MB - 1)?;
        let bytes = bytes(len);
        let source = in_chunks(Arc::new(bytes.clone()));
        let mut scratch = Scratch::default();
        for _ in 0..u.int_in_range(1..=11)? {
            let mut start = u.choose_index(len)?;
            let piece = u.int_in_range(1..=699_999)?;
            for _ in 0..u.int_in_range(1..=5)? {
                let end = len.min(start + piece);
                let read = source.read_borrowed(&mut scratch, start as u64, end - start);
                assert!(read.unwrap() == &bytes[start..end], "{start}..{end}");
                start = end;
            }
        }
        let past_the_end = source.read_exact_at(&mut [0], len as u64);
        assert!(past_the_end.is_err());
        Ok(())
    });
}
