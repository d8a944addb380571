use std::sync::Arc;

use ureq::{
    Body, ResponseExt,
    http::{
        HeaderValue, Request, Response, Uri,
        header::{ACCEPT, CONTENT_TYPE},
        request::Builder,
    },
};
use verimount_source::Fetch;

use super::{
    Access, BlobDigest, Descriptor, MANIFEST_TYPE, Manifest, Reference, auth_files::AuthFiles,
    host::Host, status::expect,
};
use crate::{
    Error, RemoteFile, RemoteUrl, Session,
    client::{Failure, Target, redirected},
    fetch::opening,
    http::{Within, of_client},
    limits::MAX_REDIRECTS,
};

/// What a repository is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Reading.
    Pull,
    /// Reading and storing.
    Push,
}

/// A repository of a registry, reached in a session.
///
/// Credentials are those of `docker login` and `podman login`. They are looked for when the registry asks,
/// and sent only to the registry and to the server of tokens that it names; never without encryption,
/// except on this machine.
///
/// Failures that may pass are retried for 15 seconds.
pub struct Repository {
    pub(super) host: Host,
    pub(super) access: Arc<Access>,
    pub(super) session: Session,
    /// The path of all its URLs.
    path: String,
}

impl Repository {
    /// The repository of an image. Nothing is sent yet.
    ///
    /// Registries are spoken to with TLS. `plain_http` does without; so do those on this machine.
    pub fn new(image: &Reference, rights: Rights, plain_http: bool, session: &Session) -> Self {
        let files = AuthFiles::of_environment();
        Self::with(image, rights, plain_http, files, session)
    }

    pub(crate) fn with(
        image: &Reference,
        rights: Rights,
        plain_http: bool,
        files: AuthFiles,
        session: &Session,
    ) -> Self {
        let host = image.host(plain_http);
        let name = image.repository(&host);
        let actions = match rights {
            Rights::Pull => "pull",
            Rights::Push => "pull,push",
        };
        let scope = format!("repository:{name}:{actions}");
        Self {
            access: Arc::new(Access::new(session, host.clone(), scope, files)),
            path: image.path(&host),
            host,
            session: session.clone(),
        }
    }

    /// The bytes of the manifest of an image. If `image` has a digest, they have that.
    ///
    /// # Errors
    /// [`Error::WrongDigest`], and others.
    pub fn manifest_bytes(&self, image: &Reference) -> Result<Vec<u8>, Error> {
        let name = match (image.digest(), image.tag()) {
            (Some(digest), _) => digest.to_string(),
            (None, tag) => tag.unwrap_or_default().to_owned(),
        };
        let url = self.url(&format!("/manifests/{name}"));
        let bytes = opening(&self.session, |_| {
            let mut answer = self.access.send(|authorization| {
                self.follow(authorization, &url, |url| {
                    Request::get(url).header(ACCEPT, Manifest::accepted())
                })
            })?;
            expect(200, &answer)?;
            let body = answer.body_mut().with_config().limit(Manifest::MAX_SIZE);
            body.read_to_vec().map_err(|error| match error {
                ureq::Error::BodyExceedsLimit(_) => Error::LargeManifest(Manifest::MAX_SIZE).into(),
                other => of_client(other).into(),
            })
        })?;
        let actual = BlobDigest::of(&bytes);
        match image.digest() {
            Some(expected) if expected != actual => Err(Error::WrongDigest { expected, actual }),
            _ => Ok(bytes),
        }
    }

    /// Stores a manifest under the tag of `image`; returns its digest.
    ///
    /// # Errors
    /// [`Error`].
    pub fn store_manifest(
        &self,
        image: &Reference,
        manifest: &Manifest,
    ) -> Result<BlobDigest, Error> {
        let bytes = manifest.to_bytes();
        let digest = BlobDigest::of(&bytes);
        let name = image
            .tag()
            .map_or_else(|| digest.to_string(), str::to_owned);
        let url = self.url(&format!("/manifests/{name}"));
        opening(&self.session, |_| {
            let answer = self.access.send(|authorization| {
                let request = Request::put(&url).header(CONTENT_TYPE, MANIFEST_TYPE);
                let http = self.session.http();
                http.send(request, authorization, &*bytes, Within::Usual)
            })?;
            expect(201, &answer)?;
            Ok(digest)
        })
    }

    /// A blob, to be read in ranges. That its bytes have the digest is not checked.
    ///
    /// # Errors
    /// [`Error::BlobSize`] if it does not have the size that the manifest says, and others.
    pub fn blob(&self, blob: &Descriptor) -> Result<Arc<RemoteFile>, Error> {
        let url = self.url(&format!("/blobs/{}", blob.digest));
        let url = url
            .parse()
            .map_err(|_| Error::Protocol("the URL of a blob".to_owned()))?;
        let blob_at = Target::Blob(url, self.access.clone());
        let file = self.session.open_target(blob_at)?;
        match file.length() {
            actual if actual != blob.size => Err(Error::BlobSize {
                expected: blob.size,
                actual,
            }),
            _ => Ok(file),
        }
    }

    /// Whether the repository certainly has a blob.
    ///
    /// # Errors
    /// [`Error`].
    pub fn has_blob(&self, digest: BlobDigest) -> Result<bool, Error> {
        let url = self.url(&format!("/blobs/{digest}"));
        opening(&self.session, |_| {
            let answer = self
                .access
                .send(|authorization| self.follow(authorization, &url, |url| Request::head(url)))?;
            match answer.status().as_u16() {
                200 => Ok(true),
                404 => Ok(false),
                // Many storages let nobody ask for the head. The blob is stored again then.
                _ if !self.host.has(answer.get_uri()) => Ok(false),
                _ => expect(200, &answer).map(|()| true),
            }
        })
    }

    /// Sends the request that `new` makes for a URL, and follows redirects, without credentials.
    fn follow(
        &self,
        authorization: Option<&HeaderValue>,
        url: &str,
        new: impl Fn(&Uri) -> Builder,
    ) -> Result<Response<Body>, Failure> {
        let within = Within::Body(self.session.limits().manifest);
        let mut at: RemoteUrl = url.parse().map_err(|_| Error::Redirects)?;
        for redirects in 0..=MAX_REDIRECTS {
            let authorization = authorization.filter(|_| redirects == 0);
            let http = self.session.http();
            let answer = http.send(new(at.uri()), authorization, (), within)?;
            match redirected(&answer, &at)? {
                None => return Ok(answer),
                Some(next) => at = next,
            }
        }
        Err(Error::Redirects.into())
    }

    pub(super) fn url(&self, path: &str) -> String {
        self.host.url(&format!("{}{path}", self.path))
    }
}
