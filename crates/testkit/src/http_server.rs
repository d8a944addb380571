use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
};

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
    /// What happens after the body.
    pub end: HttpEnd,
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

    /// The same with only a status, and a body of nothing.
    #[must_use]
    pub fn only_status(self, status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
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

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("HTTP/1.1 {} Scripted\r\n", self.status).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend(format!("{name}: {value}\r\n").bytes());
        }
        bytes.extend(b"\r\n");
        bytes.extend(&self.body);
        bytes
    }
}

/// What a script does: it gets the number of the request, counted from 0, the request and the right answer.
type Script = dyn Fn(usize, &HttpRequest, HttpAnswer) -> HttpAnswer + Send + Sync;

struct Shared {
    content: Vec<u8>,
    script: Box<Script>,
    requests: Mutex<Vec<HttpRequest>>,
    connections: Mutex<Vec<TcpStream>>,
    is_over: AtomicBool,
}

impl HttpServer {
    /// Serves `content` under every path, on a free port of the loopback interface.
    ///
    /// # Panics
    /// If the system allows no socket or thread.
    pub fn start(
        content: impl Into<Vec<u8>>,
        script: impl Fn(usize, &HttpRequest, HttpAnswer) -> HttpAnswer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            content: content.into(),
            script: Box::new(script),
            requests: Mutex::default(),
            connections: Mutex::default(),
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
        format!("http://{}{path}", self.address)
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<HttpRequest> {
        locked(&self.shared.requests).clone()
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
        for connection in locked(&self.shared.connections).iter() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while let Ok((connection, _)) = listener.accept() {
            if self.is_over.load(SeqCst) {
                return;
            }
            if let Ok(handle) = connection.try_clone() {
                locked(&self.connections).push(handle);
            }
            let shared = self.clone();
            thread::spawn(move || shared.serve(connection));
        }
    }

    /// Answers requests until the client or the script ends the connection. A client may leave at any
    /// time, so that failures are of no interest.
    fn serve(&self, connection: TcpStream) {
        let mut reader = BufReader::new(&connection);
        while let Ok(Some(request)) = read_request(&mut reader) {
            let number = {
                let mut requests = locked(&self.requests);
                requests.push(request.clone());
                requests.len() - 1
            };
            let answer = (self.script)(number, &request, HttpAnswer::of(&self.content, &request));
            if answer.end == HttpEnd::Unanswered
                || (&connection).write_all(&answer.bytes()).is_err()
            {
                break;
            }
            match answer.end {
                HttpEnd::Open => {}
                HttpEnd::Closed | HttpEnd::Unanswered => break,
                // Until the client leaves, or the server ends.
                HttpEnd::Silent => {
                    let _ = reader.read(&mut [0]);
                    break;
                }
            }
        }
        let _ = connection.shutdown(Shutdown::Both);
    }
}

/// Reads a request; `None` at the end of the connection.
fn read_request(reader: &mut impl BufRead) -> io::Result<Option<HttpRequest>> {
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
    let range = range.and_then(|(_, value)| {
        let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
        Some(first.parse().ok()?..last.parse::<u64>().ok()? + 1)
    });
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, length)| length.parse().ok());
    let mut body = vec![0; length.unwrap_or_default()];
    reader.read_exact(&mut body)?;
    Ok(Some(HttpRequest {
        method,
        path,
        range,
        headers,
        body,
    }))
}

/// What a script that panics leaves is still a list.
fn locked<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}
