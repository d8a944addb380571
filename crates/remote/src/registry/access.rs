use std::{iter, time::Duration};

use ct_codecs::{Base64, Encoder};
use serde::Deserialize;
use ureq::{
    Body, ResponseExt,
    http::{HeaderMap, HeaderValue, Response, Uri},
};
use verimount_sync::Mutex;

use super::{
    auth_files::{AuthFiles, Credential},
    challenge::Challenge,
    host::Host,
    status::expect,
};
use crate::{
    Error, Session,
    client::Failure,
    http::{Http, of_client},
};

/// The largest answer with a token, in bytes.
const MAX_TOKEN: u64 = 16 << 10;

/// How long asking for a token may take at most.
const TOKEN: Duration = Duration::from_secs(30);

/// The right to use a repository, shared by all that use it.
///
/// A request goes out with what the registry was told last. If it wants something else (401), one thread
/// asks for a new token or reads the credentials again. All others that were refused by then wait for that, and get what
/// it has found or why it has failed, so that nobody waits for more than one attempt.
pub(crate) struct Access {
    http: Http,
    host: Host,
    scope: String,
    files: AuthFiles,
    /// How long a credential helper may take, and the server of tokens at most.
    patience: Duration,
    last: Mutex<Attempt>,
    /// Held by the thread that asks.
    asking: Mutex<()>,
}

/// An attempt to find out what the registry wants to be told.
#[derive(Clone, Default)]
struct Attempt {
    number: u64,
    /// The value of `Authorization`; `None` before the first attempt.
    found: Option<Result<HeaderValue, Failure>>,
}

/// What the server of tokens answers.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Access {
    /// `scope` is what tokens are asked for, such as `repository:NAME:pull`.
    pub(super) fn new(session: &Session, host: Host, scope: String, files: AuthFiles) -> Self {
        Self {
            http: session.http().clone(),
            host,
            scope,
            files,
            patience: session.limits().read,
            last: Mutex::default(),
            asking: Mutex::default(),
        }
    }

    /// Sends a request to the registry, and once more if it was refused and there is something else to
    /// tell. `send` gets the value of `Authorization`, which must not go to other servers.
    ///
    /// # Errors
    /// Those of `send` and of asking for a token.
    pub(crate) fn send(
        &self,
        mut send: impl FnMut(Option<&HeaderValue>) -> Result<Response<Body>, Failure>,
    ) -> Result<Response<Body>, Failure> {
        let last = self.last.lock().clone();
        let used = last.found.as_ref().and_then(|found| found.as_ref().ok());
        let answer = send(used)?;
        // Where the registry has redirected to, others may answer.
        if answer.status() != 401 || !self.host.has(answer.get_uri()) {
            return Ok(answer);
        }
        let found = self.after(&last, answer.headers())?;
        drop(answer);
        send(Some(&found))
    }

    /// What to tell the registry, after it has refused what the attempt `refused` has found.
    fn after(&self, refused: &Attempt, head: &HeaderMap) -> Result<HeaderValue, Failure> {
        let _asking = self.asking.lock();
        let last = self.last.lock().clone();
        if let Some(found) = last.found.filter(|_| last.number != refused.number) {
            return found;
        }
        let found = self.find(head).and_then(|found| match &refused.found {
            Some(Ok(used)) if *used == found => Err(Error::Forbidden { status: 401 }.into()),
            _ => Ok(found),
        });
        *self.last.lock() = Attempt {
            number: refused.number + 1,
            found: Some(found.clone()),
        };
        found
    }

    /// Reads the credentials or asks for a token, as the head of a refusal says.
    fn find(&self, head: &HeaderMap) -> Result<HeaderValue, Failure> {
        match Challenge::of(head) {
            None => Err(Error::Forbidden { status: 401 }.into()),
            Some(Challenge::Basic) => Ok(self.password()?),
            Some(Challenge::Bearer { realm, service }) => self.token(&realm, service.as_deref()),
        }
    }

    /// The user and password for the registry itself.
    fn password(&self) -> Result<HeaderValue, Error> {
        if !self.host.is_private() {
            return Err(Error::PlainCredentials);
        }
        match self.files.find(&self.host, self.patience)? {
            Some(Credential::Password { user, password }) => basic(&user, &password),
            _ => Err(self.no_credentials()),
        }
    }

    /// A token, from the server that the registry has named.
    fn token(&self, realm: &str, service: Option<&str>) -> Result<HeaderValue, Failure> {
        let realm: Uri = realm.parse().map_err(|_| Error::BadRealm)?;
        let credential = if self.host.trusts(&realm) {
            self.files.find(&self.host, self.patience)?
        } else if !self.host.is_private() {
            // The registry is not spoken to in private, so that its tokens need not be, either.
            None
        } else {
            return Err(Error::BadRealm.into());
        };
        let mut answer = self.ask(&realm, service, credential.as_ref())?;
        match answer.status().as_u16() {
            401 | 403 if credential.is_none() => return Err(self.no_credentials().into()),
            _ => expect(200, &answer)?,
        }
        let body = answer.body_mut().with_config().limit(MAX_TOKEN);
        let body = body.read_to_vec().map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(_) => Error::BadToken,
            other => of_client(other),
        })?;
        let token: Token = serde_json::from_slice(&body).map_err(|_| Error::BadToken)?;
        let token = token.token.or(token.access_token).ok_or(Error::BadToken)?;
        Ok(secret(&format!("Bearer {token}"))?)
    }

    fn ask(
        &self,
        realm: &Uri,
        service: Option<&str>,
        credential: Option<&Credential>,
    ) -> Result<Response<Body>, Error> {
        let service = service.map(|service| ("service", service));
        let scope = ("scope", &*self.scope);
        let within = self.patience.min(TOKEN);
        let answer = match credential {
            Some(Credential::Identity(token)) => {
                let form = [
                    ("grant_type", "refresh_token"),
                    ("client_id", "verimount"),
                    ("refresh_token", token.as_str()),
                    scope,
                ];
                let request = self.http.post(realm, within)?;
                request.send_form(form.into_iter().chain(service))
            }
            credential => {
                let request = self.http.get(realm, within)?;
                let mut request = request.query_pairs(iter::once(scope).chain(service));
                if let Some(Credential::Password { user, password }) = credential {
                    request = request.header("authorization", basic(user, password)?);
                }
                request.call()
            }
        };
        answer.map_err(of_client)
    }

    fn no_credentials(&self) -> Error {
        Error::NoCredentials {
            host: self.host.to_string(),
        }
    }
}

fn basic(user: &str, password: &str) -> Result<HeaderValue, Error> {
    let encoded = Base64::encode_to_string(format!("{user}:{password}"));
    let encoded = encoded.map_err(|_| Error::BadToken)?;
    secret(&format!("Basic {encoded}"))
}

/// The value of a header that no log shows.
fn secret(text: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(text).map_err(|_| Error::BadToken)?;
    value.set_sensitive(true);
    Ok(value)
}
