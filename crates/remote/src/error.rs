use std::{io, time::Duration};

use thiserror::Error;

use crate::{
    cloud::Cloud,
    limits::{MAX_HEAD, MAX_REDIRECTS},
    registry::{BlobDigest, ManifestError},
};

/// Why a file or an image in a registry cannot be opened, read or stored. No text of it contains the query
/// of a URL, a password or a token.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The server has no such file.
    #[error("the server has no such file (status {status})")]
    NotFound {
        /// 404 or 410.
        status: u16,
    },
    /// The server does not allow it.
    #[error("the server does not allow it (status {status})")]
    Forbidden {
        /// 401 or 403.
        status: u16,
    },
    /// The server says that it cannot answer now.
    #[error("the server cannot answer now (status {status})")]
    Busy {
        /// 408, 425, 429, 500, 502, 503 or 504.
        status: u16,
    },
    /// Any other status than 206.
    #[error("the server answered with status {status}")]
    Status {
        /// The status.
        status: u16,
    },
    /// The server sends the whole file when asked for a range.
    #[error("the server does not support ranges: it sends the whole file, which only pull can use")]
    NoRanges,
    /// There is no usable `Content-Range`.
    #[error("the answer does not say which bytes it has")]
    NoContentRange,
    /// The answer has other bytes than those asked for.
    #[error("the answer has other bytes than those asked for")]
    WrongRange,
    /// The size of the file is `*`.
    #[error("the answer does not say how large the file is")]
    NoSize,
    /// The size of the file is larger than any file.
    #[error("the server says that the file has {size} bytes, which is more than any file has")]
    Size {
        /// What the server says.
        size: u64,
    },
    /// The answer is compressed or otherwise encoded, although that was declined.
    #[error("the answer is encoded, although that was declined")]
    Encoded,
    /// `Content-Length` contradicts `Content-Range`.
    #[error("the answer announces {announced} bytes for a range of {expected}")]
    WrongLength {
        /// In `Content-Length`.
        announced: u64,
        /// In `Content-Range`.
        expected: u64,
    },
    /// The size, `ETag` or `Last-Modified` is another one than when the file was opened.
    #[error("the file on the server was replaced after it was opened")]
    Replaced,
    /// There are too many redirects, or a redirect leads nowhere.
    #[error("the server redirects more than {MAX_REDIRECTS} times, or to no valid place")]
    Redirects,
    /// The head of the answer is too large.
    #[error("the head of the answer has more than {MAX_HEAD} bytes")]
    LargeHead,
    /// The connection cannot be encrypted, or the server's certificate is not accepted.
    #[error("no secure connection: {0}")]
    Tls(String),
    /// The answer is not HTTP.
    #[error("the answer is not valid HTTP: {0}")]
    Protocol(String),
    /// The proxy in the environment cannot be used.
    #[error(
        "the proxy in the environment variable {variable} cannot be used: it must be http://HOST:PORT or \
         https://HOST:PORT"
    )]
    Proxy {
        /// The variable.
        variable: &'static str,
    },
    /// No host has the name in the URL.
    #[error("unknown host: its name, or that of its proxy, has no address")]
    UnknownHost,
    /// No connection can be made.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// The connection ended or fell silent before all was transferred.
    #[error("the transfer broke off: {0}")]
    Broken(String),
    /// It was retried without success until the deadline.
    #[error("gave up after {} seconds: {last}", .after.as_secs())]
    GaveUp {
        /// How long it was tried.
        after: Duration,
        /// How the last attempt failed.
        last: Box<Error>,
    },
    /// All connections are busy with other reads.
    #[error("nothing arrived within {} seconds", .after.as_secs())]
    TimedOut {
        /// How long the reader waited.
        after: Duration,
    },
    /// Secret headers are not sent without encryption.
    #[error("headers from a file are not sent without encryption: the URL must begin with https")]
    Unencrypted,
    /// The system starts no threads.
    #[error("no thread can be started: {0}")]
    NoThreads(String),
    /// The file was closed during the read, or the work was ended.
    #[error("the file was closed")]
    Closed,
    /// A registry asks for credentials, and there are none.
    #[error(
        "the registry asks for credentials, and there are none for {host}: \
         `docker login` or `podman login` stores them"
    )]
    NoCredentials {
        /// The registry.
        host: String,
    },
    /// Credentials would have to be sent without encryption.
    #[error("the registry asks for credentials, which are not sent without encryption")]
    PlainCredentials,
    /// A file of credentials cannot be used.
    #[error("credentials in {file}: {reason}")]
    AuthFile {
        /// The file.
        file: String,
        /// What is wrong with it, without its content.
        reason: String,
    },
    /// The server of tokens that a registry names is not a URL, or would be spoken to without encryption.
    #[error("refusing to fetch a token from a server without https")]
    BadRealm,
    /// The token server's answer has no token.
    #[error("the answer of the server of tokens has no usable token")]
    BadToken,
    /// A manifest is too large.
    #[error("the manifest has more than {0} bytes")]
    LargeManifest(u64),
    /// A manifest does not have the digest that it is named by.
    #[error("the registry sends another manifest, {actual}, for {expected}")]
    WrongDigest {
        /// The name.
        expected: BlobDigest,
        /// The digest of what was sent.
        actual: BlobDigest,
    },
    /// A manifest cannot be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A blob does not have the size that the manifest says.
    #[error(
        "the registry has {actual} bytes of a blob that has {expected} according to its manifest"
    )]
    BlobSize {
        /// In the manifest.
        expected: u64,
        /// What the registry says.
        actual: u64,
    },
    /// A registry does not say where to send a blob to, or names a place that is less private.
    #[error("the registry names no usable place to send a blob to")]
    BadLocation,
    /// No credentials for a cloud were found.
    #[error(
        "there are no credentials for {cloud}: {}, or {}=true for public objects",
        .cloud.how_to_give_credentials(), .cloud.skip_signature()
    )]
    NoCloudCredentials {
        /// The cloud.
        cloud: Cloud,
    },
    /// A cloud does not accept the credentials, or the request.
    #[error(
        "{cloud} does not allow it (status {status}): check the credentials in the environment, the region and \
         endpoint, the names of bucket and object, and the clock"
    )]
    Refused {
        /// The cloud.
        cloud: Cloud,
        /// 301, 400, 401 or 403; 404 of a service that has credentials.
        status: u16,
    },
    /// The settings of a cloud in the environment cannot be used.
    #[error("the settings of {cloud} in the environment cannot be used: {reason}")]
    CloudSettings {
        /// The cloud.
        cloud: Cloud,
        /// What is wrong with them, without secrets.
        reason: String,
    },
    /// Credentials would be sent to a cloud without encryption.
    #[error("credentials are not sent to {cloud} without encryption, unless {}=true", .cloud.allow_http())]
    PlainObjectStore {
        /// The cloud.
        cloud: Cloud,
    },
    /// Objects cannot be reached, without the feature `clouds`.
    #[error("this program was built without support for object stores")]
    NoClouds,
    /// An object that was stored does not have the size of what was sent.
    #[error("the object store has {actual} bytes of an object of {expected}")]
    StoredSize {
        /// What was sent.
        expected: u64,
        /// What is there.
        actual: u64,
    },
    /// What is to be stored cannot be read.
    #[error("{0}")]
    ReadFailed(String),
}

impl Error {
    /// What a status means that is not a success.
    pub(crate) fn of_status(status: u16) -> Self {
        match status {
            404 | 410 => Self::NotFound { status },
            401 | 403 => Self::Forbidden { status },
            408 | 425 | 429 | 500 | 502 | 503 | 504 => Self::Busy { status },
            _ => Self::Status { status },
        }
    }

    /// Whether another attempt may succeed.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. } | Self::Unreachable(_) | Self::Broken(_)
        )
    }

    /// Whether a place that a redirect led to cannot be used any longer.
    pub(crate) fn is_refusal(&self) -> bool {
        !self.may_pass() || matches!(self, Self::Unreachable(_))
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::NotFound { .. } => io::ErrorKind::NotFound,
            Error::Forbidden { .. }
            | Error::NoCredentials { .. }
            | Error::NoCloudCredentials { .. }
            | Error::Refused { .. } => io::ErrorKind::PermissionDenied,
            Error::GaveUp { .. } | Error::TimedOut { .. } => io::ErrorKind::TimedOut,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
