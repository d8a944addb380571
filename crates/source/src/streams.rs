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
pub struct Streams(Mutex<Vec<Stream>>);

#[derive(Debug, Clone, Copy)]
struct Stream {
    /// End of its furthest read.
    end: u64,
    /// Bytes that it has read.
    run: u64,
}

impl Streams {
    /// Records a read, and returns how many bytes its stream had read before: 0 for a new stream.
    pub fn note(&self, read: &Range<u64>) -> u64 {
        // Any list of streams is a valid state, also after a panic.
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = streams
            .iter()
            .position(|stream| stream.end.abs_diff(read.start) <= TOLERANCE);
        let before = match own {
            Some(own) => streams.remove(own),
            None => Stream { end: 0, run: 0 },
        };
        // Most recently used first, so that truncating drops the least recently used.
        let stream = Stream {
            end: before.end.max(read.end),
            run: before.run.saturating_add(read.end - read.start),
        };
        streams.insert(0, stream);
        streams.truncate(STREAMS);
        before.run
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
    fn the_oldest_stream_is_forgotten() {
        let streams = Streams::default();
        for place in 0..=STREAMS as u64 {
            let start = place * 100 * MB;
            assert_eq!(streams.note(&(start..start + 1)), 0);
        }
        assert_eq!(streams.note(&(1..2)), 0);
    }
}
