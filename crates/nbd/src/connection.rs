use std::{
    io::{self, IoSlice, Read, Write},
    net::Shutdown,
    num::NonZeroUsize,
    os::unix::net::UnixStream,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, PoisonError},
    thread,
};

use rustix::io::Errno;
use verimount_source::AlignedBuf;
use zerocopy::{FromZeros, IntoBytes};

use crate::{
    Export,
    command::{Request, error_number},
    handshake,
    protocol::{REPLY_MAGIC, ReplyHeader, RequestHeader},
};

/// A client that has agreed on an export.
///
/// Each thread takes the next request, does what it asks for, and sends the answer, whatever others
/// do meanwhile.
struct Connection<'a, E> {
    stream: &'a UnixStream,
    export: &'a E,
    /// Whether the client has said all that it will. Held while a request is read.
    has_ended: Mutex<bool>,
    /// Held while an answer is sent.
    sending: Mutex<()>,
}

/// Serves a client to its end, from `threads` threads.
///
/// # Errors
/// What the system says, and [`io::ErrorKind::InvalidData`] for what no client may say.
pub(crate) fn serve(
    stream: &UnixStream,
    export: &impl Export,
    threads: NonZeroUsize,
) -> io::Result<()> {
    let mut shared = stream;
    if !handshake::agree(&mut shared, export)? {
        return Ok(());
    }
    let connection = Connection {
        stream,
        export,
        has_ended: Mutex::new(false),
        sending: Mutex::new(()),
    };
    thread::scope(|scope| {
        for _ in 1..threads.get() {
            let work = || connection.work();
            // With fewer it works, too.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        connection.work()
    })
}

impl<E: Export> Connection<'_, E> {
    fn work(&self) -> io::Result<()> {
        let mut buffer = AlignedBuf::default();
        let result = self.answer_all(&mut buffer);
        if result.is_err() {
            // The others then find that it has ended.
            let _ = self.stream.shutdown(Shutdown::Both);
        }
        result
    }

    fn answer_all(&self, buffer: &mut AlignedBuf) -> io::Result<()> {
        while let Some(request) = self.next(buffer)? {
            // Its client must not wait for ever, even if the export panics.
            let perform = AssertUnwindSafe(|| request.perform(self.export, buffer));
            let answer = catch_unwind(perform).unwrap_or(Err(Errno::IO));
            let answer = answer.map(|len| &buffer.as_slice()[..len]);
            self.send(request.cookie, answer)?;
        }
        Ok(())
    }

    /// The next request, with its data in `buffer`; `None` when there are no more.
    fn next(&self, buffer: &mut AlignedBuf) -> io::Result<Option<Request>> {
        // Whoever panicked here has read half a request; nothing good comes after it.
        let Ok(mut has_ended) = self.has_ended.lock() else {
            return Ok(None);
        };
        if *has_ended {
            return Ok(None);
        }
        let request = self.receive(buffer);
        *has_ended = !matches!(request, Ok(Some(_)));
        request
    }

    fn receive(&self, buffer: &mut AlignedBuf) -> io::Result<Option<Request>> {
        let mut stream = self.stream;
        let mut header = RequestHeader::new_zeroed();
        match stream.read_exact(header.as_mut_bytes()) {
            // Many clients just go.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let request = Request::parse(&header)?;
        stream.read_exact(buffer.grown(request.data_len()))?;
        Ok((!request.is_last()).then_some(request))
    }

    fn send(&self, cookie: u64, answer: Result<&[u8], Errno>) -> io::Result<()> {
        let header = ReplyHeader {
            magic: REPLY_MAGIC.into(),
            error: answer.err().map_or(0, error_number).into(),
            cookie: cookie.into(),
        };
        let data = answer.unwrap_or_default();
        let _sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        write_both(self.stream, header.as_bytes(), data)
    }
}

/// Writes both, with one system call where that does it.
fn write_both(mut stream: &UnixStream, header: &[u8], data: &[u8]) -> io::Result<()> {
    let mut parts = [IoSlice::new(header), IoSlice::new(data)];
    let mut rest = &mut parts[..];
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match stream.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut rest, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
