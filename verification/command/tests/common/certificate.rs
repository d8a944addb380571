//! A certificate that signs itself.

use crate::prelude::*;

/// Makes `key.pem`, and `cert.pem`, for the loopback interface, in a folder.
pub(crate) fn make(openssl: &Path, folder: &Path) {
    let made = Command::new(openssl)
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        ])
        .args([
            "-subj",
            "/CN=test",
            "-addext",
            "subjectAltName=IP:127.0.0.1,IP:0.0.0.0",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(folder)
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
}
