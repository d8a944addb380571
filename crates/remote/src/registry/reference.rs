use std::{fmt, str::FromStr};

use thiserror::Error;
use ureq::http::uri::Authority;
use verimount_names::printable;

use super::{BlobDigest, ParseBlobDigestError, host::Host};
use crate::url::has_bad_port;

/// What begins a reference.
const SCHEME: &str = "oci://";

/// The longest name of a repository with its registry, in bytes, as clients have it.
const MAX_NAME: usize = 255;

/// The longest tag, in bytes.
const MAX_TAG: usize = 128;

/// The name of an image in a registry: `oci://HOST[:PORT]/REPOSITORY` with `:TAG`, `@sha256:DIGEST` or both.
///
/// The owner of a repository can have a tag name another image at any time. A digest names one manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    host: String,
    repository: String,
    tag: Option<String>,
    digest: Option<BlobDigest>,
}

/// Why a text is not a [`Reference`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseReferenceError {
    /// There is no host, or no repository.
    #[error(
        "an image in a registry is written oci://HOST[:PORT]/REPOSITORY:TAG or …@sha256:DIGEST"
    )]
    Malformed,
    /// It has a user or password, which other users would see in the list of processes.
    #[error("a name with a user or password is not accepted")]
    Credentials,
    /// The name of the repository is not valid.
    #[error(
        "the name of a repository has lower-case letters, digits and single separators, in components"
    )]
    Repository,
    /// The tag is not valid.
    #[error("a tag has up to {MAX_TAG} letters, digits, dots, dashes and underscores")]
    Tag,
    /// The digest is not valid.
    #[error(transparent)]
    Digest(#[from] ParseBlobDigestError),
    /// There is neither a tag nor a digest.
    #[error("it has neither a tag nor a digest: add :TAG or @sha256:DIGEST")]
    NoTag,
}

impl Reference {
    /// Whether `text` is meant as a reference.
    pub fn is_meant(text: &str) -> bool {
        let start = text.get(..SCHEME.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(SCHEME))
    }

    /// The last component of the repository's name.
    pub fn image_name(&self) -> &str {
        let name = &*self.repository;
        name.rsplit_once('/').map_or(name, |(_, last)| last)
    }

    /// The tag.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest of the manifest.
    pub fn digest(&self) -> Option<BlobDigest> {
        self.digest
    }

    /// The manifest with this digest, in the same repository.
    #[must_use]
    pub fn with_digest(&self, digest: BlobDigest) -> Self {
        Self {
            tag: None,
            digest: Some(digest),
            ..self.clone()
        }
    }

    /// The registry, as `HOST` or `HOST:PORT`.
    pub fn registry(&self) -> &str {
        &self.host
    }

    /// The URL of its repository. Registries grant the right to read a repository, not parts of it.
    pub fn repository_url(&self, plain_http: bool) -> String {
        let host = self.host(plain_http);
        host.url(&self.path(&host))
    }

    pub(super) fn host(&self, plain_http: bool) -> Host {
        Host::new(&self.host, plain_http)
    }

    /// The path of all URLs of the repository.
    pub(super) fn path(&self, host: &Host) -> String {
        format!("/v2/{}", self.repository(host))
    }

    /// The repository's name in the registry's protocol.
    pub(super) fn repository(&self, host: &Host) -> String {
        let name = &self.repository;
        if host.is_docker_hub() && !name.contains('/') {
            format!("library/{name}")
        } else {
            name.clone()
        }
    }
}

impl FromStr for Reference {
    type Err = ParseReferenceError;

    fn from_str(text: &str) -> Result<Self, ParseReferenceError> {
        use ParseReferenceError::{Credentials, Malformed, NoTag, Repository, Tag};
        if !Self::is_meant(text) {
            return Err(Malformed);
        }
        let (host, rest) = text[SCHEME.len()..].split_once('/').ok_or(Malformed)?;
        if host.contains('@') {
            return Err(Credentials);
        }
        let authority: Authority = host.parse().map_err(|_| Malformed)?;
        if authority.host().is_empty() || has_bad_port(&authority) {
            return Err(Malformed);
        }
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse()?)),
            None => (rest, None),
        };
        let (repository, tag) = match rest.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (rest, None),
        };
        if repository.is_empty() {
            return Err(Malformed);
        }
        if !is_repository(repository) || host.len() + repository.len() >= MAX_NAME {
            return Err(Repository);
        }
        if !tag.is_none_or(is_tag) {
            return Err(Tag);
        }
        if tag.is_none() && digest.is_none() {
            return Err(NoTag);
        }
        Ok(Self {
            host: host.to_owned(),
            repository: repository.to_owned(),
            tag: tag.map(str::to_owned),
            digest,
        })
    }
}

/// Components of letters and digits in lower case, separated by slashes. In a component there may be `.`,
/// `_`, `__` or dashes between two of these.
fn is_repository(name: &str) -> bool {
    name.split('/').all(|component| {
        let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = component.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        let separators = component.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        ends.iter().all(|end| end.is_some_and(is_plain))
            && separators.into_iter().all(|separator| {
                matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|c| c == b'-')
            })
    })
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_inside = |byte: u8| is_word(byte) || byte == b'.' || byte == b'-';
    (1..=MAX_TAG).contains(&tag.len())
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(is_inside)
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", printable(&self.host), self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

    #[test]
    fn references_are_text() {
        for text in [
            "oci://ghcr.io/me/app:1.0".to_owned(),
            "oci://localhost:5000/app:latest".to_owned(),
            "oci://[::1]:5000/a/b/c:v1".to_owned(),
            format!("oci://ghcr.io/me/a-b_c__d.e--f@{DIGEST}"),
            format!("oci://ghcr.io/me/app:1.0@{DIGEST}"),
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(reference.to_string(), text);
        }
        let reference: Reference = "OCI://host/me/app:1".parse().unwrap();
        assert_eq!(reference.image_name(), "app");
        let pinned = reference.with_digest(DIGEST.parse().unwrap());
        assert_eq!(pinned.to_string(), format!("oci://host/me/app@{DIGEST}"));
    }

    #[test]
    fn short_names_of_docker_hub() {
        for (text, name) in [
            ("oci://docker.io/app:1", "library/app"),
            ("oci://docker.io/me/app:1", "me/app"),
            ("oci://ghcr.io/app:1", "app"),
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(reference.repository(&reference.host(false)), name);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        use ParseReferenceError::{Credentials, Digest, Malformed, NoTag, Repository, Tag};
        let long = "a".repeat(MAX_NAME);
        for (text, error) in [
            ("http://host/app:1", Malformed),
            ("oci://", Malformed),
            ("oci://host", Malformed),
            ("oci://host/", Malformed),
            ("oci:///app:1", Malformed),
            ("oci://host:/app:1", Malformed),
            ("oci://host:a/app:1", Malformed),
            ("oci://host:99999/app:1", Malformed),
            ("oci://ho st/app:1", Malformed),
            ("oci://host/:1", Malformed),
            ("oci://me:secret@host/app:1", Credentials),
            ("oci://host/App:1", Repository),
            ("oci://host/a//b:1", Repository),
            ("oci://host/a/../b:1", Repository),
            ("oci://host/a?b:1", Repository),
            ("oci://host/a..b:1", Repository),
            ("oci://host/a_:1", Repository),
            ("oci://host/app", NoTag),
            ("oci://host/app:", Tag),
            ("oci://host/app:.a", Tag),
            ("oci://host/app:a/b", Tag),
            ("oci://host/app:1:2", Tag),
            ("oci://host/app@sha256:12", Digest(ParseBlobDigestError)),
            (&format!("oci://host/{long}:1"), Repository),
        ] {
            assert_eq!(text.parse::<Reference>(), Err(error), "{text}");
        }
    }
}
