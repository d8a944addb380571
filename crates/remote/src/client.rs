//! Asking for the bytes of one file.

use std::{
    io::{self, Read},
    ops::Range,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use ureq::{
    BodyReader,
    http::{
        HeaderValue, Request, Response,
        header::{CONTENT_LENGTH, LOCATION, RANGE, TRANSFER_ENCODING},
    },
};
use verimount_sync::Mutex;

use crate::{
    Error, Headers, RemoteUrl, Session,
    answer::{Head, Version},
    cloud::Object,
    http::Within,
    limits::MAX_REDIRECTS,
    registry::Access,
};

/// Asks a server for ranges of one file.
pub(crate) struct Client {
    session: Session,
    server: Arc<str>,
    target: Target,
    /// Where a redirect led to. It is used until it is refused, as many expire.
    moved: Mutex<Option<RemoteUrl>>,
    /// The last version that is not the one that was opened, if there was one.
    other: Mutex<Option<Version>>,
}

/// Which file it is, and how to be let in.
pub(crate) enum Target {
    /// A file on a web server.
    Url(RemoteUrl),
    /// A blob of a registry.
    Blob(RemoteUrl, Arc<Access>),
    /// An object in a cloud.
    Object(Object),
}

/// Which bytes of a file are asked for.
#[derive(Debug, Clone)]
pub(crate) enum Span {
    /// These.
    Range(Range<u64>),
    /// This many at its end, or all if there are fewer.
    End(u64),
    /// All of them, without asking for a part.
    All,
    /// Only the head of the answer.
    Nothing,
}

/// An answer, and where a redirect led to.
pub(crate) type Answer = (Response<ureq::Body>, Option<RemoteUrl>);

/// Why an attempt failed, and how long the server asks to wait.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) retry_after: Option<Duration>,
}

/// The bytes of an answer whose head was accepted.
pub(crate) struct Body {
    reader: BodyReader<'static>,
    left: u64,
    /// Whether the answer shows its end, so that the connection can be used again.
    has_end: bool,
}

impl Client {
    /// # Errors
    /// [`Error::Unencrypted`] if others could read the session's headers on the way.
    pub(crate) fn new(session: &Session, target: Target) -> Result<Self, Error> {
        let is_told = |url: &RemoteUrl| session.headers_for(url).is_some();
        let mut public = target.own_url().into_iter();
        if public.any(|url| is_told(url) && !url.is_confidential()) {
            return Err(Error::Unencrypted);
        }
        Ok(Self {
            session: session.clone(),
            server: target.server().into(),
            target,
            moved: Mutex::default(),
            other: Mutex::default(),
        })
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// The name of the server, for which connections are counted.
    pub(crate) fn server(&self) -> Arc<str> {
        self.server.clone()
    }

    /// Asks for bytes of a file that is not known yet; says which of them come.
    ///
    /// # Errors
    /// Why the answer is not usable. Not all servers can be asked for the end.
    pub(crate) fn first(&self, asked: &Span) -> Result<(Version, Range<u64>, Body), Failure> {
        let (answer, moved) = self.ask_target(asked)?;
        let head = Head::new(answer.status().as_u16(), answer.headers());
        let (is_refused, told) = (head.is_refused_range(), head.size());
        // Its connection is not kept while others are asked for.
        let first = self.first_of(answer, moved, asked);
        let Span::Range(range) = asked else {
            return first;
        };
        match first {
            Err(failure) if is_refused => {
                let size = told.or_else(|| self.size());
                let size = size.filter(|size| (1..range.end).contains(size));
                let asked = Span::Range(0..size.ok_or(failure)?);
                let (answer, moved) = self.ask_target(&asked)?;
                self.first_of(answer, moved, &asked)
            }
            first => first,
        }
    }

    fn first_of(
        &self,
        answer: Response<ureq::Body>,
        moved: Option<RemoteUrl>,
        asked: &Span,
    ) -> Result<(Version, Range<u64>, Body), Failure> {
        let head = Head::new(answer.status().as_u16(), answer.headers());
        let (version, part) = head.first(asked).map_err(|error| failure(error, &head))?;
        let len = part.end - part.start;
        Ok((version, part, self.accepted(answer, moved, len)))
    }

    /// The size of the file, asked for because a range was refused: some servers do that if it ends behind the file. `None` if it
    /// is not told: the refusal is then what is wrong.
    fn size(&self) -> Option<u64> {
        // What an object store has signed is a GET.
        self.target.own_url()?;
        let (answer, _) = self.ask_target(&Span::Nothing).ok()?;
        Head::new(answer.status().as_u16(), answer.headers()).size()
    }

    /// Asks for all of a file; says how many bytes come.
    ///
    /// # Errors
    /// Why the answer is not usable.
    pub(crate) fn whole(&self) -> Result<(u64, Body), Failure> {
        let (answer, moved) = self.ask_target(&Span::All)?;
        let head = Head::new(answer.status().as_u16(), answer.headers());
        let size = head.whole().map_err(|error| failure(error, &head))?;
        Ok((size, self.accepted(answer, moved, size)))
    }

    /// Asks for a range of a file.
    ///
    /// # Errors
    /// Why the answer is not usable.
    pub(crate) fn range(&self, range: &Range<u64>, version: &Version) -> Result<Body, Failure> {
        let span = Span::Range(range.clone());
        let moved = self.moved.lock().clone();
        if let Some(moved) = moved {
            let answer = self.follow(&moved, &span);
            match answer.and_then(|answer| self.range_of(answer, range, version)) {
                Err(failure) if failure.error.is_refusal() => *self.moved.lock() = None,
                other => return other,
            }
        }
        let answer = self.ask_target(&span)?;
        self.range_of(answer, range, version)
    }

    fn range_of(
        &self,
        (answer, moved): Answer,
        range: &Range<u64>,
        version: &Version,
    ) -> Result<Body, Failure> {
        let head = Head::new(answer.status().as_u16(), answer.headers());
        let is_same = head.check(range, version);
        if let Err(Error::Replaced) = is_same {
            self.session.counters().changes.fetch_add(1, Relaxed);
        }
        if !is_same.map_err(|error| failure(error, &head))? {
            self.replaced(head.version(version.size)?)?;
        }
        Ok(self.accepted(answer, moved, range.end - range.start))
    }

    /// The server says that the file is of another version now.
    fn replaced(&self, now: Version) -> Result<(), Error> {
        if !self.session.tolerates_changes() {
            return Err(Error::Replaced);
        }
        let mut other = self.other.lock();
        if other.as_ref() == Some(&now) {
            return Ok(());
        }
        self.session.counters().changes.fetch_add(1, Relaxed);
        if other.replace(now).is_none() {
            tracing::warn!(
                file = self.target.own_url().map(tracing::field::display),
                "the server has another version of this file than before: its bytes are verified as always"
            );
        }
        Ok(())
    }

    /// Whether two answers are of the same version, as far as it matters.
    pub(crate) fn is_same(&self, one: &Version, other: &Version) -> bool {
        one.size == other.size && (self.session.tolerates_changes() || one == other)
    }

    fn accepted(&self, answer: Response<ureq::Body>, moved: Option<RemoteUrl>, len: u64) -> Body {
        self.session.budget().earn();
        if moved.is_some() {
            *self.moved.lock() = moved;
        }
        Body::new(answer, len)
    }

    /// Asks at the file's own place.
    fn ask_target(&self, span: &Span) -> Result<Answer, Failure> {
        match &self.target {
            Target::Url(url) | Target::Blob(url, _) => self.follow(url, span),
            Target::Object(object) => object.send(|url| self.follow(url, span)),
        }
    }

    /// Asks at one place, and where that redirects.
    fn follow(&self, start: &RemoteUrl, span: &Span) -> Result<Answer, Failure> {
        let mut moved: Option<RemoteUrl> = None;
        for _ in 0..=MAX_REDIRECTS {
            let at = moved.as_ref().unwrap_or(start);
            let answer = self.ask(at, span)?;
            match redirected(&answer, at)? {
                None => return Ok((answer, moved)),
                next => moved = next,
            }
        }
        Err(Error::Redirects.into())
    }

    /// Asks at one place; with what has replaced headers or authorities, if they are refused.
    fn ask(&self, at: &RemoteUrl, span: &Span) -> Result<Response<ureq::Body>, Failure> {
        let own = self.target.own_url();
        let own = own.filter(|own| at.is_same_server(own));
        let headers = own.and_then(|own| self.session.headers_for(own));
        let send = |headers: Option<&Headers>| {
            let http = self.session.http();
            http.trusting_anew(|| match &self.target {
                Target::Blob(_, access) if own.is_some() => {
                    access.send(|authorization| self.send(at, span, headers, authorization))
                }
                _ => self.send(at, span, headers, None),
            })
        };
        let answer = send(headers.as_deref())?;
        let is_refused = matches!(answer.status().as_u16(), 401 | 403);
        let refused = headers.filter(|_| is_refused);
        match refused.and_then(|refused| self.session.headers_instead_of(&refused)) {
            Some(headers) => send(Some(&headers)),
            None => Ok(answer),
        }
    }

    fn send(
        &self,
        at: &RemoteUrl,
        span: &Span,
        headers: Option<&Headers>,
        authorization: Option<&HeaderValue>,
    ) -> Result<Response<ureq::Body>, Failure> {
        self.session.counters().requests.fetch_add(1, Relaxed);
        let mut request = match span {
            Span::Nothing => Request::head(at.uri()),
            _ => Request::get(at.uri()),
        };
        if let Some(range) = span.header() {
            request = request.header(RANGE, range);
        }
        for (name, value) in headers.into_iter().flat_map(Headers::iter) {
            request = request.header(name, value);
        }
        let http = self.session.http();
        http.send(request, authorization, (), Within::Usual)
    }
}

impl Span {
    /// Which bytes these are of a file of this size.
    pub(crate) fn within(&self, size: u64) -> Range<u64> {
        match self {
            Self::Range(range) => range.start..range.end.min(size),
            Self::End(len) => size.saturating_sub(*len)..size,
            Self::All => 0..size,
            Self::Nothing => 0..0,
        }
    }

    /// The value of `Range`.
    fn header(&self) -> Option<String> {
        match self {
            Self::Range(range) => Some(format!("bytes={}-{}", range.start, range.end - 1)),
            Self::End(len) => Some(format!("bytes=-{len}")),
            Self::All | Self::Nothing => None,
        }
    }
}

impl Target {
    /// The name of the server, for which connections are counted.
    fn server(&self) -> String {
        match self {
            Self::Url(url) | Self::Blob(url, _) => url.server().unwrap_or_default(),
            Self::Object(object) => object.bucket_name(),
        }
    }

    /// The URL whose server gets what is secret. Those of objects are secrets themselves.
    fn own_url(&self) -> Option<&RemoteUrl> {
        match self {
            Self::Url(url) | Self::Blob(url, _) => Some(url),
            Self::Object(_) => None,
        }
    }
}

impl Body {
    fn new(answer: Response<ureq::Body>, len: u64) -> Self {
        let headers = answer.headers();
        Self {
            has_end: headers.contains_key(CONTENT_LENGTH)
                || headers.contains_key(TRANSFER_ENCODING),
            reader: answer.into_body().into_reader(),
            left: len,
        }
    }

    /// Reads some bytes into `buf`, which must not be empty. Only at the end are there none.
    ///
    /// # Errors
    /// [`Error::Broken`] if there are too few.
    pub(crate) fn read(&mut self, buf: &mut [u8]) -> Result<usize, Error> {
        let most = buf
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        match self.reader.read(&mut buf[..most]) {
            Ok(0) => Err(Error::Broken(format!("{} bytes are missing", self.left))),
            Ok(read) => {
                self.left -= read as u64;
                Ok(read)
            }
            Err(error) => Err(of_read(&error)),
        }
    }

    /// Reads the end of the answer, without which the connection cannot be used again. All that was asked
    /// for is here, so it does not matter how the connection ends, or whether more comes.
    pub(crate) fn finish(mut self) {
        if self.has_end {
            let _ = self.reader.read(&mut [0]);
        }
    }
}

/// Where an answer redirects to, if it does.
///
/// # Errors
/// [`Error::Redirects`] if that is no valid place.
pub(crate) fn redirected(
    answer: &Response<ureq::Body>,
    from: &RemoteUrl,
) -> Result<Option<RemoteUrl>, Error> {
    if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    location(answer, from).map(Some).ok_or(Error::Redirects)
}

/// The place that an answer names, if that is a URL. An empty one names none.
pub(crate) fn location(answer: &Response<ureq::Body>, from: &RemoteUrl) -> Option<RemoteUrl> {
    let location = answer.headers().get(LOCATION)?.as_bytes();
    from.joined(location).filter(|_| !location.is_empty())
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            error,
            retry_after: None,
        }
    }
}

fn failure(error: Error, head: &Head<'_>) -> Failure {
    Failure {
        retry_after: head.retry_after(),
        error,
    }
}

fn of_read(error: &io::Error) -> Error {
    Error::Broken(error.to_string())
}
