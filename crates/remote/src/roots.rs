//! Whose certificates servers are believed by.

use std::{env, fs, path::PathBuf, sync::Once};

use ureq::tls::RootCerts;

use crate::session::Authorities;

/// The variables that name the system's certificates elsewhere. Whoever sets one has chosen.
const CHOSEN_BY: [&str; 2] = [openssl_probe::ENV_CERT_FILE, openssl_probe::ENV_CERT_DIR];

/// Certificates of authorities.
#[derive(Debug, Clone, Default)]
pub(crate) enum Roots {
    /// These only.
    Given(Authorities),
    /// Those of the system.
    #[default]
    OfSystem,
    /// Mozilla's, which are in the program: the system has none, as in a container with nothing but the program.
    Bundled,
}

impl Roots {
    /// The given ones, or those of the system, if it has any.
    pub(crate) fn new(given: Option<Authorities>) -> Self {
        match given {
            Some(authorities) => Self::Given(authorities),
            None if has_system_certificates() => Self::OfSystem,
            None => Self::Bundled,
        }
    }

    /// In the form of the HTTP client.
    pub(crate) fn certificates(&self) -> RootCerts {
        match self {
            Self::Given(Authorities(certificates)) => RootCerts::Specific(certificates.clone()),
            Self::OfSystem => RootCerts::PlatformVerifier,
            Self::Bundled => RootCerts::WebPki,
        }
    }

    /// Tells once that bundled ones are used, if so. For a connection that uses any.
    pub(crate) fn announce(&self) {
        static ANNOUNCED: Once = Once::new();
        if matches!(self, Self::Bundled) {
            ANNOUNCED.call_once(|| {
                tracing::warn!(
                    "this system has no certificates of authorities: servers are believed by those of Mozilla, as they \
                     were at the release of this program (Debian package ca-certificates; or --ca FILE)"
                );
            });
        }
    }
}

/// Whether there are files of the system's certificates of authorities. They are not read, as they may not be needed.
pub fn has_system_certificates() -> bool {
    let is_chosen = || CHOSEN_BY.iter().any(|name| env::var_os(name).is_some());
    let found = openssl_probe::probe();
    let has_files =
        |folder: &PathBuf| fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    found.cert_file.is_some() || found.cert_dir.iter().any(has_files) || is_chosen()
}
