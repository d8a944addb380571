//! Keys that sign.

use std::io::Cursor;

use ct_codecs::{Base64, Decoder};
use minisign::{KeyPair as MinisignPair, SecretKeyBox};

use crate::{
    Error, FileDigest, Signature,
    signature::{bad_key, only_key},
};

/// A minisign secret key.
#[derive(Debug)]
pub struct SecretKey(minisign::SecretKey);

impl SecretKey {
    /// Whether the key in the text of a secret key file is encrypted and needs a password.
    ///
    /// # Errors
    /// [`Error::BadKey`].
    pub fn is_encrypted(text: &str) -> Result<bool, Error> {
        Ok(is_encrypted(&stored_key(text)?))
    }

    /// Reads the text of a secret key file.
    ///
    /// # Errors
    /// [`Error::BadKey`], also for a wrong password, and for a text that holds anything else.
    pub fn parse(text: &str, password: Option<String>) -> Result<Self, Error> {
        let stored = stored_key(text)?;
        let key = || SecretKeyBox::from_string(text);
        match password {
            Some(password) => key().and_then(|key| key.into_secret_key(Some(password))),
            None if has_no_checksum(&stored) => minisign::SecretKey::from_bytes(&stored),
            None => key().and_then(SecretKeyBox::into_unencrypted_secret_key),
        }
        .map(Self)
        .map_err(bad_key)
    }

    /// Signs `digest`.
    ///
    /// # Errors
    /// [`Error::BadKey`] if the key cannot sign.
    pub fn sign(&self, digest: &FileDigest) -> Result<Signature, Error> {
        let comment = digest.to_string();
        let payload = Cursor::new(digest.formatted());
        let untrusted = Some("signature of an fs-verity digest");
        minisign::sign(None, &self.0, payload, Some(&comment), untrusted)
            .map(|signature| Signature(signature.into_string()))
            .map_err(bad_key)
    }
}

/// A stored secret key: the numbers of the algorithms for signature, encryption and checksum, 2
/// bytes each; 48 bytes for the encryption; the key's number and the key, 72 bytes; the checksum.
type StoredKey = [u8; 158];

/// Decodes the key in the text of a secret key file.
fn stored_key(text: &str) -> Result<StoredKey, Error> {
    let line = only_key(text)?;
    let mut stored = [0; size_of::<StoredKey>()];
    match Base64::decode(&mut stored, line.trim(), None).map(<[u8]>::len) {
        Ok(len) if len == stored.len() => Ok(stored),
        _ => Err(bad_key("its second line is not a secret key")),
    }
}

fn is_encrypted(stored: &StoredKey) -> bool {
    stored[2..4] != [0; 2]
}

/// The `minisign` tool gives keys without encryption no checksum; the library expects one.
fn has_no_checksum(stored: &StoredKey) -> bool {
    !is_encrypted(stored) && stored.ends_with(&[0; 32])
}

/// The texts of the two files of a new key.
#[derive(Debug)]
pub struct KeyPair {
    /// The public key file, which verifies signatures.
    pub public: String,
    /// The secret key file, which makes signatures.
    pub secret: String,
}

impl KeyPair {
    /// Makes a new key, encrypted with `password` if there is one.
    ///
    /// # Errors
    /// [`Error::BadKey`] if the system has no random numbers.
    pub fn generate(password: Option<String>) -> Result<Self, Error> {
        let make = || {
            let pair = match password {
                Some(password) => MinisignPair::generate_encrypted_keypair(Some(password))?,
                None => MinisignPair::generate_unencrypted_keypair()?,
            };
            Ok::<_, minisign::PError>(Self {
                public: pair.pk.to_box()?.into_string(),
                secret: pair.sk.to_box(None)?.into_string(),
            })
        };
        make().map_err(bad_key)
    }
}
