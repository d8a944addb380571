//! The HTTP client, which only this module and `registry` know.

use std::{
    io::{self, Read},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use rustls::crypto::ring;
use ureq::{
    Agent, BodyReader, Timeout,
    config::RedirectAuthHeaders,
    http::{
        HeaderValue, Response,
        header::{AUTHORIZATION, RANGE},
    },
    tls::{RootCerts, TlsConfig},
};

use crate::{
    Error, RemoteUrl,
    answer::{Head, Version},
    limits::{CONNECT, Limits, MAX_HEAD, MAX_REDIRECTS},
    registry::Access,
};

/// Asks a server for ranges of one file.
pub(crate) struct Client {
    agent: Agent,
    url: RemoteUrl,
    /// How to be let in, if the server is a registry.
    access: Option<Arc<Access>>,
}

/// Why an attempt failed, and how long the server asks to wait.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) retry_after: Option<Duration>,
}

/// The bytes of an answer whose head was accepted.
pub(crate) struct Body {
    reader: BodyReader<'static>,
    left: u64,
}

impl Client {
    pub(crate) fn new(url: RemoteUrl, access: Option<Arc<Access>>, limits: &Limits) -> Self {
        Self {
            agent: agent(limits),
            url,
            access,
        }
    }

    /// Asks for the bytes `0..end` of a file that is not known yet.
    ///
    /// # Errors
    /// Why the answer is not usable.
    pub(crate) fn first(&self, end: u64) -> Result<(Version, Body), Failure> {
        let answer = self.get(&(0..end))?;
        let head = Head::new(answer.status().as_u16(), answer.headers());
        let version = head
            .first_version(end)
            .map_err(|error| failure(error, &head))?;
        let len = end.min(version.size);
        Ok((version, Body::new(answer, len)))
    }

    /// Asks for a range of a file.
    ///
    /// # Errors
    /// Why the answer is not usable.
    pub(crate) fn range(&self, range: &Range<u64>, version: &Version) -> Result<Body, Failure> {
        let answer = self.get(range)?;
        let head = Head::new(answer.status().as_u16(), answer.headers());
        head.check(range, version)
            .map_err(|error| failure(error, &head))?;
        Ok(Body::new(answer, range.end - range.start))
    }

    /// Ends all that is under way; later requests fail.
    pub(crate) fn shutdown(&self) {
        self.agent.clone().shutdown();
    }

    fn get(&self, range: &Range<u64>) -> Result<Response<ureq::Body>, Failure> {
        let asked = format!("bytes={}-{}", range.start, range.end - 1);
        let send = |authorization: Option<&HeaderValue>| -> Result<_, Failure> {
            let mut request = self.agent.get(self.url.uri()).header(RANGE, &asked);
            if let Some(value) = authorization {
                request = request.header(AUTHORIZATION, value);
            }
            Ok(request.call().map_err(of_client)?)
        };
        match &self.access {
            Some(access) => access.send(send),
            None => send(None),
        }
    }
}

/// An agent for one file or repository.
pub(crate) fn agent(limits: &Limits) -> Agent {
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build();
    // No limit for a whole answer: a slow one is better than none. The caller has deadlines.
    let config = Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .max_redirects(MAX_REDIRECTS)
        .redirect_auth_headers(RedirectAuthHeaders::Never)
        .max_response_header_size(MAX_HEAD)
        .max_idle_connections(limits.connections)
        .max_idle_connections_per_host(limits.connections)
        .timeout_resolve(Some(CONNECT))
        .timeout_connect(Some(CONNECT))
        .timeout_per_read(Some(limits.silence))
        .timeout_per_write(Some(limits.silence))
        .timeout_recv_response(Some(limits.read))
        .user_agent(concat!("verimount/", env!("CARGO_PKG_VERSION")))
        .accept("*/*")
        .accept_encoding("identity")
        .build();
    config.into()
}

impl Body {
    fn new(answer: Response<ureq::Body>, len: u64) -> Self {
        Self {
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
        let _ = self.reader.read(&mut [0]);
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

/// The texts of the client's errors may contain the URL with its query, so only some are used.
pub(crate) fn of_client(error: ureq::Error) -> Error {
    match error {
        ureq::Error::TooManyRedirects | ureq::Error::RedirectFailed | ureq::Error::BadUri(_) => {
            Error::Redirects
        }
        ureq::Error::LargeResponseHeader(..) => Error::LargeHead,
        ureq::Error::HostNotFound => Error::Unreachable("the host is not known".to_owned()),
        ureq::Error::ConnectionFailed => Error::Unreachable("no address answers".to_owned()),
        ureq::Error::ConnectProxyFailed(_) | ureq::Error::InvalidProxyUrl => {
            Error::Unreachable("the proxy does not connect".to_owned())
        }
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
            Error::Unreachable("no answer in time".to_owned())
        }
        ureq::Error::Timeout(_) => Error::Broken("no answer in time".to_owned()),
        ureq::Error::Rustls(error) => Error::Tls(error.to_string()),
        ureq::Error::Tls(text) => Error::Tls(text.to_owned()),
        ureq::Error::Protocol(error) => Error::Protocol(error.to_string()),
        ureq::Error::Http(error) => Error::Protocol(error.to_string()),
        ureq::Error::Io(error) => of_io(&error),
        _ => Error::Protocol("the client failed".to_owned()),
    }
}

fn of_io(error: &io::Error) -> Error {
    if let Some(tls) = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
    {
        return Error::Tls(tls.to_string());
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::AddrNotAvailable => Error::Unreachable(error.to_string()),
        _ => Error::Broken(error.to_string()),
    }
}
