use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

/// How many sequential readers are distinguished.
const STREAMS: usize = 16;

/// How far from the end of a stream a read may begin and still belong to it, in bytes. Concurrent
/// requests of one reader overtake one another, and small files read in order leave gaps.
const TOLERANCE: u64 = 2 << 20;

/// Distinguishes sequential readers of one source from random ones, and from one another.
#[derive(Debug, Default)]
pub struct Streams(Mutex<State>);

/// What a stream had read before a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// Its bytes: 0 for a new stream.
    pub len: u64,
    /// The bytes of all streams since it began, at least its own.
    pub of: u64,
    /// Whether the read goes further than all of its stream before.
    pub advances: bool,
    /// Where the next sequential stream after the read began; `u64::MAX` if there is none.
    pub until: u64,
}

impl Run {
    /// Bytes that make a stream sequential.
    pub const SEQUENTIAL: u64 = 256 << 10;

    /// Whether it has read [`Self::SEQUENTIAL`] bytes.
    pub fn is_sequential(&self) -> bool {
        self.len >= Self::SEQUENTIAL
    }
}

#[derive(Debug, Default)]
struct State {
    /// The most recently used first.
    streams: Vec<Stream>,
    /// Bytes that were read.
    total: u64,
}

#[derive(Debug, Clone, Copy)]
struct Stream {
    /// Start of its first read.
    start: u64,
    /// End of its furthest read.
    end: u64,
    /// Bytes that it has read.
    run: u64,
    /// Bytes that all had read when it began.
    since: u64,
}

impl Streams {
    /// Records a read, and returns what its stream had read before.
    pub fn note(&self, read: &Range<u64>) -> Run {
        // Any state is valid, also after a panic.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let State { streams, total } = &mut *state;
        let near = streams.iter().enumerate();
        let near = near.filter(|(_, stream)| stream.end.abs_diff(read.start) <= TOLERANCE);
        // A read that is later than that begins a stream, which must not take the next ones.
        let own = near
            .max_by_key(|(_, stream)| stream.run)
            .map(|(own, _)| own);
        let before = match own {
            Some(own) => streams.remove(own),
            None => Stream {
                start: read.start,
                end: 0,
                run: 0,
                since: *total,
            },
        };
        let others = streams.iter().filter(|other| other.run >= Run::SEQUENTIAL);
        let ahead = others
            .map(|other| other.start)
            .filter(|start| *start >= read.end);
        let run = Run {
            len: before.run,
            of: *total - before.since,
            advances: read.end > before.end,
            until: ahead.min().unwrap_or(u64::MAX),
        };
        let len = read.end - read.start;
        *total = total.saturating_add(len);
        let stream = Stream {
            start: before.start,
            end: before.end.max(read.end),
            run: before.run.saturating_add(len),
            since: before.since,
        };
        // Truncating drops the least recently used.
        streams.insert(0, stream);
        streams.truncate(STREAMS);
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn neighbours_are_a_stream() {
        let streams = Streams::default();
        assert_eq!(streams.note(&(0..MB)).len, 0);
        assert_eq!(streams.note(&(2 * MB..3 * MB)).len, MB);
        assert_eq!(streams.note(&(MB..2 * MB)).len, 2 * MB);
        assert_eq!(streams.note(&(100 * MB..101 * MB)).len, 0);
        assert_eq!(streams.note(&(3 * MB..4 * MB)).len, 3 * MB);
        assert_eq!(streams.note(&(101 * MB..102 * MB)).len, MB);
    }

    #[test]
    fn a_late_read_does_not_divide_a_stream() {
        let streams = Streams::default();
        assert_eq!(streams.note(&(4 * MB..8 * MB)).len, 0);
        assert_eq!(streams.note(&(5 * MB..6 * MB)).len, 0);
        assert_eq!(streams.note(&(8 * MB..9 * MB)).len, 4 * MB);
    }

    #[test]
    fn streams_are_compared() {
        let streams = Streams::default();
        let far = 100 * MB;
        for (read, len, of, until) in [
            (0..MB, 0, 0, u64::MAX),
            (far..far + 3 * MB, 0, 0, u64::MAX),
            (MB..2 * MB, MB, 4 * MB, far),
            (far + 3 * MB..far + 4 * MB, 3 * MB, 4 * MB, u64::MAX),
        ] {
            let run = Run {
                len,
                of,
                advances: true,
                until,
            };
            assert_eq!(streams.note(&read), run);
        }
    }

    #[test]
    fn a_read_behind_others_does_not_advance_its_stream() {
        let streams = Streams::default();
        streams.note(&(0..4 * MB));
        assert!(!streams.note(&(3 * MB..4 * MB)).advances);
        assert!(streams.note(&(4 * MB..5 * MB)).advances);
    }

    #[test]
    fn the_oldest_stream_is_forgotten() {
        let streams = Streams::default();
        for place in 0..=STREAMS as u64 {
            let start = place * 100 * MB;
            assert_eq!(streams.note(&(start..start + 1)).len, 0);
        }
        assert_eq!(streams.note(&(1..2)).len, 0);
    }
}
