//! Whose certificates servers are believed by.

use std::{env, fs, path::PathBuf};

use ureq::tls::RootCerts;

use crate::session::Authorities;

/// The variables that name the system's certificates elsewhere. Whoever sets one has chosen.
const CHOSEN_BY: [&str; 2] = [openssl_probe::ENV_CERT_FILE, openssl_probe::ENV_CERT_DIR];

/// The given ones, or those of the system. If it has none, as a container with nothing but the program, those of Mozilla,
/// which are in the program.
pub(crate) fn roots(given: Option<Authorities>) -> RootCerts {
    match given {
        Some(Authorities(certificates)) => RootCerts::Specific(certificates),
        None if has_system_certificates() => RootCerts::PlatformVerifier,
        None => RootCerts::WebPki,
    }
}

/// Where the system has certificates of authorities.
pub(crate) fn certificate_files() -> impl Iterator<Item = PathBuf> {
    /// What links in the directories point to.
    const ORIGINALS: [&str; 3] = [
        "/usr/share/ca-certificates",
        "/usr/local/share/ca-certificates",
        "/etc/pki/ca-trust",
    ];
    let found = openssl_probe::probe();
    let chosen = CHOSEN_BY.iter().filter_map(env::var_os);
    let chosen = chosen.flat_map(|paths| env::split_paths(&paths).collect::<Vec<_>>());
    let usual = found.cert_file.into_iter().chain(found.cert_dir);
    usual.chain(chosen).chain(ORIGINALS.map(PathBuf::from))
}

/// Whether there are files of the system's certificates of authorities. They are not read, as they may not be needed.
///
/// Without any, servers are believed by those of Mozilla, as they were at the release of this library.
pub fn has_system_certificates() -> bool {
    let is_chosen = || CHOSEN_BY.iter().any(|name| env::var_os(name).is_some());
    let found = openssl_probe::probe();
    let has_files =
        |folder: &PathBuf| fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    found.cert_file.is_some() || found.cert_dir.iter().any(has_files) || is_chosen()
}
