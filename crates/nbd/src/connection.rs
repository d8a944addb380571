use std::{
    io::{self, IoSlice, Read, Write},
    mem,
    net::Shutdown,
    num::NonZeroUsize,
    os::unix::net::UnixStream,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

use rustix::io::Errno;
use verimount_sync::Mutex;
use zerocopy::{FromZeros, IntoBytes, big_endian::U64};

use crate::{
    Export,
    clients::Client,
    command::{Request, error_number},
    memory::{Buffer, Memory},
    protocol::{REPLY_MAGIC, ReplyHeader, RequestHeader},
};

/// A connection after the handshake.
///
/// Each thread reads the next request, performs it, and sends the answer, independently of the
/// other threads.
pub(crate) struct Connection<'a, E> {
    client: &'a Arc<Client>,
    export: &'a E,
    memory: &'a Memory,
    /// Whether the client sends no more requests. Held while a request is read.
    has_ended: Mutex<bool>,
    /// Held while an answer is sent.
    sending: Mutex<()>,
}

impl<'a, E: Export> Connection<'a, E> {
    /// With a client that has chosen the export.
    pub(crate) fn new(client: &'a Arc<Client>, export: &'a E, memory: &'a Memory) -> Self {
        Self {
            client,
            export,
            memory,
            has_ended: Mutex::new(false),
            sending: Mutex::new(()),
        }
    }

    /// Serves the client with `threads` threads until it disconnects.
    ///
    /// # Errors
    /// I/O errors, and [`io::ErrorKind::InvalidData`] for protocol violations.
    pub(crate) fn serve(&self, threads: NonZeroUsize) -> io::Result<()> {
        thread::scope(|scope| {
            for _ in 1..threads.get() {
                let work = || self.work();
                // It also works with fewer threads.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            self.work()
        })
    }

    fn work(&self) -> io::Result<()> {
        let result = self.answer_all();
        if result.is_err() {
            // The other threads then see the end of the stream.
            let _ = self.client.stream().shutdown(Shutdown::Both);
        }
        result
    }

    fn answer_all(&self) -> io::Result<()> {
        while let Some((request, buffer)) = self.next()? {
            self.answer(&request, buffer)?;
            self.client.note_activity();
        }
        Ok(())
    }

    fn answer(&self, request: &Request, mut buffer: Buffer<'_>) -> io::Result<()> {
        // Its client must not wait for ever, even if the export panics.
        let perform = AssertUnwindSafe(|| request.perform(self.export, &mut buffer));
        match catch_unwind(perform).unwrap_or(Err(Errno::IO)) {
            Ok(len @ 1..) => self.send(request.cookie(), Ok(&buffer[..len])),
            other => {
                // Free the memory for other requests while the client takes the answer.
                drop(buffer);
                self.send(request.cookie(), other.map(|_| &[][..]))
            }
        }
    }

    /// The next request, with its buffer, which holds the data of a write; `None` when there are no
    /// more.
    fn next(&self) -> io::Result<Option<(Request, Buffer<'a>)>> {
        let mut has_ended = self.has_ended.lock();
        // It stays so if this thread panics: it has read half a request, and the stream is out of sync.
        if mem::replace(&mut *has_ended, true) {
            return Ok(None);
        }
        let request = self.receive();
        *has_ended = !matches!(request, Ok(Some(_)));
        request
    }

    fn receive(&self) -> io::Result<Option<(Request, Buffer<'a>)>> {
        let mut stream = self.client.stream();
        let mut header = RequestHeader::new_zeroed();
        match stream.read_exact(header.as_mut_bytes()) {
            // Many clients disconnect without notice.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        self.client.note_activity();
        let request = Request::parse(header)?;
        let mut buffer = self.memory.take(request.buffer_len(), self.client);
        if request.data_len() > 0 {
            let data = &mut buffer[..request.data_len()];
            self.memory
                .transfer(self.client, || stream.read_exact(data))?;
        }
        Ok((!request.is_last()).then_some((request, buffer)))
    }

    fn send(&self, cookie: U64, answer: Result<&[u8], Errno>) -> io::Result<()> {
        let header = ReplyHeader {
            magic: REPLY_MAGIC.into(),
            error: answer.err().map_or(0, error_number).into(),
            cookie,
        };
        let header = header.as_bytes();
        let data = answer.unwrap_or_default();
        let stream = self.client.stream();
        let _sending = self.sending.lock();
        if data.is_empty() {
            write_both(stream, header, data)
        } else {
            self.memory
                .transfer(self.client, || write_both(stream, header, data))
        }
    }
}

/// Writes both parts, with a single system call if possible.
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
