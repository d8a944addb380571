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
    /// End of its furthest read.
    end: u64,
    /// Bytes that it has read.
    run: u64,
    /// Bytes that all had read when it began.
    since: u64,
}

impl Streams {
    /// Records a read, and returns how many bytes its stream had read before: 0 for a new stream.
    pub fn note(&self, read: &Range<u64>) -> u64 {
        self.note_run(read).len
    }

    /// The same, beside what others read.
    pub fn note_run(&self, read: &Range<u64>) -> Run {
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
                end: 0,
                run: 0,
                since: *total,
            },
        };
        let run = Run {
            len: before.run,
            of: *total - before.since,
            advances: read.end > before.end,
        };
        let len = read.end - read.start;
        *total = total.saturating_add(len);
        let stream = Stream {
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
        assert_eq!(streams.note(&(0..MB)), 0);
        assert_eq!(streams.note(&(2 * MB..3 * MB)), MB);
        assert_eq!(streams.note(&(MB..2 * MB)), 2 * MB);
        assert_eq!(streams.note(&(100 * MB..101 * MB)), 0);
        assert_eq!(streams.note(&(3 * MB..4 * MB)), 3 * MB);
        assert_eq!(streams.note(&(101 * MB..102 * MB)), MB);
    }

    #[test]
    fn a_late_read_does_not_divide_a_stream() {
        let streams = Streams::default();
        assert_eq!(streams.note(&(4 * MB..8 * MB)), 0);
        assert_eq!(streams.note(&(5 * MB..6 * MB)), 0);
        assert_eq!(streams.note(&(8 * MB..9 * MB)), 4 * MB);
    }

    #[test]
    fn streams_are_compared() {
        let streams = Streams::default();
        for (read, len, of) in [
            (0..MB, 0, 0),
            (100 * MB..103 * MB, 0, 0),
            (MB..2 * MB, MB, 4 * MB),
            (103 * MB..104 * MB, 3 * MB, 4 * MB),
        ] {
            let advances = true;
            assert_eq!(streams.note_run(&read), Run { len, of, advances });
        }
    }

    #[test]
    fn a_read_behind_others_does_not_advance_its_stream() {
        let streams = Streams::default();
        streams.note(&(0..4 * MB));
        assert!(!streams.note_run(&(3 * MB..4 * MB)).advances);
        assert!(streams.note_run(&(4 * MB..5 * MB)).advances);
    }

    #[test]
    fn the_oldest_stream_is_forgotten() {
        let streams = Streams::default();
        for place in 0..=STREAMS as u64 {
            let start = place * 100 * MB;
            assert_eq!(streams.note(&(start..start + 1)), 0);
        }
        assert_eq!(streams.note(&(1..2)), 0);
    }
}
