use std::{
    fmt, io,
    ops::ControlFlow,
    str::FromStr,
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use thiserror::Error;
use ureq::tls::{Certificate, PemItem, parse_pem};
use verimount_source::ReadAt;
use verimount_sync::Mutex;

use crate::{
    Error, Headers, RemoteFile, RemoteStats, RemoteUrl,
    client::{Client, Target},
    closing::Closing,
    cloud::{Buckets, Object, ObjectName},
    counters::{Counters, RemoteFailure},
    engine::Engine,
    fetch::{self, TakePiece},
    http::Http,
    limits::Limits,
    proxies::Proxies,
    renewed::{Again, Renewed},
    retry_budget::RetryBudget,
};

/// How web servers are reached.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RemoteOptions {
    /// How long a read waits for the next granule that it needs, and how long that is retried: at least a
    /// second, at most 136 years, by default a minute. What has shorter limits, such as opening, never takes longer.
    pub timeout: Duration,
    /// Whose certificates are accepted; by default those whom the system accepts.
    pub authorities: Option<Authorities>,
    /// What is sent with each request to the server of a URL that is opened. If several servers are,
    /// [`Session::send_headers_to`] says which one it is for.
    pub headers: Headers,
    pub(crate) headers_again: Again,
    pub(crate) authorities_again: Again,
}

impl RemoteOptions {
    /// Reads the text of [`Self::headers`] again when a server refuses them (401, 403), as tokens expire.
    pub fn read_headers_again(
        &mut self,
        read: impl Fn() -> io::Result<String> + Send + Sync + 'static,
    ) {
        self.headers_again = Again::new(read);
    }

    /// Reads the text of [`Self::authorities`] again when a server's certificate is not accepted.
    pub fn read_authorities_again(
        &mut self,
        read: impl Fn() -> io::Result<String> + Send + Sync + 'static,
    ) {
        self.authorities_again = Again::new(read);
    }
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            timeout: Limits::default().read,
            authorities: None,
            headers: Headers::default(),
            headers_again: Again::default(),
            authorities_again: Again::default(),
        }
    }
}

/// The certificates of authorities, in PEM format.
#[derive(Clone)]
pub struct Authorities(pub(crate) Arc<Vec<Certificate<'static>>>);

/// The text has no certificate in PEM format, or a malformed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("it is not a list of certificates in PEM format")]
pub struct ParseAuthoritiesError;

impl FromStr for Authorities {
    type Err = ParseAuthoritiesError;

    fn from_str(text: &str) -> Result<Self, ParseAuthoritiesError> {
        let certificates = parse_pem(text.as_bytes()).filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
            Ok(_) => None,
            Err(_) => Some(Err(ParseAuthoritiesError)),
        });
        let certificates = certificates.collect::<Result<Vec<_>, _>>()?;
        if certificates.is_empty() {
            Err(ParseAuthoritiesError)
        } else {
            Ok(Self(certificates.into()))
        }
    }
}

impl PartialEq for Authorities {
    fn eq(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|it| it.0.iter().map(Certificate::der));
        own.eq(others)
    }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authorities({} certificates)", self.0.len())
    }
}

/// What the files of one mount or command share: options, connections, a budget of retries, statistics, and
/// the end.
///
/// Clones are the same session. It ends when it is [closed](Self::close), or when all clones and files of it
/// are dropped.
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
    tolerates_changes: bool,
    told: Told,
}

/// Who gets the headers of a session.
#[derive(Clone)]
enum Told {
    Each,
    /// The server of this URL, or none.
    Only(Option<RemoteUrl>),
}

struct Shared {
    http: Http,
    headers: Renewed<Headers>,
    limits: Limits,
    closing: Closing,
    budget: RetryBudget,
    counters: Counters,
    last_failure: Mutex<Option<RemoteFailure>>,
    files: Mutex<Vec<Weak<RemoteFile>>>,
    buckets: Buckets,
}

impl Session {
    /// A new session.
    pub fn new(options: RemoteOptions) -> Self {
        let limits = Limits::of_timeout(options.timeout);
        Self::with_limits(options, limits)
    }

    pub(crate) fn with_limits(options: RemoteOptions, limits: Limits) -> Self {
        let RemoteOptions {
            authorities,
            authorities_again,
            headers,
            headers_again,
            ..
        } = options;
        let proxies = Proxies::of_environment();
        let shared = Shared {
            http: Http::new(authorities, authorities_again, limits, proxies),
            headers: Renewed::new(headers, move || {
                // While somebody writes to the file it may be empty, after which nothing would be refused any more.
                headers_again
                    .parsed()
                    .filter(|read: &Headers| !read.is_empty())
            }),
            limits,
            closing: Closing::default(),
            budget: RetryBudget::default(),
            counters: Counters::default(),
            last_failure: Mutex::default(),
            files: Mutex::default(),
            buckets: Buckets::default(),
        };
        Self {
            shared: shared.into(),
            tolerates_changes: false,
            told: Told::Each,
        }
    }

    /// For readers who compare all bytes with a digest that they know: files that are opened with it from now on may
    /// be replaced on the server, as long as their size stays the same. Otherwise reads then fail with
    /// [`Error::Replaced`].
    pub fn tolerate_changes(&mut self) {
        self.tolerates_changes = true;
    }

    /// Sends the headers to the server of this URL only, or to none. What was said before counts.
    pub fn send_headers_to(&mut self, url: Option<RemoteUrl>) {
        if let Told::Each = self.told {
            self.told = Told::Only(url);
        }
    }

    /// Replaces the settings and credentials of clouds from the environment. The session must be new.
    #[cfg(all(test, feature = "clouds"))]
    pub(crate) fn with_buckets(mut self, buckets: Buckets) -> Self {
        let shared = Arc::get_mut(&mut self.shared).expect("nobody else has it yet");
        shared.buckets = buckets;
        self
    }

    /// Replaces the proxies from the environment. The session must be new.
    #[cfg(test)]
    pub(crate) fn with_proxies(mut self, proxies: Proxies) -> Self {
        let shared = Arc::get_mut(&mut self.shared).expect("nobody else has it yet");
        shared.http = shared.http.clone().with_proxies(proxies);
        self
    }

    /// Opens a file, with a request for its beginning and one for its end.
    ///
    /// What may pass is retried for 15 seconds, but not that no connection can be made.
    ///
    /// # Errors
    /// Any [`enum@Error`].
    pub fn open(&self, url: &RemoteUrl) -> Result<Arc<RemoteFile>, Error> {
        self.open_target(Target::Url(url.clone()))
    }

    /// Fetches all of a file from a server that sends no parts. One that breaks off begins again. Returns the size.
    ///
    /// # Errors
    /// [`Error::Closed`] if `take` ends it, and others.
    pub fn fetch_whole(&self, url: &RemoteUrl, take: &mut TakePiece<'_>) -> Result<u64, Error> {
        let client = Client::new(self, Target::Url(url.clone()))?;
        fetch::whole(&client, take)
    }

    /// Opens an object, like a file. Its settings and credentials are looked for in the environment; the
    /// session's headers are not sent.
    ///
    /// # Errors
    /// [`Error::NoCloudCredentials`], [`Error::CloudSettings`], [`Error::Refused`], [`Error::NoClouds`], and others.
    pub fn open_object(&self, name: &ObjectName) -> Result<Arc<RemoteFile>, Error> {
        self.open_target(Target::Object(self.object(name)?))
    }

    pub(crate) fn open_target(&self, target: Target) -> Result<Arc<RemoteFile>, Error> {
        RemoteFile::open(self, target, Engine::of_process())
    }

    /// Stores an object, and compares its size. It replaces one with this name when it is complete.
    /// `progress` is told how many bytes were sent since the last call; it may end the upload.
    ///
    /// Requests that fail are repeated. If the process is killed, the store may keep parts that
    /// nobody sees; its own rules can remove them.
    ///
    /// # Errors
    /// [`Error::Closed`] if `progress` ends it; [`Error::ReadFailed`] if the content cannot be read;
    /// [`Error::StoredSize`]; others.
    pub fn store_object(
        &self,
        name: &ObjectName,
        content: &dyn ReadAt,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.shared.closing.check()?;
        let object = self.object(name)?;
        object.store(content, progress)?;
        let client = Client::new(self, Target::Object(object))?;
        let (expected, actual) = (content.size(), fetch::first(&client)?.0.size);
        if actual == expected {
            Ok(())
        } else {
            Err(Error::StoredSize { expected, actual })
        }
    }

    fn object(&self, name: &ObjectName) -> Result<Object, Error> {
        let shared = &self.shared;
        shared.buckets.object(name, &shared.http, &shared.limits)
    }

    /// The scheme, host and port of a URL which is read without credentials: neither headers nor a query are sent, as
    /// either may be secret. `None` of others.
    pub fn public_origin(&self, url: &RemoteUrl) -> Option<String> {
        self.headers_for(url)
            .is_none()
            .then(|| url.origin())
            .flatten()
    }

    /// What it has done so far.
    pub fn stats(&self) -> RemoteStats {
        self.shared.counters.stats()
    }

    /// The last failure of a request, which may have been repaired by a retry.
    pub fn last_failure(&self) -> Option<RemoteFailure> {
        self.shared.last_failure.lock().clone()
    }

    pub(crate) fn failed(&self, error: &Error) {
        *self.shared.last_failure.lock() = Some(RemoteFailure {
            error: error.clone(),
            at: SystemTime::now(),
        });
    }

    /// Ends all that is under way: reads that wait and all later ones fail.
    pub fn close(&self) {
        // With the list locked, no file can be opened in between.
        let mut files = self.shared.files.lock();
        self.shared.closing.close();
        for file in files.drain(..).filter_map(|file| file.upgrade()) {
            file.close();
        }
        drop(files);
        self.shared.http.shutdown();
    }

    /// How long a read waits.
    pub fn timeout(&self) -> Duration {
        self.shared.limits.read
    }

    pub(crate) fn tolerates_changes(&self) -> bool {
        self.tolerates_changes
    }

    pub(crate) fn http(&self) -> &Http {
        &self.shared.http
    }

    /// What is sent to the server of a URL; `None` if that is nothing.
    pub(crate) fn headers_for(&self, url: &RemoteUrl) -> Option<Arc<Headers>> {
        let is_told = match &self.told {
            Told::Each => true,
            Told::Only(only) => only.as_ref().is_some_and(|only| only.is_same_server(url)),
        };
        let headers = self.shared.headers.now();
        (is_told && !headers.is_empty()).then_some(headers)
    }

    /// What is sent instead of headers that were refused, if there are others by now.
    pub(crate) fn headers_instead_of(&self, refused: &Arc<Headers>) -> Option<Arc<Headers>> {
        self.shared.headers.instead_of(refused)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    pub(crate) fn closing(&self) -> &Closing {
        &self.shared.closing
    }

    pub(crate) fn budget(&self) -> &RetryBudget {
        &self.shared.budget
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Makes closing the session close this file.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(crate) fn add(&self, file: &Arc<RemoteFile>) -> Result<(), Error> {
        let mut files = self.shared.files.lock();
        self.shared.closing.check()?;
        files.retain(|file| file.strong_count() > 0);
        files.push(Arc::downgrade(file));
        Ok(())
    }
}

impl Default for Session {
    fn default() -> Self {
        Self::new(RemoteOptions::default())
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.http.shutdown();
    }
}
