//! Copying an archive to where it can be read at any place.

use std::{
    cell::{Cell, RefCell},
    fs::File,
    io::{self, Read, Write},
    ops::ControlFlow,
    path::Path,
};

use verimount_content::Watch;
use verimount_scan::{ArchiveError, Compression, Error as ScanError, check_beginning};

use super::decompress::decompressed;
use crate::{Error, Progress, Step, build_fault::BuildFault, fault::ContentFault};

/// How much is received at once, in bytes.
const PIECE: u64 = 1 << 20;

/// How much is read to see how an archive is compressed, in bytes.
const BEGINNING: u64 = 512;

/// Copies archives to a file.
pub(crate) struct Receiver<'a, 'w> {
    /// What errors call the archive.
    name: &'a Path,
    /// Next to what the copy is.
    output: &'a Path,
    watch: RefCell<&'a mut Watch<'w>>,
    done: Cell<u64>,
    is_cancelled: Cell<bool>,
}

/// Asks before each read.
struct Metered<'m, 'a, 'w, R> {
    inner: R,
    receiver: &'m Receiver<'a, 'w>,
}

impl<'a, 'w> Receiver<'a, 'w> {
    pub(crate) fn new(name: &'a Path, output: &'a Path, watch: &'a mut Watch<'w>) -> Self {
        Self {
            name,
            output,
            watch: RefCell::new(watch),
            done: Cell::new(0),
            is_cancelled: Cell::new(false),
        }
    }

    /// Writes what is left of `archive`, decompressed, to `copy`, and returns its length.
    pub(crate) fn receive(&self, mut archive: impl Read, mut copy: &File) -> Result<u64, Error> {
        let mut beginning = Vec::new();
        let read = (&mut archive).take(BEGINNING).read_to_end(&mut beginning);
        read.map_err(|error| self.not_read(error, None))?;
        let compression = Compression::of(&beginning);
        let whole = beginning.chain(Metered {
            inner: archive,
            receiver: self,
        });
        let mut input: Box<dyn Read> = match compression {
            None => Box::new(whole),
            Some(compression) => decompressed(whole, compression)
                .ok_or_else(|| self.refused(ArchiveError::Compressed(compression)))?,
        };
        let mut piece = Vec::new();
        let mut len = 0;
        loop {
            piece.clear();
            let read = (&mut input).take(PIECE).read_to_end(&mut piece);
            // At the end, too: an interrupt of a whole pipeline ends the writer, and so the archive.
            let read = read.and_then(|count| self.count(count as u64));
            read.map_err(|error| self.not_read(error, compression))?;
            if len == 0 {
                check_beginning(&piece).map_err(|error| self.refused(error))?;
            }
            if piece.is_empty() {
                return Ok(len);
            }
            let written = copy.write_all(&piece);
            written.map_err(|error| ContentFault::io(self.output, error))?;
            len += piece.len() as u64;
        }
    }

    fn not_read(&self, error: io::Error, compression: Option<Compression>) -> Error {
        match compression {
            _ if self.is_cancelled.get() => ContentFault::Cancelled.at(self.name),
            Some(compression) if error.raw_os_error().is_none() => {
                let error = format!("it cannot be decompressed by {compression}: {error}");
                ContentFault::io(self.name, io::Error::other(error))
            }
            _ => ContentFault::io(self.name, error),
        }
    }

    fn refused(&self, source: ArchiveError) -> Error {
        let path = self.name.to_owned();
        BuildFault::scan(self.name, ScanError::Archive { path, source })
    }

    /// Counts what is received; fails if the work is to end. What is decompressed is little for its size or much, so this is called
    /// on both sides.
    fn count(&self, bytes: u64) -> io::Result<()> {
        let done = self.done.get() + bytes;
        self.done.set(done);
        let progress = Progress::new(Step::Receive, done, done);
        match (*self.watch.borrow_mut())(progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => {
                self.is_cancelled.set(true);
                Err(io::Error::other("interrupted"))
            }
        }
    }
}

impl<R: Read> Read for Metered<'_, '_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receiver.count(0)?;
        self.inner.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use flate2::{Compression as Level, write::GzEncoder};

    use super::*;
    use crate::ErrorKind;

    /// Receives an archive; the watch ends it at the call with this number. Returns how often that was called, and the error.
    fn received(archive: &[u8], ends: usize) -> (usize, Result<u64, Error>) {
        let mut calls = 0;
        let mut watch = |_| {
            calls += 1;
            if calls == ends {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let copy = tempfile::tempfile().unwrap();
        let paths = ["archive", "image"].map(PathBuf::from);
        let receiver = Receiver::new(&paths[0], &paths[1], &mut watch);
        let received = receiver.receive(archive, &copy);
        (calls, received)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Level::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Much comes out of little, or nothing out of much; each can be ended.
    #[test]
    fn the_watch_is_asked_however_much_is_decompressed() {
        let zeros = vec![0; 32 << 20];
        let much = gzip(&zeros);
        let (calls, received_len) = received(&much, 0);
        assert_eq!(received_len.unwrap(), 32 << 20);
        assert!(calls >= 32, "{calls}");
        let nothing = gzip(b"").repeat(100_000);
        assert!(received(&nothing, 0).0 >= nothing.len() >> 17);
        for archive in [&much, &nothing, &zeros] {
            let (calls, ended) = received(archive, 3);
            assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
            assert_eq!(calls, 3);
        }
    }

    #[test]
    fn what_is_no_archive_is_refused_at_its_beginning() {
        for bytes in [vec![1; 5 << 20], gzip(&vec![1; 5 << 20]), gzip(&gzip(b""))] {
            let (calls, received) = received(&bytes, 0);
            assert_eq!(received.unwrap_err().kind(), ErrorKind::Corrupt);
            // Those for the first piece.
            assert!(calls < 40, "{calls}");
        }
    }
}
