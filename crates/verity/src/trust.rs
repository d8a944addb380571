use crate::{Error, FileDigest, PublicKey, Sealed};

/// Which file digest is accepted.
#[derive(Debug, Clone)]
pub enum Trust {
    /// This one.
    Digest(FileDigest),
    /// Any that is signed with this key.
    Key(PublicKey),
    /// Any: an attacker who can write the file can change data and digest together. Accidental
    /// damage is still detected.
    Unpinned,
}

impl Trust {
    /// Whether the digest of `sealed` is accepted.
    ///
    /// # Errors
    /// [`Error::WrongDigest`], [`Error::NotSigned`], [`Error::WrongSignature`], or
    /// [`Error::Corrupt`] for an invalid signature.
    pub fn check(&self, sealed: &Sealed) -> Result<(), Error> {
        let actual = sealed.file_digest();
        match self {
            Self::Digest(expected) if *expected != actual => Err(Error::WrongDigest {
                expected: Box::new(*expected),
                actual: Box::new(actual),
            }),
            Self::Key(key) => {
                let signature = sealed.signature()?.ok_or(Error::NotSigned)?;
                key.verify(&signature, &actual)
            }
            Self::Digest(_) | Self::Unpinned => Ok(()),
        }
    }
}
