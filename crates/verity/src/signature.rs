use std::{fmt, io::Cursor};

use ct_codecs::{Base64, Decoder};
use minisign::{ErrorKind, KeyPair as MinisignPair, PError, SecretKeyBox, SignatureBox};

use crate::{Error, FileDigest};

/// How the comment begins that is the first line of each of minisign's files.
const COMMENT: &str = "untrusted comment:";

/// The id of a minisign key: stored in each of its signatures, and in the comments of its files as
/// 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyId(u64);

impl KeyId {
    fn new(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(u64::from_le_bytes).map(Self)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", self.0)
    }
}

/// The most bytes a signature in a seal can have; with the descriptor, the kernel's limit of 16 KiB.
pub const MAX_SIGNATURE_SIZE: usize = 16384 - crate::DESCRIPTOR_SIZE;

/// A minisign signature over a file digest in the form that fs-verity signs
/// ([`FileDigest::formatted`]): the text of a `.minisig` file.
#[derive(Debug, Clone)]
pub struct Signature(String);

impl Signature {
    /// Parses the text of a `.minisig` file; `None` if it is invalid, or longer than
    /// [`MAX_SIGNATURE_SIZE`].
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let text = str::from_utf8(bytes).ok()?;
        let is_one = bytes.len() <= MAX_SIGNATURE_SIZE
            && SignatureBox::from_string(text).is_ok()
            && has_global_signature(text);
        is_one.then(|| Self(text.to_owned()))
    }

    /// The key that it claims to be made with. Only [`PublicKey::verify`] can confirm this.
    pub fn key_id(&self) -> Option<KeyId> {
        let parsed = SignatureBox::from_string(&self.0).ok()?;
        KeyId::new(parsed.keynum())
    }

    /// The text of a `.minisig` file.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Whether the fourth line is a complete signature, which the library assumes when it verifies.
fn has_global_signature(text: &str) -> bool {
    const SIZE: usize = 64;
    text.lines().nth(3).is_some_and(|line| {
        Base64::decode(&mut [0; SIZE], line.trim(), None).is_ok_and(|bytes| bytes.len() == SIZE)
    })
}

/// A minisign public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey(minisign::PublicKey);

impl PublicKey {
    /// Reads the text of a public key file, or just its line of base64.
    ///
    /// # Errors
    /// [`Error::BadKey`], also for a text that holds anything else.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let key = if text.contains('\n') {
            only_key(text)?
        } else {
            text
        };
        let key = minisign::PublicKey::from_base64(key.trim());
        key.map(Self).map_err(Error::BadKey)
    }

    /// The key's id.
    pub fn id(&self) -> Option<KeyId> {
        KeyId::new(self.0.keynum())
    }

    /// Checks that `signature` was made with this key for `digest`.
    ///
    /// # Errors
    /// [`Error::WrongSignature`].
    pub fn verify(&self, signature: &Signature, digest: &FileDigest) -> Result<(), Error> {
        let payload = Cursor::new(digest.formatted());
        let (quiet, output, allow_legacy) = (true, false, false);
        SignatureBox::from_string(&signature.0)
            .and_then(|parsed| {
                minisign::verify(&self.0, &parsed, payload, quiet, output, allow_legacy)
            })
            .map_err(Error::WrongSignature)
    }
}

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
        .map_err(Error::BadKey)
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
            .map_err(Error::BadKey)
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

/// The line with the key in the text of a key file, which has a comment before it and nothing else: of two keys, one would be
/// ignored in silence.
fn only_key(text: &str) -> Result<&str, Error> {
    let mut lines = text.trim_end().lines();
    match (lines.next(), lines.next(), lines.next()) {
        (Some(comment), Some(key), None) if comment.starts_with(COMMENT) => Ok(key),
        (_, None, _) => Err(bad_key("it has one line")),
        _ => Err(bad_key(
            "it holds more than one key and its comment: keep each key in a file of its own",
        )),
    }
}

fn bad_key(what: &'static str) -> Error {
    Error::BadKey(PError::new(ErrorKind::Encoding, what))
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
            Ok(Self {
                public: pair.pk.to_box()?.into_string(),
                secret: pair.sk.to_box(None)?.into_string(),
            })
        };
        make().map_err(Error::BadKey)
    }
}
