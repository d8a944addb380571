use std::{
    collections::HashMap,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::net::sockopt::set_socket_linger;
use verimount_sync::Mutex;

/// A web server of one file, whose answers a script can make wrong in any way.
pub struct HttpServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

/// A request for the file, or for some bytes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// `GET` and the like.
    pub method: String,
    /// The path, with the query.
    pub path: String,
    /// The range in the header, with an exclusive end.
    pub range: Option<Range<u64>>,
    /// Whether the header does not say where the range starts, but that it ends with the file.
    pub is_of_end: bool,
    /// The names of all headers, in lower case, and their values.
    pub headers: Vec<(String, String)>,
    /// The body, if it comes in one piece.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// The value of a header, whose name is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(own, _)| own == name)?;
        Some(value)
    }
}

/// An answer, to be changed by a script.
#[derive(Debug, Clone)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// How slowly the body is sent, if not at once.
    pub pace: Option<HttpPace>,
    /// What happens after the body.
    pub end: HttpEnd,
}

/// A slow sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpPace {
    /// How many bytes it sends at a time.
    pub piece: usize,
    /// How long it waits before it sends them.
    pub pause: Duration,
}

/// What happens to a connection after the bytes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpEnd {
    /// It waits for the next request.
    Open,
    /// It is closed.
    Closed,
    /// It is closed without an answer.
    Unanswered,
    /// It is broken off, so that the client's system reports a failure and not an end.
    Reset,
    /// It stays open and silent until the server ends.
    Silent,
}

impl HttpAnswer {
    /// The right answer to a request for `content`.
    pub fn of(content: &[u8], request: &HttpRequest) -> Self {
        let size = content.len() as u64;
        let (status, part) = match &request.range {
            None => (200, 0..size),
            Some(range) if range.start >= size => (416, 0..0),
            Some(range) => (206, range.start..range.end.min(size)),
        };
        let answer = Self {
            status,
            headers: Vec::new(),
            body: content[part.start as usize..part.end as usize].to_vec(),
            pace: None,
            end: HttpEnd::Open,
        };
        let answer = answer
            .with("content-length", part.end - part.start)
            .with("etag", "\"version-1\"");
        match status {
            206 => {
                let last = part.end - 1;
                answer.with(
                    "content-range",
                    format!("bytes {}-{last}/{size}", part.start),
                )
            }
            416 => answer.with("content-range", format!("bytes */{size}")),
            _ => answer,
        }
    }

    /// Replaces or adds a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        self = self.without(name);
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    /// Removes a header.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(own, _)| own != name);
        self
    }

    /// Leaves only a status, and a body of nothing.
    #[must_use]
    pub fn only_status(self, status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            pace: None,
            end: self.end,
        }
        .with("content-length", 0)
    }

    /// Ends the connection after this many bytes of the body.
    #[must_use]
    pub fn cut(mut self, len: usize, end: HttpEnd) -> Self {
        self.body.truncate(len);
        self.end = end;
        self
    }

    fn send(&self, mut connection: impl Write) -> io::Result<()> {
        let mut bytes = format!("HTTP/1.1 {} Scripted\r\n", self.status).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend(format!("{name}: {value}\r\n").bytes());
        }
        bytes.extend(b"\r\n");
        let Some(pace) = self.pace else {
            bytes.extend(&self.body);
            connection.write_all(&bytes)?;
            return connection.flush();
        };
        connection.write_all(&bytes)?;
        for piece in self.body.chunks(pace.piece) {
            thread::sleep(pace.pause);
            connection.write_all(piece)?;
        }
        connection.flush()
    }
}

/// What a script does: it gets the number of the request, counted from 0, the request and the right answer.
type Script = dyn Fn(usize, &HttpRequest, HttpAnswer) -> HttpAnswer + Send + Sync;

/// What is below HTTP.
pub(crate) struct Transport {
    /// That of URLs.
    pub(crate) scheme: &'static str,
    /// Answers the requests of a connection, and returns how that should end.
    pub(crate) serve: fn(&Shared, &TcpStream) -> HttpEnd,
}

const PLAIN: Transport = Transport {
    scheme: "http",
    serve: Shared::serve,
};

pub(crate) struct Shared {
    content: Vec<u8>,
    /// Whether it knows ranges that are counted from the end.
    knows_ends: bool,
    script: Box<Script>,
    transport: Transport,
    requests: Mutex<Vec<HttpRequest>>,
    /// Those that are open, by the number of each.
    connections: Mutex<HashMap<usize, TcpStream>>,
    /// How many of them have an answer that has not ended.
    answering: AtomicUsize,
    is_over: AtomicBool,
}

impl HttpServer {
    /// Serves `content` under every path, on a free port of the loopback interface.
    ///
    /// Like some object stores, it does not know ranges that are counted from the end. Clients ask for them beside other
    /// requests, whose order the script and tests know; so they are refused, and not recorded.
    ///
    /// # Panics
    /// If the system allows no socket or thread.
    pub fn start(
        content: impl Into<Vec<u8>>,
        script: impl Fn(usize, &HttpRequest, HttpAnswer) -> HttpAnswer + Send + Sync + 'static,
    ) -> Self {
        Self::launch(content.into(), false, Box::new(script), PLAIN)
    }

    /// Serves `content` under every path, as [`Self::start`] does, and knows ranges that are counted from the end.
    ///
    /// # Panics
    /// If the system allows no socket or thread.
    pub fn with_ends(
        content: impl Into<Vec<u8>>,
        script: impl Fn(usize, &HttpRequest, HttpAnswer) -> HttpAnswer + Send + Sync + 'static,
    ) -> Self {
        Self::launch(content.into(), true, Box::new(script), PLAIN)
    }

    pub(crate) fn launch(
        content: Vec<u8>,
        knows_ends: bool,
        script: Box<Script>,
        transport: Transport,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            content,
            knows_ends,
            script,
            transport,
            requests: Mutex::default(),
            connections: Mutex::default(),
            answering: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        Self {
            shared,
            address,
            acceptor: Some(thread::spawn(move || accepting.accept(&listener))),
        }
    }

    /// Serves `content` rightly.
    pub fn honest(content: impl Into<Vec<u8>>) -> Self {
        Self::start(content, |_, _, answer| answer)
    }

    /// The URL of a path, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.shared.transport.scheme, self.address)
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.shared.requests.lock().clone()
    }

    /// How many answers have begun and not ended. One that falls silent ends when the client leaves.
    pub fn answering(&self) -> usize {
        self.shared.answering.load(SeqCst)
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, SeqCst);
        // Wakes the acceptor.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        for connection in self.shared.connections.lock().values() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for number in 0.. {
            let Ok((connection, _)) = listener.accept() else {
                return;
            };
            if self.is_over.load(SeqCst) {
                return;
            }
            if let Ok(handle) = connection.try_clone() {
                self.connections.lock().insert(number, handle);
            }
            let shared = self.clone();
            thread::spawn(move || {
                let is_reset = (shared.transport.serve)(&shared, &connection) == HttpEnd::Reset;
                shared.connections.lock().remove(&number);
                // Without waiting for what was sent, the system closes a connection by a reset.
                let is_reset =
                    is_reset && set_socket_linger(&connection, Some(Duration::ZERO)).is_ok();
                if !is_reset {
                    let _ = connection.shutdown(Shutdown::Both);
                }
            });
        }
    }

    /// Answers requests until the client or the script ends the connection; returns how that should end. A client may
    /// leave at any time, so that failures are of no interest.
    pub(crate) fn serve<C>(&self, connection: &C) -> HttpEnd
    where
        for<'c> &'c C: Read + Write,
    {
        let mut reader = BufReader::new(connection);
        let size = self.content.len() as u64;
        while let Ok(Some(request)) = read_request(&mut reader, size) {
            if request.is_of_end && !self.knows_ends {
                let refusal = HttpAnswer::of(&[], &request).only_status(501);
                if refusal.send(connection).is_err() {
                    break;
                }
                continue;
            }
            let number = {
                let mut requests = self.requests.lock();
                requests.push(request.clone());
                requests.len() - 1
            };
            let answer = (self.script)(number, &request, HttpAnswer::of(&self.content, &request));
            self.answering.fetch_add(1, SeqCst);
            let is_sent = answer.end != HttpEnd::Unanswered && answer.send(connection).is_ok();
            if is_sent && answer.end == HttpEnd::Silent {
                // Until the client leaves, or the server ends.
                let _ = reader.read(&mut [0]);
            }
            self.answering.fetch_sub(1, SeqCst);
            if !is_sent || answer.end != HttpEnd::Open {
                return answer.end;
            }
        }
        HttpEnd::Closed
    }
}

/// Reads a request for a file of `size` bytes; `None` at the end of the connection.
fn read_request(reader: &mut impl BufRead, size: u64) -> io::Result<Option<HttpRequest>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split(' ').map(str::to_owned);
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let range = headers.iter().find(|(name, _)| name == "range");
    let range = range.and_then(|(_, value)| value.strip_prefix("bytes=")?.split_once('-'));
    let is_of_end = range.is_some_and(|(first, _)| first.is_empty());
    let range = range.and_then(|(first, last)| {
        let last: u64 = last.parse().ok()?;
        if is_of_end {
            Some(size.saturating_sub(last)..size)
        } else {
            Some(first.parse().ok()?..last + 1)
        }
    });
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, length)| length.parse().ok());
    let mut body = vec![0; length.unwrap_or_default()];
    reader.read_exact(&mut body)?;
    Ok(Some(HttpRequest {
        method,
        path,
        range,
        is_of_end,
        headers,
        body,
    }))
}
