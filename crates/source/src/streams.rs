use std::{collections::VecDeque, ops::Range};

use verimount_sync::Mutex;

/// How many sequential readers are distinguished.
const STREAMS: usize = 16;

/// How far from the end of a stream a read may begin and still belong to it, in bytes. Concurrent
/// requests of one reader overtake one another, and small files read in order leave gaps.
const TOLERANCE: u64 = 2 << 20;

/// A stream is sequential if it has read more than these bytes: not after one read of a program that reads at random places.
const SEQUENTIAL: u64 = 128 << 10;

/// How far ahead is announced at least to a stream that has read less, but goes on from the beginning of a content, in bytes: many
/// contents are small, and read to their ends.
const FIRST_AHEAD: u64 = 1 << 20;

/// How far ahead of a sequential reader is announced at most, in bytes: two of the largest steps.
const MAX_AHEAD: u64 = 2 * LARGEST_STEP;

/// How far ahead of a sequential reader is announced at least, in bytes: at any time half of it, which is what a
/// [`ChunkCache`](crate::ChunkCache) reads ahead.
const MIN_AHEAD: u64 = 4 << 20;

/// The largest step in which is announced, in bytes. Steps end at multiples of themselves, so that many machines ask
/// far sources for the same ranges, which caches on the way can answer.
pub const LARGEST_STEP: u64 = 16 << 20;

/// How far over the end of a content is announced for each end that the reader went over before, in bytes: nothing to who reads
/// one file, and soon much to who reads many small ones in order.
const OVER_AN_END: u64 = 256 << 10;

/// Distinguishes sequential readers of one source from random ones, and from one another.
#[derive(Debug, Default)]
pub struct Streams(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The most recently used first.
    streams: Vec<Stream>,
    /// Bytes that were read.
    total: u64,
    /// Where no stream goes on, as somebody has said.
    stop: Option<u64>,
    /// Contents of which some is being read, as somebody has said: the last one at the end.
    contents: VecDeque<Range<u64>>,
}

#[derive(Debug, Clone, Copy)]
struct Stream {
    /// Start of its first read in the order of the source.
    start: u64,
    /// End of its furthest read.
    end: u64,
    /// Bytes that it has read.
    run: u64,
    /// Bytes that all had read when it began.
    since: u64,
    /// Up to where it was announced.
    announced: u64,
    /// The end of the furthest content that it has read of; 0 if none is known.
    content_end: u64,
    /// How many contents it has read to their ends.
    contents: u64,
    /// Whether its first read was at the beginning of a content.
    is_from_beginning: bool,
}

impl Streams {
    /// Records a read. Returns whether its stream was sequential before.
    pub fn is_sequential(&self, read: &Range<u64>) -> bool {
        self.0.lock().note(read).is_sequential()
    }

    /// Announces nothing behind `offset` to readers that are before it.
    pub(crate) fn will_stop(&self, offset: u64) {
        self.0.lock().stop = Some(offset);
    }

    /// Notes that these bytes are one content, some of which is about to be read.
    pub(crate) fn will_end(&self, content: Range<u64>) {
        let contents = &mut self.0.lock().contents;
        if contents.back() != Some(&content) {
            contents.retain(|other| *other != content);
            contents.push_back(content);
            if contents.len() > STREAMS {
                contents.pop_front();
            }
        }
    }

    /// Records a read. Returns what is to be announced ahead of it: nothing, if that was done or the reader is not
    /// sequential.
    ///
    /// When there is more, all of it is announced again: what there was no room for, or what has failed, may succeed
    /// now.
    pub(crate) fn ahead_of(&self, read: &Range<u64>) -> Range<u64> {
        let mut state = self.0.lock();
        let before = state.note(read);
        let horizon = state.horizon(&before, read);
        let stream = &mut state.streams[0];
        if horizon > stream.announced {
            stream.announced = horizon;
            read.end..horizon
        } else {
            read.end..read.end
        }
    }
}

impl State {
    /// Adds a read to its stream, which becomes the first. Returns the stream before.
    fn note(&mut self, read: &Range<u64>) -> Stream {
        let mut contents = self.contents.iter().rev();
        let content = contents.find(|content| content.contains(&read.start));
        let near = self.streams.iter().enumerate();
        let near = near.filter(|(_, stream)| stream.end.abs_diff(read.start) <= TOLERANCE);
        // A read that is later than that begins a stream, which must not take the next ones.
        let own = near
            .max_by_key(|(_, stream)| stream.run)
            .map(|(own, _)| own);
        let before = match own {
            Some(own) => self.streams.remove(own),
            None => Stream {
                start: read.start,
                end: 0,
                run: 0,
                since: self.total,
                announced: 0,
                content_end: 0,
                contents: 0,
                is_from_beginning: content.is_some_and(|content| content.start == read.start),
            },
        };
        let content_end = content.map_or(0, |content| content.end);
        let is_next = content_end > before.content_end && before.content_end > 0;
        let len = read.end - read.start;
        self.total = self.total.saturating_add(len);
        let stream = Stream {
            start: before.start.min(read.start),
            end: before.end.max(read.end),
            run: before.run.saturating_add(len),
            content_end: before.content_end.max(content_end),
            contents: before.contents + u64::from(is_next),
            ..before
        };
        // Truncating drops the least recently used.
        self.streams.insert(0, stream);
        self.streams.truncate(STREAMS);
        before
    }

    /// Where to announce up to for a `read` of the first stream, which was `before`: 0 unless it was and is
    /// sequential.
    ///
    /// It is twice of what it has read. A step is a power of two, and half of that at most, so that there are few requests.
    /// Readers share what is announced by what they read: what is fetched for them shares one memory. Where another one
    /// began, it has read already.
    fn horizon(&self, before: &Stream, read: &Range<u64>) -> u64 {
        let (own, others) = (&self.streams[0], &self.streams[1..]);
        if !before.is_sequential() || !own.is_sequential() {
            return 0;
        }
        let all = self.total - own.since;
        debug_assert!(own.run <= all, "a stream's bytes are some of all");
        let share = u128::from(MAX_AHEAD) * u128::from(own.run) / u128::from(all.max(1));
        // It is no larger than `MAX_AHEAD`, as the stream's bytes are some of all.
        let least = if before.run > SEQUENTIAL {
            MIN_AHEAD
        } else {
            FIRST_AHEAD
        };
        let ahead = (share as u64).min(before.run.saturating_mul(2)).max(least);
        let step = (1 << (ahead / 2).ilog2()).min(LARGEST_STEP);
        let others = others.iter().filter(|other| other.is_sequential());
        let next = others
            .map(|other| other.start)
            .filter(|start| *start >= read.end);
        // A read over it is the last before it: units of layers above do not end there.
        let stop = self.stop.filter(|stop| *stop > read.start);
        let over = own.contents.saturating_mul(OVER_AN_END);
        let end = Some(own.content_end).filter(|end| *end >= read.end);
        let end = end.map(|end| end.saturating_add(over));
        let next = next.chain(stop).chain(end).min();
        let horizon = read.end.saturating_add(ahead) / step * step;
        horizon.min(next.unwrap_or(u64::MAX))
    }
}

impl Stream {
    /// Whether it has read enough, and at least a quarter of what it went past: random readers, of whose reads some are near others
    /// by chance, read less.
    fn is_sequential(&self) -> bool {
        // Who goes on to further contents may read a little of many.
        let least = if self.is_from_beginning && self.contents == 0 {
            0
        } else {
            SEQUENTIAL
        };
        self.run > least && self.run >= (self.end - self.start) / 4
    }
}

#[cfg(test)]
mod tests {
    use verimount_testkit::Random;

    use super::*;

    const MB: u64 = 1 << 20;

    /// How much the stream of this read had read before.
    fn run(streams: &Streams, read: Range<u64>) -> u64 {
        streams.0.lock().note(&read).run
    }

    #[test]
    fn neighbours_are_a_stream() {
        let streams = Streams::default();
        for (read, before) in [
            (0..MB, 0),
            (2 * MB..3 * MB, MB),
            (MB..2 * MB, 2 * MB),
            (100 * MB..101 * MB, 0),
            (3 * MB..4 * MB, 3 * MB),
            (101 * MB..102 * MB, MB),
        ] {
            assert_eq!(run(&streams, read), before);
        }
    }

    #[test]
    fn a_late_read_does_not_divide_a_stream() {
        let streams = Streams::default();
        assert_eq!(run(&streams, 4 * MB..8 * MB), 0);
        assert_eq!(run(&streams, 5 * MB..6 * MB), 0);
        assert_eq!(run(&streams, 8 * MB..9 * MB), 4 * MB);
    }

    #[test]
    fn random_readers_are_not_sequential() {
        let streams = Streams::default();
        let mut random = Random::new(1);
        for _ in 0..10_000 {
            let start = random.below(64 << 20) as u64;
            assert!(streams.ahead_of(&(start..start + 4096)).is_empty());
        }
        // One large read near another.
        let streams = Streams::default();
        for start in [0, MB / 2] {
            assert!(streams.ahead_of(&(start..start + SEQUENTIAL)).is_empty());
        }
    }

    #[test]
    fn the_oldest_stream_is_forgotten() {
        let streams = Streams::default();
        for place in 0..=STREAMS as u64 {
            let start = place * 100 * MB;
            assert_eq!(run(&streams, start..start + 1), 0);
        }
        assert_eq!(run(&streams, 1..2), 0);
    }

    /// What is announced while these bytes are read in order.
    fn announced(streams: &Streams, bytes: Range<u64>, piece: u64) -> Vec<Range<u64>> {
        let starts = bytes.clone().step_by(piece as usize);
        let reads = starts.map(|start| start..bytes.end.min(start + piece));
        let ahead = reads.map(|read| streams.ahead_of(&read));
        ahead.filter(|ahead| !ahead.is_empty()).collect()
    }

    #[test]
    fn steps_grow_up_to_the_largest() {
        let streams = Streams::default();
        let all = announced(&streams, 0..100 * MB, MB / 8);
        assert_eq!(all[0], 3 * MB / 8..4 * MB);
        let ends: Vec<u64> = all.iter().map(|range| range.end / MB).collect();
        let expected = [
            4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 112, 128,
        ];
        assert_eq!(ends, expected);
        for pair in all.windows(2) {
            let left = pair[0].end - pair[1].start;
            assert!(left > MIN_AHEAD / 2 - MB / 8, "{pair:?}");
        }
    }

    #[test]
    fn nothing_is_announced_to_random_or_overtaken_readers() {
        let streams = Streams::default();
        for start in [500, 3, 77, 1000, 20] {
            assert!(announced(&streams, start * MB..start * MB + 1000, 1000).is_empty());
        }
        announced(&streams, 0..100 * MB, MB);
        assert!(streams.ahead_of(&(98 * MB..99 * MB)).is_empty());
    }

    #[test]
    fn what_another_stream_has_read_is_not_announced() {
        let streams = Streams::default();
        announced(&streams, 100 * MB..102 * MB, MB);
        let all = announced(&streams, 0..98 * MB, MB);
        assert_eq!(all.last().unwrap().end, 100 * MB);
    }

    #[test]
    fn nothing_is_announced_over_a_stop() {
        let streams = Streams::default();
        let stop = 19 * MB - 1;
        streams.will_stop(stop);
        let before = announced(&streams, 0..19 * MB, MB);
        assert_eq!(before.last().unwrap().end, stop);
        let behind = announced(&streams, 19 * MB..30 * MB, MB);
        assert!(behind.last().unwrap().end > 30 * MB);
    }

    #[test]
    fn nothing_is_announced_over_the_end_of_the_only_content() {
        let streams = Streams::default();
        streams.will_end(3 * MB..20 * MB + 5);
        let all = announced(&streams, 3 * MB..20 * MB + 5, MB / 2);
        assert_eq!(all.last().unwrap().end, 20 * MB + 5);
    }

    #[test]
    fn more_is_announced_over_an_end_the_more_were_read() {
        let streams = Streams::default();
        let size = MB / 4 + 1;
        for number in 0..200 {
            let content = number * size..(number + 1) * size;
            streams.will_end(content.clone());
            let ends = announced(&streams, content.clone(), 64 << 10);
            let furthest = ends.iter().map(|range| range.end).max().unwrap_or(0);
            assert!(furthest <= content.end + number * OVER_AN_END, "{number}");
        }
        let announced = streams.0.lock().streams[0].announced;
        assert!(announced > 200 * size + 12 * MB, "{announced}");
    }

    #[test]
    fn who_goes_on_from_the_beginning_of_a_content_is_sequential() {
        let piece = 64 << 10;
        for (content, first) in [
            (5 * MB..6 * MB - 7, Some(6 * MB - 7)),
            (5 * MB..50 * MB, Some(6 * MB)),
            (4 * MB..50 * MB, None),
        ] {
            let streams = Streams::default();
            streams.will_end(content);
            let all = announced(&streams, 5 * MB..5 * MB + 2 * piece, piece);
            let all: Vec<_> = all.iter().map(|range| (range.start, range.end)).collect();
            let expected = first.map(|end| (5 * MB + 2 * piece, end));
            assert_eq!(all, Vec::from_iter(expected));
        }
        // Not who reads a little of another one then, or at another place.
        let streams = Streams::default();
        for number in 0..4 {
            streams.will_end(number * piece..(number + 1) * piece);
            let read = number * piece..number * piece + 4096;
            assert!(streams.ahead_of(&read).is_empty(), "{number}");
        }
        let streams = Streams::default();
        streams.will_end(0..50 * MB);
        for start in [0, MB, 10 * MB] {
            assert!(streams.ahead_of(&(start..start + 4096)).is_empty());
        }
    }

    #[test]
    fn contents_of_other_readers_end_nothing() {
        let streams = Streams::default();
        for number in 0..STREAMS as u64 {
            let start = (100 + number) * MB;
            streams.will_end(start..start + MB);
        }
        let all = announced(&streams, 0..10 * MB, MB);
        assert!(all.last().unwrap().end > 10 * MB);
    }

    #[test]
    fn readers_share_what_is_announced() {
        let (one, other) = (Streams::default(), Streams::default());
        let alone = announced(&one, 0..64 * MB, MB);
        for part in 0..64 {
            announced(&other, part * MB..part * MB + MB, MB);
            let far = 1000 * MB + part * 15 * MB;
            announced(&other, far..far + 15 * MB, MB);
        }
        assert_eq!(alone.last().unwrap().end, 96 * MB);
        assert_eq!(other.ahead_of(&(65 * MB..66 * MB)).end, 70 * MB);
    }
}
