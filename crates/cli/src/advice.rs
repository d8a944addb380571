use verimount::{Error, verity::Error as VerityError};

/// What to do about an error, in the terms of the command line. It continues the error's own text, and
/// begins with its punctuation.
pub(crate) fn advice(error: &Error) -> Option<String> {
    Some(match error {
        Error::ImageArchive { .. } => {
            ": or unpack the image first, by podman export $(podman create IMAGE) | verimount build - \
             root.img"
                .to_owned()
        }
        Error::NotSealed { at, .. } => format!(
            ": if it is complete, seal it with verimount seal {at}, or read it without verification \
             with --unverified"
        ),
        Error::Seal {
            at,
            source: VerityError::WrongDigest { .. } | VerityError::WrongRootHash { .. },
        } => format!(
            ": it is another version, or it was replaced; verimount info {at} shows what it is; ask its \
             author for the right digest"
        ),
        Error::IsHashArea { .. } => ": give its root hash with --root-hash".to_owned(),
        Error::UnpinnedDevice { at } => {
            format!(": give its digest, too: --device {at}@DIGEST; verimount info {at} shows it")
        }
        Error::NoHashArea { .. } => {
            ": give the location of the hash area with --sidecar or --hash-offset".to_owned()
        }
        Error::NotNamed { .. } => ": give it with --digest, --root-hash or --key".to_owned(),
        Error::WouldReplace { .. } => "; use --force to replace it".to_owned(),
        Error::WouldWiden { .. } => "; use --widen-permissions to allow this".to_owned(),
        Error::TooLarge { .. } => "; use --max-size to allow more".to_owned(),
        Error::Loses { .. } => " (--strict)".to_owned(),
        Error::NoDataSize { .. } => ": with --data-device, give it with --size".to_owned(),
        _ => return None,
    })
}
