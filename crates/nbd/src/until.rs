use std::{
    io,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

/// A connection with a deadline: reads and writes fail after it, however often some bytes arrive.
#[derive(Debug)]
pub struct Until<'a> {
    stream: &'a UnixStream,
    end: Instant,
}

impl<'a> Until<'a> {
    /// Ends this time from now.
    pub fn new(stream: &'a UnixStream, time: Duration) -> Self {
        let end = Instant::now() + time;
        Self { stream, end }
    }

    /// Removes the deadline.
    pub(crate) fn lift(self) -> io::Result<()> {
        self.stream.set_read_timeout(None)?;
        self.stream.set_write_timeout(None)
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            Err(io::ErrorKind::TimedOut.into())
        } else {
            Ok(Some(left))
        }
    }
}

impl io::Read for Until<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buf).map_err(timed_out)
    }
}

impl io::Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket timeout is reported as `WouldBlock`, like on a non-blocking socket.
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}
