//! The credentials that `docker login`, `podman login` and the like have left.

use std::{
    collections::HashMap,
    env,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf, absolute},
    time::Duration,
};

use docker_credential::{
    CredentialRetrievalError as Failure, DockerCredential, get_credential_from_reader,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;
use verimount_names::printable;

use super::{
    helper::{self, HelperError},
    host::Host,
};
use crate::{Error, helping};

/// The largest file of credentials, in bytes. It has one short entry per registry.
const MAX_FILE: u64 = 1 << 20;

/// The files with credentials, in the order in which they are asked. They are read each time, so that
/// a login while an image is mounted is noticed.
#[derive(Debug, Clone)]
pub(crate) struct AuthFiles(Vec<PathBuf>);

/// What a registry knows its user by.
#[derive(Serialize, Deserialize)]
pub(crate) enum Credential {
    Password {
        user: String,
        password: String,
    },
    /// A token that stands for user and password.
    Identity(String),
}

impl AuthFiles {
    /// The files of the tools, as the environment names them: `REGISTRY_AUTH_FILE` alone, if it is set.
    pub(crate) fn of_environment() -> Self {
        let path = |variable| env::var_os(variable).map(PathBuf::from);
        if let Some(file) = path("REGISTRY_AUTH_FILE") {
            return Self::new([file]);
        }
        let home = path("HOME");
        let config = path("XDG_CONFIG_HOME").or(home.as_ref().map(|home| home.join(".config")));
        let docker = path("DOCKER_CONFIG").or(home.map(|home| home.join(".docker")));
        let podman = |folder: PathBuf| folder.join("containers/auth.json");
        let files = [
            path("XDG_RUNTIME_DIR").map(podman),
            config.map(podman),
            docker.map(|folder| folder.join("config.json")),
        ];
        Self::new(files.into_iter().flatten())
    }

    /// These files. A mount changes its working directory, so they become absolute now.
    pub(crate) fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let files = files.into_iter();
        Self(files.map(|file| absolute(&file).unwrap_or(file)).collect())
    }

    /// The credentials for a registry, from the first file that has any. A helper that one names may take as long as
    /// `patience`.
    ///
    /// # Errors
    /// [`Error::AuthFile`].
    pub(super) fn find(
        &self,
        host: &Host,
        patience: Duration,
    ) -> Result<Option<Credential>, Error> {
        helping::credential(host, patience).unwrap_or_else(|| self.find_here(host, patience))
    }

    /// The credentials for a registry, as [`Self::find`] has them, without asking the helper process.
    pub(crate) fn find_here(
        &self,
        host: &Host,
        patience: Duration,
    ) -> Result<Option<Credential>, Error> {
        for file in &self.0 {
            let error = |reason: String| Error::AuthFile {
                file: printable(file).to_string(),
                reason,
            };
            let text = match read(file) {
                Ok(text) => text,
                Err(failed) if is_absent(&failed) => continue,
                Err(failed) => return Err(error(failed.to_string())),
            };
            let parsed = AuthFile::parse(&text);
            let parsed = parsed.map_err(|failed| error(failed.to_string()))?;
            for name in names(host) {
                let found = parsed.find(&name, patience);
                if let Some(found) = found.map_err(|failed| error(failed.to_string()))? {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }
}

/// What is in a file of credentials.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct AuthFile {
    /// The helpers for some registries.
    #[serde(default, skip_serializing)]
    cred_helpers: Option<HashMap<String, String>>,
    /// The helper for all that have no entry.
    #[serde(default, skip_serializing)]
    creds_store: Option<String>,
    /// The entries, and what else there is.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// What is wrong with a file of credentials, without its content.
#[derive(Debug, Error)]
enum AuthFileError {
    #[error("it is malformed")]
    Malformed,
    #[error(transparent)]
    Helper(#[from] HelperError),
}

impl AuthFile {
    fn parse(text: &[u8]) -> Result<Self, AuthFileError> {
        serde_json::from_slice(text).map_err(|_| AuthFileError::Malformed)
    }

    /// The credentials for a registry of this name.
    fn find(&self, name: &str, patience: Duration) -> Result<Option<Credential>, AuthFileError> {
        let is_named = |helper: &&String| !helper.is_empty();
        let own = self.cred_helpers.as_ref();
        if let Some(helper) = own.and_then(|own| own.get(name)).filter(is_named) {
            return Ok(helper::ask(helper, name, patience)?);
        }
        if let Some(found) = self.entry(name)? {
            return Ok(Some(found));
        }
        match self.creds_store.as_ref().filter(is_named) {
            Some(helper) => Ok(helper::ask(helper, name, patience)?),
            None => Ok(None),
        }
    }

    /// What the file itself has for a registry. It is parsed without the helpers, which would run without any limit.
    fn entry(&self, name: &str) -> Result<Option<Credential>, AuthFileError> {
        let text = serde_json::to_vec(self).map_err(|_| AuthFileError::Malformed)?;
        match get_credential_from_reader(&*text, name) {
            Ok(found) => Ok(Some(found.into())),
            Err(Failure::NoCredentialConfigured) => Ok(None),
            Err(_) => Err(AuthFileError::Malformed),
        }
    }
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(file)?.take(MAX_FILE).read_to_end(&mut text)?;
    Ok(text)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// What a registry is called in these files.
fn names(host: &Host) -> Vec<String> {
    if host.is_docker_hub() {
        vec![
            "https://index.docker.io/v1/".to_owned(),
            "docker.io".to_owned(),
        ]
    } else {
        vec![host.to_string()]
    }
}

impl From<DockerCredential> for Credential {
    fn from(found: DockerCredential) -> Self {
        match found {
            DockerCredential::UsernamePassword(user, password) => Self::Password { user, password },
            DockerCredential::IdentityToken(token) => Self::Identity(token),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Of the user `me` with the password `secret`.
    const ME: &str = r#"{"auth": "bWU6c2VjcmV0"}"#;

    fn files(texts: &[(&str, String)]) -> (tempfile::TempDir, AuthFiles) {
        let folder = tempfile::tempdir().unwrap();
        let paths = texts.iter().map(|(name, text)| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        });
        let files = AuthFiles::new(paths.collect::<Vec<_>>());
        (folder, files)
    }

    fn found(files: &AuthFiles, host: &str) -> String {
        match files.find(&Host::new(host, false), Duration::from_secs(60)) {
            Ok(Some(Credential::Password { user, password })) => format!("{user} {password}"),
            Ok(Some(Credential::Identity(token))) => token,
            Ok(None) => "none".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_first_file_with_an_entry_counts() {
        let (folder, files) = files(&[
            ("empty", "{}".to_owned()),
            ("podman", format!(r#"{{"auths": {{"ghcr.io": {ME}}}}}"#)),
            (
                "docker",
                r#"{"auths": {"ghcr.io": {"identitytoken": "token"},
                              "quay.io": {"identitytoken": "token"},
                              "https://index.docker.io/v1/": {"identitytoken": "hub"}}}"#
                    .to_owned(),
            ),
        ]);
        assert_eq!(found(&files, "ghcr.io"), "me secret");
        assert_eq!(found(&files, "quay.io"), "token");
        assert_eq!(found(&files, "docker.io"), "hub");
        assert_eq!(found(&files, "ghcr.io:444"), "none");
        let missing =
            AuthFiles::new([folder.path().join("missing"), folder.path().join("empty/a")]);
        assert_eq!(found(&missing, "ghcr.io"), "none");
    }

    #[test]
    fn an_entry_comes_before_the_helper_for_all() {
        let text = format!(
            r#"{{"auths": {{"ghcr.io": {ME}}}, "credsStore": "no-such-helper",
                 "credHelpers": {{"quay.io": "no-such-helper", "ghcr.io": ""}}}}"#
        );
        let (_folder, files) = files(&[("docker", text)]);
        assert_eq!(found(&files, "ghcr.io"), "me secret");
        for host in ["quay.io", "other.io"] {
            let error = found(&files, host);
            assert!(error.contains("cannot be run"), "{error}");
        }
    }

    #[test]
    fn a_login_meanwhile_is_noticed() {
        let (folder, files) = files(&[("auth", "{}".to_owned())]);
        assert_eq!(found(&files, "ghcr.io"), "none");
        let text = format!(r#"{{"auths": {{"ghcr.io": {ME}}}}}"#);
        fs::write(folder.path().join("auth"), text).unwrap();
        assert_eq!(found(&files, "ghcr.io"), "me secret");
    }

    #[test]
    fn unusable_files_are_named_without_their_secrets() {
        for (text, reason) in [
            ("secret", "malformed"),
            (
                r#"{"auths": {"ghcr.io": {"auth": "!secret"}}}"#,
                "malformed",
            ),
            (r#"{"credHelpers": "secret"}"#, "malformed"),
            (
                r#"{"credHelpers": {"ghcr.io": "no-such-helper-secret"}}"#,
                "cannot be run",
            ),
            (
                r#"{"credsStore": "no-such-helper-secret"}"#,
                "cannot be run",
            ),
        ] {
            let (folder, files) = files(&[("auth", text.to_owned())]);
            let error = found(&files, "ghcr.io");
            let file = folder.path().join("auth");
            assert!(error.contains(file.to_str().unwrap()), "{error}");
            assert!(
                error.contains(reason) && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
