use std::fmt;

use p256::{
    ecdsa::signature::Verifier,
    pkcs8::{DecodePublicKey, EncodePublicKey, LineEnding},
};
use sha2::{Digest, Sha256};

use crate::Error;

/// A public key of ECDSA, which signatures must be made with.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    curve: Curve,
    hint: String,
}

/// The key, on one of the curves of model signatures. Each is used with a hash function of its size.
#[derive(Clone, PartialEq, Eq)]
enum Curve {
    P256(p256::ecdsa::VerifyingKey),
    P384(p384::ecdsa::VerifyingKey),
    P521(p521::ecdsa::VerifyingKey),
}

impl Key {
    /// Reads PEM, as `openssl ec -pubout` writes it.
    ///
    /// # Errors
    /// [`Error::BadKey`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (curve, pem) = None
            .or_else(|| read(text, |key: p256::PublicKey| Curve::P256(key.into())))
            .or_else(|| read(text, |key: p384::PublicKey| Curve::P384(key.into())))
            .or_else(|| read(text, |key: p521::PublicKey| Curve::P521(key.into())))
            .ok_or(Error::BadKey)?;
        let digest = Sha256::digest(pem);
        let hint = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { curve, hint })
    }

    /// What signatures call it: the SHA-256 of its PEM, in hexadecimal.
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// Whether this signature of `message`, in DER, was made with the key.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.curve {
            Curve::P256(key) => p256::ecdsa::Signature::from_der(signature)
                .is_ok_and(|signature| key.verify(message, &signature).is_ok()),
            Curve::P384(key) => p384::ecdsa::Signature::from_der(signature)
                .is_ok_and(|signature| key.verify(message, &signature).is_ok()),
            Curve::P521(key) => p521::ecdsa::Signature::from_der(signature)
                .is_ok_and(|signature| key.verify(message, &signature).is_ok()),
        }
    }
}

/// Reads a key of one curve, and writes it as all programs do.
fn read<K: DecodePublicKey + EncodePublicKey>(
    text: &str,
    curve: fn(K) -> Curve,
) -> Option<(Curve, String)> {
    let key = K::from_public_key_pem(text).ok()?;
    let pem = key.to_public_key_pem(LineEnding::LF).ok()?;
    Some((curve(key), pem))
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.hint)
    }
}
