use std::{
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

use verimount_source::ReadAt;
use verimount_sync::Mutex;

use super::{ObjectName, bucket::Bucket};
use crate::{
    Error, RemoteUrl,
    client::{Answer, Failure},
};

/// How long a URL is signed for. It is renewed after two thirds of that.
const LIFETIME: Duration = Duration::from_secs(15 * 60);

/// When a URL that was never accepted is signed again at the earliest: the credentials may be others by then.
const PATIENCE: Duration = Duration::from_secs(30);

/// An object in a bucket, asked for by URLs that are signed for a while.
///
/// A request goes out with the last URL. If that is too old or was refused, one thread signs another, and all
/// others wait for that.
pub(crate) struct Object {
    bucket: Arc<Bucket>,
    key: String,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    signed: Option<Signed>,
    /// How many URLs were signed.
    count: u64,
}

#[derive(Clone)]
struct Signed {
    url: RemoteUrl,
    /// Which of them it is: two that are signed in the same second are the same text.
    number: u64,
    since: Instant,
    /// Whether the store has accepted it.
    has_worked: bool,
}

impl Object {
    pub(crate) fn new(bucket: Arc<Bucket>, name: &ObjectName) -> Self {
        Self {
            bucket,
            key: name.key().to_owned(),
            current: Mutex::default(),
        }
    }

    /// The name of the bucket, with its protocol.
    pub(crate) fn bucket_name(&self) -> String {
        self.bucket.name()
    }

    /// Stores it.
    ///
    /// # Errors
    /// [`Error::Closed`] if `progress` ends it; [`Error::ReadFailed`]; others.
    pub(crate) fn store(
        &self,
        content: &dyn ReadAt,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.bucket.store(&self.key, content, progress)
    }

    /// Sends a request for the object, and once more if its URL may have expired. `send` also returns where it
    /// was redirected to.
    ///
    /// # Errors
    /// Those of `send` and of signing; [`Error::Refused`].
    pub(crate) fn send(
        &self,
        mut send: impl FnMut(&RemoteUrl) -> Result<Answer, Failure>,
    ) -> Result<Answer, Failure> {
        let mut signed = self.signed()?;
        loop {
            let answer = send(&signed.url);
            let status = match &answer {
                Ok((answer, _)) => answer.status().as_u16(),
                // S3 redirects to nowhere if the bucket is in another region.
                Err(failure) if failure.error == Error::Redirects => 301,
                Err(_) => return answer,
            };
            if !matches!(status, 301 | 400 | 401 | 403) {
                // A store that cannot answer now need not have looked at the signature.
                if (200..300).contains(&status) {
                    self.worked(&signed);
                }
                return answer;
            }
            match self.renewed(&signed)? {
                Some(renewed) => signed = renewed,
                None => return Err(self.bucket.refused(status).into()),
            }
        }
    }

    /// A URL that is not too old.
    fn signed(&self) -> Result<Signed, Error> {
        // Held while it is signed: everybody else would need it as well.
        let mut current = self.current.lock();
        match &current.signed {
            Some(signed) if !signed.is_old() => Ok(signed.clone()),
            _ => self.sign(&mut current),
        }
    }

    /// Another URL than the one that was refused; `None` if it would be refused as well.
    fn renewed(&self, refused: &Signed) -> Result<Option<Signed>, Error> {
        let mut current = self.current.lock();
        match &current.signed {
            Some(signed) if signed.number != refused.number => Ok(Some(signed.clone())),
            Some(signed) if !signed.may_have_expired() => Ok(None),
            _ => self.sign(&mut current).map(Some),
        }
    }

    fn sign(&self, current: &mut Current) -> Result<Signed, Error> {
        let signed = Signed {
            url: self.bucket.url(&self.key, LIFETIME)?,
            number: current.count,
            since: Instant::now(),
            has_worked: false,
        };
        current.count += 1;
        Ok(current.signed.insert(signed).clone())
    }

    fn worked(&self, used: &Signed) {
        if !used.has_worked
            && let Some(signed) = &mut self.current.lock().signed
            && signed.number == used.number
        {
            signed.has_worked = true;
        }
    }
}

impl Signed {
    fn is_old(&self) -> bool {
        self.since.elapsed() >= LIFETIME / 3 * 2
    }

    /// Whether it was good once, or is not new. The clock of this process stands still while the machine sleeps,
    /// so that age alone does not tell.
    fn may_have_expired(&self) -> bool {
        self.has_worked || self.since.elapsed() >= PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use ureq::{Body, http::Response};

    use super::*;
    use crate::{
        cloud::buckets::{Buckets, Environment},
        http::Http,
        limits::Limits,
        proxies::Proxies,
        renewed::Again,
    };

    fn object() -> Object {
        let environment = Environment::of(&[
            ("AWS_ACCESS_KEY_ID", "me"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ]);
        let name: ObjectName = "s3://bucket/key".parse().unwrap();
        let proxies = Proxies::of(|_| None);
        let http = Http::new(None, Again::default(), Limits::default(), proxies);
        let buckets = Buckets::new(environment);
        buckets.object(&name, &http, &Limits::default()).unwrap()
    }

    fn answer(status: u16) -> Result<Answer, Failure> {
        let body = Body::builder().data("");
        Ok((Response::builder().status(status).body(body).unwrap(), None))
    }

    #[test]
    fn a_url_is_signed_again_once_for_all() {
        const READERS: usize = 8;
        let object = object();
        object.send(|_| answer(206)).unwrap();
        let all_have_asked = Barrier::new(READERS);
        thread::scope(|scope| {
            for _ in 0..READERS {
                scope.spawn(|| {
                    let mut asked = 0;
                    let sent = object.send(|_| {
                        asked += 1;
                        match asked {
                            1 => {
                                all_have_asked.wait();
                                answer(403)
                            }
                            _ => answer(206),
                        }
                    });
                    assert_eq!(sent.unwrap().0.status(), 206);
                });
            }
        });
        assert_eq!(object.current.lock().count, 2);
    }

    #[test]
    fn what_never_worked_is_not_signed_again_at_once() {
        let object = object();
        for _ in 0..2 {
            assert!(object.send(|_| answer(403)).is_err());
        }
        assert_eq!(object.current.lock().count, 1);
    }
}
