//! The requests of `object_store`, sent by our own client.

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use http_body_util::BodyExt;
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
        HttpResponse, HttpService,
    },
};
use ureq::{
    Body,
    http::{HeaderValue, Method, Request, Response, Uri, header::CONTENT_LENGTH},
};
use verimount_sync::Mutex;

use super::Cloud;
use crate::{
    Error, RemoteUrl,
    http::{Http, Within, of_client},
};

/// The largest answer, in bytes: a token, or how an upload has ended.
const MAX_ANSWER: u64 = 1 << 20;

/// How long the metadata service of a machine may take. It is next door, or this is no machine in a cloud.
const METADATA: Duration = Duration::from_secs(2);

/// Sends requests, and remembers how the last one has failed: the errors of `object_store` quote what servers
/// answer, so that they cannot be shown.
#[derive(Clone)]
pub(super) struct Transport(Arc<Shared>);

struct Shared {
    http: Http,
    cloud: Cloud,
    /// Whether requests may be sent without encryption.
    allow_http: bool,
    failed: Mutex<Option<Error>>,
}

impl Transport {
    pub(super) fn new(http: Http, cloud: Cloud, allow_http: bool) -> Self {
        Self(Arc::new(Shared {
            http,
            cloud,
            allow_http,
            failed: Mutex::default(),
        }))
    }

    /// How the last request has failed, if it has. It is told once.
    pub(super) fn take_failure(&self) -> Option<Error> {
        self.0.failed.lock().take()
    }

    /// # Errors
    /// [`Error::PlainObjectStore`] if a URL with a signature would be sent without encryption.
    pub(super) fn check(&self, url: &RemoteUrl) -> Result<(), Error> {
        if self.0.allow_http || url.is_confidential() {
            Ok(())
        } else {
            Err(self.plain())
        }
    }

    fn send(&self, request: Request<&[u8]>) -> Result<Response<Body>, Error> {
        let is_metadata = is_metadata(request.uri());
        let url: RemoteUrl = request
            .uri()
            .to_string()
            .parse()
            .map_err(|_| Error::Redirects)?;
        if !is_metadata {
            self.check(&url)?;
        }
        let answer = if request.body().is_empty() {
            self.run(bodiless(request), is_metadata)
        } else {
            self.run(request, is_metadata)
        };
        match answer {
            Err(Error::UnknownHost | Error::Unreachable(_) | Error::Broken(_)) if is_metadata => {
                Err(Error::NoCloudCredentials {
                    cloud: self.0.cloud,
                })
            }
            answer => answer,
        }
    }

    fn run(
        &self,
        request: Request<impl ureq::AsSendBody>,
        is_metadata: bool,
    ) -> Result<Response<Body>, Error> {
        if is_metadata {
            // Proxies are for other networks than this machine's own.
            self.0.http.run_directly(request, METADATA)
        } else {
            self.0.http.run(request, Within::Usual)
        }
    }

    /// An answer for `object_store`, perhaps with credentials. The text of an error is not read.
    fn received(&self, answer: Response<Body>, is_metadata: bool) -> Result<HttpResponse, Error> {
        let (head, mut body) = answer.into_parts();
        let bytes = if head.status.is_success() {
            let limited = body.with_config().limit(MAX_ANSWER);
            let bytes = limited.read_to_vec().map_err(of_client)?;
            if is_metadata && escapes_control(&bytes) {
                return Err(Error::NoCloudCredentials {
                    cloud: self.0.cloud,
                });
            }
            bytes
        } else {
            *self.0.failed.lock() = Some(Error::of_status(head.status.as_u16()));
            Vec::new()
        };
        Ok(Response::from_parts(head, bytes.into()))
    }

    fn plain(&self) -> Error {
        Error::PlainObjectStore {
            cloud: self.0.cloud,
        }
    }
}

/// Whether there are escape sequences for control characters, of JSON or XML. Credentials have none; `object_store` puts them into headers,
/// and panics if a header cannot have them.
fn escapes_control(answer: &[u8]) -> bool {
    (0..answer.len()).any(|at| match &answer[at..] {
        [b'\\', b'b' | b'f' | b'n' | b'r' | b't', ..] => true,
        [b'\\', b'u', digits @ ..] => {
            let digits = digits.get(..4).unwrap_or_default();
            number(digits, 16).is_some_and(is_control)
        }
        [b'&', b'#', b'x', rest @ ..] => number(before_semicolon(rest), 16).is_some_and(is_control),
        [b'&', b'#', rest @ ..] => number(before_semicolon(rest), 10).is_some_and(is_control),
        _ => false,
    })
}

fn before_semicolon(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == b';').next().unwrap_or_default()
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    u32::from_str_radix(str::from_utf8(digits).ok()?, radix).ok()
}

fn is_control(number: u32) -> bool {
    char::from_u32(number).is_none_or(char::is_control)
}

/// A request without a body, which some servers want to have a length even so.
fn bodiless(mut request: Request<&[u8]>) -> Request<()> {
    if matches!(*request.method(), Method::POST | Method::PUT) {
        request
            .headers_mut()
            .insert(CONTENT_LENGTH, HeaderValue::from(0));
    }
    request.map(|_| ())
}

/// Whether it is a service of the machine itself, which gives it credentials and has no encryption.
fn is_metadata(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    match host.trim_matches(['[', ']']).parse() {
        Ok(IpAddr::V4(address)) => address.is_link_local(),
        Ok(IpAddr::V6(address)) => address.segments()[..2] == [0xfd00, 0xec2],
        Err(_) => matches!(host, "metadata" | "metadata.google.internal"),
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}

impl HttpConnector for Transport {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Transport {
    /// It blocks its thread, which has nothing else to do.
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = request.into_parts();
        let body = HttpRequestBody::collect(body).await?.to_bytes();
        *self.0.failed.lock() = None;
        let request = Request::from_parts(head, &body[..]);
        let is_metadata = is_metadata(request.uri());
        let answer = self.send(request);
        let answer = answer.and_then(|answer| self.received(answer, is_metadata));
        answer.map_err(|error| {
            *self.0.failed.lock() = Some(error.clone());
            HttpError::new(kind(&error), error)
        })
    }
}

/// What `object_store` does then: it repeats all but the last kind.
fn kind(error: &Error) -> HttpErrorKind {
    match error {
        Error::Unreachable(_) => HttpErrorKind::Connect,
        Error::Broken(_) => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_no_part_of_credentials() {
        for (answer, has_them) in [
            ("{\n  \"Token\": \"IQoJ+/\\u003d\\/\"\n}", false),
            ("<ETag>&quot;1&#34;&#x22;</ETag>", false),
            ("token\n", false),
            (r#"{"Token": "a\n"}"#, true),
            (r#"{"Token": "a\u000a"}"#, true),
            (r#"{"Token": "\u001F"}"#, true),
            (r#"{"Token": "\u007f"}"#, true),
            ("<SessionToken>a&#10;b</SessionToken>", true),
            ("<SessionToken>a&#x0A;b</SessionToken>", true),
        ] {
            assert_eq!(escapes_control(answer.as_bytes()), has_them, "{answer}");
        }
    }

    #[test]
    fn only_the_machine_itself_has_metadata() {
        for (url, is) in [
            ("http://169.254.169.254/latest/api/token", true),
            ("http://169.254.170.2/v2/credentials", true),
            ("http://[fd00:ec2::254]/latest", true),
            ("http://metadata.google.internal/computeMetadata", true),
            ("http://10.0.0.1/", false),
            ("http://[fd00::1]/", false),
            ("http://metadata.example.org/", false),
            ("https://sts.eu-central-1.amazonaws.com/", false),
        ] {
            assert_eq!(is_metadata(&url.parse().unwrap()), is, "{url}");
        }
    }
}
