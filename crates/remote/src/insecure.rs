//! Why a connection is not secure, for those who have to do something about it.

use rustls::{CertificateError, Error, InvalidMessage};

/// What is wrong, without what only those who write such clients know.
pub(crate) fn reason(error: &Error) -> String {
    let known = match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "the server's certificate is of an authority that is not trusted here"
        }
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "the server's certificate has expired, or the clock here is wrong",
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "the server's certificate is not valid yet, or the clock here is wrong",
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the server does not speak TLS at this port"
        }
        other => return other.to_string(),
    };
    known.to_owned()
}
