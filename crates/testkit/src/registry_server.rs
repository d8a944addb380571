use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use verimount_sync::Mutex;

use crate::{HttpAnswer, HttpEnd, HttpRequest, HttpServer};

/// A container registry with one repository, `repository`, whose answers a script can make wrong in any
/// way. It stores blobs and manifests under any names, and checks no digest.
pub struct RegistryServer {
    server: HttpServer,
    shared: Arc<Shared>,
}

/// Whom a registry answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistryLogin {
    /// Everybody.
    None,
    /// Who sends this value of `Authorization`.
    Basic(&'static str),
    /// Who has the present token. The server of tokens is the same, and gives them to everybody if there is
    /// no value of `Authorization` here.
    Token(Option<&'static str>),
}

struct Shared {
    login: RegistryLogin,
    /// Where blobs are redirected to.
    storage: Option<String>,
    /// `HOST:PORT`, which is known when the server listens.
    host: OnceLock<String>,
    stored: Mutex<Stored>,
}

#[derive(Default)]
struct Stored {
    /// By the last component of their path.
    manifests: HashMap<String, Vec<u8>>,
    blobs: HashMap<String, Vec<u8>>,
    /// How many tokens were given. Only the last is accepted.
    tokens: usize,
}

impl RegistryServer {
    /// A registry with nothing in it. `storage`, if there is any, is the URL that blobs are redirected to,
    /// with their digest appended. `script` gets the number of the request, the request and the right answer.
    ///
    /// # Panics
    /// If the system allows no socket or thread.
    pub fn start(
        login: RegistryLogin,
        storage: Option<String>,
        script: impl Fn(usize, &HttpRequest, HttpAnswer) -> HttpAnswer + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            login,
            storage,
            host: OnceLock::new(),
            stored: Mutex::default(),
        });
        let answering = shared.clone();
        let server = HttpServer::start(Vec::new(), move |number, request, empty| {
            script(number, request, answering.answer(request, empty))
        });
        let url = server.url("");
        let host = url.trim_start_matches("http://").to_owned();
        shared.host.set(host).expect("it is set only here");
        Self { server, shared }
    }

    /// A registry that answers everybody rightly.
    pub fn honest() -> Self {
        Self::start(RegistryLogin::None, None, |_, _, answer| answer)
    }

    /// `HOST:PORT`.
    pub fn host(&self) -> &str {
        self.shared.host()
    }

    /// Stores a blob.
    pub fn store_blob(&self, digest: &str, bytes: impl Into<Vec<u8>>) {
        let mut stored = self.shared.stored.lock();
        stored.blobs.insert(digest.to_owned(), bytes.into());
    }

    /// Stores a manifest under a tag or digest.
    pub fn store_manifest(&self, name: &str, bytes: impl Into<Vec<u8>>) {
        let mut stored = self.shared.stored.lock();
        stored.manifests.insert(name.to_owned(), bytes.into());
    }

    /// The manifest with this tag or digest.
    pub fn manifest(&self, name: &str) -> Option<Vec<u8>> {
        self.shared.stored.lock().manifests.get(name).cloned()
    }

    /// The blob with this digest.
    pub fn blob(&self, digest: &str) -> Option<Vec<u8>> {
        self.shared.stored.lock().blobs.get(digest).cloned()
    }

    /// Accepts none of the tokens that were given.
    pub fn expire_tokens(&self) {
        self.shared.stored.lock().tokens += 1;
    }

    /// All requests so far, also those for tokens.
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.server.requests()
    }
}

impl Shared {
    fn host(&self) -> &str {
        // Only requests ask, and nobody knows the port before.
        self.host.get().expect("the server listens")
    }

    fn answer(&self, request: &HttpRequest, empty: HttpAnswer) -> HttpAnswer {
        let path = request.path.split('?').next().unwrap_or_default();
        if path == "/token" {
            return self.token(request, empty);
        }
        if let Some(challenge) = self.challenge(request) {
            let refused = empty.only_status(401);
            return refused.with("www-authenticate", challenge);
        }
        let answer = self.content(request, path, &empty);
        if request.method == "HEAD" {
            answer.cut(0, HttpEnd::Open)
        } else {
            answer
        }
    }

    /// A new token, for `/token`.
    fn token(&self, request: &HttpRequest, empty: HttpAnswer) -> HttpAnswer {
        if let RegistryLogin::Token(Some(expected)) = self.login
            && request.header("authorization") != Some(expected)
        {
            return empty.only_status(401);
        }
        let mut stored = self.stored.lock();
        stored.tokens += 1;
        let answer = format!(
            r#"{{"token": "token-{}", "expires_in": 300}}"#,
            stored.tokens
        );
        HttpAnswer::of(answer.as_bytes(), request)
    }

    /// What the client must tell first, if anything.
    fn challenge(&self, request: &HttpRequest) -> Option<String> {
        let (expected, challenge) = match self.login {
            RegistryLogin::None => return None,
            RegistryLogin::Basic(expected) => {
                (expected.to_owned(), "Basic realm=\"test\"".to_owned())
            }
            RegistryLogin::Token(_) => (
                format!("Bearer token-{}", self.stored.lock().tokens),
                format!(
                    "Bearer realm=\"http://{}/token\",service=\"test\"",
                    self.host()
                ),
            ),
        };
        (request.header("authorization") != Some(&*expected)).then_some(challenge)
    }

    fn content(&self, request: &HttpRequest, path: &str, empty: &HttpAnswer) -> HttpAnswer {
        let missing = || empty.clone().only_status(404);
        let mut stored = self.stored.lock();
        let Some(path) = path.strip_prefix("/v2/repository/") else {
            return missing();
        };
        let (kind, name) = path.rsplit_once('/').unwrap_or_default();
        match (&*request.method, kind) {
            ("POST", "blobs/uploads") => {
                let place = "/v2/repository/blobs/uploads/1?state=2";
                empty.clone().only_status(202).with("location", place)
            }
            ("PUT", "blobs/uploads") => {
                let digest = request.path.rsplit_once("digest=").unwrap_or_default().1;
                let body = request.body.clone();
                stored.blobs.insert(digest.to_owned(), body);
                empty.clone().only_status(201)
            }
            ("PUT", "manifests") => {
                let body = request.body.clone();
                stored.manifests.insert(name.to_owned(), body);
                empty.clone().only_status(201)
            }
            ("GET" | "HEAD", "manifests") => match stored.manifests.get(name) {
                Some(bytes) => HttpAnswer::of(bytes, request),
                None => missing(),
            },
            ("GET" | "HEAD", "blobs") => match (stored.blobs.get(name), &self.storage) {
                (Some(_), Some(storage)) => {
                    let redirect = empty.clone().only_status(307);
                    redirect.with("location", format!("{storage}{name}"))
                }
                (Some(bytes), None) => HttpAnswer::of(bytes, request),
                (None, _) => missing(),
            },
            _ => missing(),
        }
    }
}
