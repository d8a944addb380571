use std::{
    fs::File,
    io, iter,
    num::NonZeroUsize,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use verimount_content::{LayersError, Watch, registry::hashed, step};
use verimount_source::{FileSource, LARGEST_STEP, OutputFile, folder_of, in_order};

use super::Remote;
use crate::{Error, Location, Step, fault::ContentFault};

/// How many requests run at a time: enough to hide the time that each takes on the way.
const REQUESTS: NonZeroUsize = NonZeroUsize::new(16).expect("it is positive");

/// A file that is being fetched.
pub(super) struct Fetched {
    path: PathBuf,
    output: OutputFile,
}

impl Fetched {
    pub(super) fn new(path: PathBuf, size: u64) -> Result<Self, Error> {
        let output =
            OutputFile::new(&path, 0o666).map_err(|error| ContentFault::io(&path, error))?;
        let fetched = Self { path, output };
        let sized = fetched.file().set_len(size);
        sized.map_err(|error| fetched.failed(error))?;
        Ok(fetched)
    }

    fn file(&self) -> &File {
        self.output.file()
    }

    fn failed(&self, error: io::Error) -> Error {
        ContentFault::io(&self.path, error)
    }

    /// Where files without a name are made for it.
    pub(super) fn folder(&self) -> &Path {
        folder_of(&self.path)
    }

    /// Stores bytes at an offset.
    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        let written = self.file().write_all_at(bytes, offset);
        written.map_err(|error| self.failed(error))
    }

    /// Fetches everything.
    pub(super) fn fetch_all(&self, from: &Remote, watch: &mut Watch<'_>) -> Result<(), Error> {
        self.fetch(iter::once(0..from.source.length()), from, watch)
    }

    /// Fetches some ranges, each with one request unless that is too large.
    pub(super) fn fetch(
        &self,
        ranges: impl IntoIterator<Item = Range<u64>>,
        from: &Remote,
        watch: &mut Watch<'_>,
    ) -> Result<(), Error> {
        let pieces = Pieces::of(ranges);
        let mut progress = step(watch, Step::Download, pieces.bytes);
        in_order(
            pieces.count,
            REQUESTS,
            |number, _| {
                let piece = pieces.get(number);
                self.fetch_piece(&piece, from)?;
                Ok(piece.end - piece.start)
            },
            |_, fetched: Result<u64, Error>| {
                ContentFault::if_ended(progress(fetched?)).map_err(|fault| fault.at(&from.at))
            },
        )
    }

    fn fetch_piece(&self, piece: &Range<u64>, from: &Remote) -> Result<(), Error> {
        let (mut at, mut written) = (piece.start, Ok(()));
        let streamed = from.source.stream(piece.clone(), &mut |bytes| {
            if written.is_ok() {
                written = self.write(bytes, at);
            }
            at += bytes.len() as u64;
        });
        streamed.map_err(|error| ContentFault::read(&from.at, error))?;
        written
    }

    /// Compares all of it with the digest that it must have in a registry.
    pub(super) fn check(&self, from: &Remote) -> Result<(), Error> {
        let Some(expected) = from.digest else {
            return Ok(());
        };
        let source = self.source()?;
        let actual = hashed(&source, &from.at, |_| Ok(()))?;
        if expected == actual {
            return Ok(());
        }
        let (expected, actual) = (expected.to_string(), actual.to_string());
        Err(ContentFault::Layers(LayersError::WrongLayer { expected, actual }).at(&from.at))
    }

    fn source(&self) -> Result<FileSource, Error> {
        let source = self.file().try_clone().and_then(FileSource::new);
        source.map_err(|error| self.failed(error))
    }

    /// What was fetched, for reading.
    pub(super) fn location(&self) -> Result<Location, Error> {
        Ok(Location::source(&self.path, self.source()?))
    }

    pub(super) fn commit(self) -> Result<(), Error> {
        let path = self.path;
        self.output
            .commit()
            .map_err(|error| ContentFault::io(path, error))
    }
}

/// Ranges in pieces that are not too large for a request. A server can claim that a file has any size, so they are not listed.
struct Pieces {
    /// The number of the first piece of each range.
    ranges: Vec<(u64, Range<u64>)>,
    count: u64,
    bytes: u64,
}

impl Pieces {
    fn of(ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut pieces = Self {
            ranges: Vec::new(),
            count: 0,
            bytes: 0,
        };
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            let len = range.end - range.start;
            pieces.ranges.push((pieces.count, range));
            pieces.count += len.div_ceil(LARGEST_STEP);
            pieces.bytes += len;
        }
        pieces
    }

    fn get(&self, number: u64) -> Range<u64> {
        let behind = self.ranges.partition_point(|(first, _)| *first <= number);
        let (first, range) = &self.ranges[behind - 1];
        let start = range.start + (number - first) * LARGEST_STEP;
        start..range.end.min(start + LARGEST_STEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_ranges_in_order() {
        const MOST: u64 = LARGEST_STEP;
        let pieces = Pieces::of([5..7, 7..7, 10..2 * MOST + 11, 1 << 60..1 << 62]);
        let first: Vec<_> = (0..5).map(|number| pieces.get(number)).collect();
        let start = 1 << 60;
        let expected = [
            5..7,
            10..MOST + 10,
            MOST + 10..2 * MOST + 10,
            2 * MOST + 10..2 * MOST + 11,
            start..start + MOST,
        ];
        assert_eq!(first, expected);
        assert_eq!(pieces.get(pieces.count - 1).end, 1 << 62);
        assert_eq!(Pieces::of(iter::once(3..3)).count, 0);
    }
}
