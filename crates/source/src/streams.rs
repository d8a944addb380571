use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
};

/// How many sequential readers are told apart.
const STREAMS: usize = 16;

/// How far from where a stream has come a read may begin and still belong to it, in bytes.
/// Requests of one reader are under way together and overtake one another, and a tree of small
/// files read in order leaves gaps.
const TOLERANCE: u64 = 2 << 20;

/// Tells sequential readers of one source from random ones, and from one another.
#[derive(Debug, Default)]
pub struct Streams(Mutex<Vec<Stream>>);

#[derive(Debug, Clone, Copy)]
struct Stream {
    /// Where it has come to.
    end: u64,
    /// How much it has read.
    run: u64,
}

impl Streams {
    /// Notes a read, and says how many bytes the reader that it belongs to had read before, up to
    /// about here: 0 if it goes on nowhere.
    pub fn note(&self, read: &Range<u64>) -> u64 {
        // Any list of streams is a good one, whatever its last holder was doing.
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = streams
            .iter()
            .position(|stream| stream.end.abs_diff(read.start) <= TOLERANCE);
        let before = match own {
            Some(own) => streams.remove(own),
            None => Stream { end: 0, run: 0 },
        };
        // The latest comes first; the one that was not heard of for longest falls off the end.
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
