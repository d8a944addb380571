use std::fmt;

use ct_codecs::{Base64, Decoder};
use minisign_verify::Signature as MinisignSignature;

use crate::{Error, FileDigest};

/// How the comment begins that is the first line of each of minisign's files.
const COMMENT: &str = "untrusted comment:";

/// The id of a minisign key: stored in each of its signatures, and in the comments of its files as
/// 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyId(u64);

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
pub struct Signature(pub(crate) String);

impl Signature {
    /// Parses the text of a `.minisig` file; `None` if it is invalid, or longer than
    /// [`MAX_SIGNATURE_SIZE`].
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let text = str::from_utf8(bytes).ok()?;
        let is_one = bytes.len() <= MAX_SIGNATURE_SIZE && text.starts_with(COMMENT);
        let signature = Self(text.to_owned());
        (is_one && signature.parsed().is_ok()).then_some(signature)
    }

    /// The key that it claims to be made with. Only [`PublicKey::verify`] can confirm this.
    pub fn key_id(&self) -> Option<KeyId> {
        id_in(self.0.lines().nth(1)?)
    }

    fn parsed(&self) -> Result<MinisignSignature, minisign_verify::Error> {
        // The library takes no spaces around what is encoded.
        let trimmed = |(number, line): (usize, &str)| match number {
            1 | 3 => format!("{}\n", line.trim()),
            _ => format!("{line}\n"),
        };
        let text: String = self.0.lines().enumerate().map(trimmed).collect();
        MinisignSignature::decode(&text)
    }

    /// The text of a `.minisig` file.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The id of the key in a line with a public key or a signature: after two bytes for the algorithm.
fn id_in(line: &str) -> Option<KeyId> {
    const LONGEST: usize = 74;
    let mut bytes = [0; LONGEST];
    let bytes = Base64::decode(&mut bytes, line.trim(), None).ok()?;
    let id = bytes.get(2..10)?.try_into().ok()?;
    Some(KeyId(u64::from_le_bytes(id)))
}

/// A minisign public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    key: minisign_verify::PublicKey,
    id: Option<KeyId>,
}

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
        Ok(Self {
            key: minisign_verify::PublicKey::from_base64(key.trim()).map_err(bad_key)?,
            id: id_in(key),
        })
    }

    /// The key's id.
    pub fn id(&self) -> Option<KeyId> {
        self.id
    }

    /// Checks that `signature` was made with this key for `digest`.
    ///
    /// # Errors
    /// [`Error::WrongSignature`].
    pub fn verify(&self, signature: &Signature, digest: &FileDigest) -> Result<(), Error> {
        let allow_legacy = false;
        let parsed = signature.parsed();
        parsed
            .and_then(|parsed| self.key.verify(&digest.formatted(), &parsed, allow_legacy))
            .map_err(Error::WrongSignature)
    }
}

/// The line with the key in the text of a key file, which has a comment before it and nothing else: of two keys, one would be
/// ignored in silence.
pub(crate) fn only_key(text: &str) -> Result<&str, Error> {
    let mut lines = text.trim_end().lines();
    match (lines.next(), lines.next(), lines.next()) {
        (Some(comment), Some(key), None) if comment.starts_with(COMMENT) => Ok(key),
        (_, None, _) => Err(bad_key("it has one line")),
        _ => Err(bad_key(
            "it holds more than one key and its comment: keep each key in a file of its own",
        )),
    }
}

pub(crate) fn bad_key(what: impl fmt::Display) -> Error {
    Error::BadKey(what.to_string())
}
