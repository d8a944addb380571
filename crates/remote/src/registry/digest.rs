use std::{fmt, str::FromStr};

use ct_codecs::{Decoder, Hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// The SHA-256 of a blob or manifest, displayed and parsed as `sha256:HEX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobDigest([u8; 32]);

/// Computes the digest of a blob from consecutive pieces.
#[derive(Debug, Default)]
pub struct BlobHasher(Sha256);

/// A text that is not the digest of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a digest of a registry is written sha256: with 64 hexadecimal digits in lower case")]
pub struct ParseBlobDigestError;

impl BlobDigest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = BlobHasher::default();
        hasher.add(bytes);
        hasher.finish()
    }
}

impl BlobHasher {
    /// Adds the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes.
    pub fn finish(self) -> BlobDigest {
        BlobDigest(self.0.finalize().into())
    }
}

impl FromStr for BlobDigest {
    type Err = ParseBlobDigestError;

    fn from_str(text: &str) -> Result<Self, ParseBlobDigestError> {
        let digits = text.strip_prefix("sha256:").ok_or(ParseBlobDigestError)?;
        // In lower case, as the specification demands: there is one text for a digest.
        if digits.bytes().any(|digit| digit.is_ascii_uppercase()) {
            return Err(ParseBlobDigestError);
        }
        let bytes = Hex::decode_to_vec(digits, None).map_err(|_| ParseBlobDigestError)?;
        bytes.try_into().map(Self).map_err(|_| ParseBlobDigestError)
    }
}

impl TryFrom<String> for BlobDigest {
    type Error = ParseBlobDigestError;

    fn try_from(text: String) -> Result<Self, ParseBlobDigestError> {
        text.parse()
    }
}

impl From<BlobDigest> for String {
    fn from(digest: BlobDigest) -> Self {
        digest.to_string()
    }
}

impl fmt::Display for BlobDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two bytes, `{}`: the empty configuration of the OCI image specification.
    const EMPTY_OBJECT: &str =
        "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

    #[test]
    fn digests_are_text() {
        assert_eq!(BlobDigest::of(b"{}").to_string(), EMPTY_OBJECT);
        assert_eq!(EMPTY_OBJECT.parse(), Ok(BlobDigest::of(b"{}")));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "sha256:",
            "sha256:44",
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
            "sha512:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
            "sha256:44136FA355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
            "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a0",
            "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8é",
        ] {
            assert_eq!(
                text.parse::<BlobDigest>(),
                Err(ParseBlobDigestError),
                "{text}"
            );
        }
    }
}
