use std::{error::Error, io};

use verimount_remote::Error as RemoteError;
use verimount_verity::FileDigest;

use crate::ErrorKind;

/// Content cannot be read at a place, as another release was published there.
#[derive(Debug, thiserror::Error)]
#[error(
    "it was replaced by another release with the same key, {0}: open that, or this one at a mirror"
)]
pub(crate) struct Replaced(pub(crate) FileDigest);

/// What an error means, if it is one of a server.
pub(crate) fn kind_of(error: &(dyn Error + Send + Sync + 'static)) -> Option<ErrorKind> {
    if error.is::<Replaced>() {
        return Some(ErrorKind::Network);
    }
    Some(match error.downcast_ref()? {
        RemoteError::NotFound { .. } => ErrorKind::NotFound,
        RemoteError::Forbidden { .. } | RemoteError::NoCredentials { .. } => {
            ErrorKind::PermissionDenied
        }
        // Something else than what was asked for by its digest.
        RemoteError::WrongDigest { .. }
        | RemoteError::Manifest(_)
        | RemoteError::BlobSize { .. } => ErrorKind::Corrupt,
        RemoteError::Closed => ErrorKind::Cancelled,
        _ => ErrorKind::Network,
    })
}

/// The error for a file that is another one than was opened.
pub(crate) fn replaced() -> io::Error {
    RemoteError::Replaced.into()
}

/// Whether a read failed as the file is another one than was opened.
pub(crate) fn is_replaced(error: &io::Error) -> bool {
    let inner = error.get_ref();
    let inner = inner.and_then(|inner| inner.downcast_ref::<RemoteError>());
    matches!(inner, Some(RemoteError::Replaced))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_answer_is_no_bad_data() {
        let kind = |error: RemoteError| kind_of(&error).unwrap();
        let unreachable = RemoteError::Unreachable("x".to_owned());
        assert_eq!(kind(unreachable), ErrorKind::Network);
        let another_size = RemoteError::BlobSize {
            expected: 1,
            actual: 2,
        };
        assert!(kind(another_size).is_about_data());
    }
}
