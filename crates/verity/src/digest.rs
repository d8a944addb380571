use std::{fmt, str::FromStr};

use ct_codecs::{Decoder, Hex};
use thiserror::Error;

use crate::HashAlgorithm;

/// The longest digest of any [`HashAlgorithm`], in bytes.
const MAX_DIGEST_SIZE: usize = 64;

/// A hash value. Displayed as lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest {
    algorithm: HashAlgorithm,
    /// Zero after the digest, so that comparing whole arrays compares digests.
    bytes: [u8; MAX_DIGEST_SIZE],
}

impl Digest {
    /// The all-zero digest, which fs-verity gives an empty file as its root hash.
    pub(crate) const fn zero(algorithm: HashAlgorithm) -> Self {
        Self {
            algorithm,
            bytes: [0; MAX_DIGEST_SIZE],
        }
    }

    /// A digest from its bytes; `None` if their number is not the digest size of `algorithm`.
    pub fn new(algorithm: HashAlgorithm, bytes: &[u8]) -> Option<Self> {
        let mut digest = Self::zero(algorithm);
        let own = digest.bytes.get_mut(..algorithm.digest_size())?;
        if own.len() != bytes.len() {
            return None;
        }
        own.copy_from_slice(bytes);
        Some(digest)
    }

    /// The hash that produced this digest.
    pub const fn algorithm(&self) -> HashAlgorithm {
        self.algorithm
    }

    /// The bytes, as many as the algorithm's digest size.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.algorithm.digest_size()]
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{self}", self.algorithm)
    }
}

/// A file's digest: the hash of its descriptor. Displayed and parsed as `sha256:HEX`, as the
/// kernel's tools print it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileDigest(pub(crate) Digest);

impl FileDigest {
    /// The hash value.
    pub const fn digest(&self) -> &Digest {
        &self.0
    }

    /// The bytes that a signature covers: `FSVerity`, the algorithm's number and the digest's
    /// length as 16-bit little-endian numbers, and the digest.
    pub fn formatted(&self) -> Vec<u8> {
        let algorithm = self.0.algorithm;
        let mut bytes = b"FSVerity".to_vec();
        bytes.extend(u16::from(algorithm.number()).to_le_bytes());
        bytes.extend((algorithm.digest_size() as u16).to_le_bytes());
        bytes.extend(self.0.as_bytes());
        bytes
    }
}

impl From<Digest> for FileDigest {
    /// `digest` must be the hash of a descriptor.
    fn from(digest: Digest) -> Self {
        Self(digest)
    }
}

impl fmt::Display for FileDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.algorithm, self.0)
    }
}

/// The digest that data is verified against, displayed as the tools of its format print it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// The file digest of fs-verity.
    FileDigest(FileDigest),
    /// The root hash of dm-verity.
    RootHash(Digest),
}

impl Identity {
    /// The hash value.
    pub const fn digest(&self) -> &Digest {
        match self {
            Self::FileDigest(digest) => digest.digest(),
            Self::RootHash(digest) => digest,
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileDigest(digest) => digest.fmt(f),
            Self::RootHash(digest) => digest.fmt(f),
        }
    }
}

/// A text that is not a file digest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseDigestError {
    /// It is not written as one.
    #[error("a digest is written sha256:HEX with 64 digits or sha512:HEX with 128")]
    Malformed,
    /// It has only the digits of one.
    #[error("the algorithm is missing; did you mean {0}?")]
    NoAlgorithm(FileDigest),
}

impl FromStr for FileDigest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let Some((name, hex)) = text.split_once(':') else {
            return Err(without_algorithm(text));
        };
        let algorithm: HashAlgorithm = name.parse().map_err(|_| ParseDigestError::Malformed)?;
        let bytes = parse_hex(hex).ok_or(ParseDigestError::Malformed)?;
        Digest::new(algorithm, &bytes)
            .map(Self)
            .ok_or(ParseDigestError::Malformed)
    }
}

/// Why a text without a colon is refused. As many digits as a digest has are probably one.
fn without_algorithm(text: &str) -> ParseDigestError {
    let bytes = parse_hex(text).unwrap_or_default();
    let algorithms = [HashAlgorithm::Sha256, HashAlgorithm::Sha512];
    let digest = algorithms
        .into_iter()
        .find_map(|algorithm| Digest::new(algorithm, &bytes));
    digest.map_or(ParseDigestError::Malformed, |digest| {
        ParseDigestError::NoAlgorithm(FileDigest(digest))
    })
}

/// The bytes of an even number of hexadecimal digits.
pub fn parse_hex(digits: &str) -> Option<Vec<u8>> {
    Hex::decode_to_vec(digits, None).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_back_what_it_displays() {
        let text = "sha256:3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95";
        assert_eq!(text.parse::<FileDigest>().unwrap().to_string(), text);
    }

    #[test]
    fn other_texts_are_no_digests() {
        let full = "3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95";
        for text in [
            String::new(),
            full[1..].into(),
            format!("md5:{full}"),
            format!("sha512:{full}"),
            format!("sha256:{}", &full[1..]),
            format!("sha256:{full}00"),
            format!("sha256:+{}", &full[1..]),
            format!("sha256:é{}", &full[2..]),
        ] {
            let parsed = text.parse::<FileDigest>();
            assert_eq!(parsed, Err(ParseDigestError::Malformed), "{text}");
        }
        for (name, digits) in [("sha256", full.to_owned()), ("sha512", full.repeat(2))] {
            let refused = digits.parse::<FileDigest>().unwrap_err().to_string();
            assert!(
                refused.contains(&format!("did you mean {name}:{digits}?")),
                "{refused}"
            );
        }
    }

    /// As the kernel's `struct fsverity_formatted_digest` has it.
    #[test]
    fn what_is_signed_names_the_algorithm() {
        for (name, head) in [
            ("sha256", b"FSVerity\x01\0\x20\0"),
            ("sha512", b"FSVerity\x02\0\x40\0"),
        ] {
            let algorithm: HashAlgorithm = name.parse().unwrap();
            let digest = Digest::new(algorithm, &vec![7; algorithm.digest_size()]).unwrap();
            let formatted = FileDigest(digest).formatted();
            assert_eq!(formatted[..12], head[..]);
            assert_eq!(&formatted[12..], digest.as_bytes());
        }
    }
}
