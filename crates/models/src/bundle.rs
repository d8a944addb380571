use ct_codecs::{Base64, Decoder};
use serde::{Deserialize, de::IgnoredAny};

use crate::{Error, Key, Manifest};

/// The longest bundle in bytes. One takes some 250 bytes for each file or shard of the model.
pub const MAX_BUNDLE: usize = 64 << 20;

/// What the bundles are that hold model signatures.
const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// What is in the envelope.
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// A model signature: a Sigstore bundle. Nothing of it is checked before [`Self::verify`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// The statement.
    payload: Vec<u8>,
    /// Of [`Self::message`], in DER.
    signature: Vec<u8>,
    /// What the key is called that it was made with, if that is said.
    hint: Option<String>,
    is_certified: bool,
}

/// What a signature says of itself: nothing of it is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// What the signer called the model.
    pub model: String,
    /// How many files are signed.
    pub files: usize,
    /// The SHA-256 of the PEM of the key that it was made with, in hexadecimal, if that is said.
    pub key: Option<String>,
    /// Whether there is a certificate of the key, which nothing here reads.
    pub is_certified: bool,
}

/// The fields that count. There are others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawBundle {
    media_type: String,
    verification_material: RawMaterial,
    dsse_envelope: RawEnvelope,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMaterial {
    public_key: Option<RawKey>,
    certificate: Option<IgnoredAny>,
    x509_certificate_chain: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct RawKey {
    hint: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEnvelope {
    payload: String,
    payload_type: String,
    signatures: Vec<RawSignature>,
}

#[derive(Deserialize)]
struct RawSignature {
    sig: String,
}

impl Bundle {
    /// Reads the text of a bundle.
    ///
    /// # Errors
    /// [`Error::NotABundle`] and [`Error::Unsupported`].
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        if text.len() > MAX_BUNDLE {
            return Err(not_a_bundle(format!(
                "it has more than {} MiB",
                MAX_BUNDLE >> 20
            )));
        }
        let bundle: RawBundle = serde_json::from_slice(text).map_err(not_a_bundle)?;
        if bundle.media_type != MEDIA_TYPE {
            return Err(Error::Unsupported(format!(
                "the type {:?}",
                bundle.media_type
            )));
        }
        let envelope = bundle.dsse_envelope;
        if envelope.payload_type != PAYLOAD_TYPE {
            return Err(Error::Unsupported(format!(
                "the content {:?}",
                envelope.payload_type
            )));
        }
        let [signature] = &envelope.signatures[..] else {
            let count = envelope.signatures.len();
            return Err(not_a_bundle(format!(
                "it has {count} signatures instead of one"
            )));
        };
        let material = bundle.verification_material;
        let certificate = material.certificate.or(material.x509_certificate_chain);
        let is_certified = certificate.is_some();
        if !is_certified && material.public_key.is_none() {
            return Err(not_a_bundle("it has neither a key nor a certificate"));
        }
        let key = material.public_key;
        Ok(Self {
            payload: decode(&envelope.payload)?,
            signature: decode(&signature.sig)?,
            is_certified,
            hint: key.and_then(|key| key.hint).filter(|hint| !hint.is_empty()),
        })
    }

    /// What it says of itself.
    ///
    /// # Errors
    /// As [`Self::verify`], but for the key.
    pub fn claim(&self) -> Result<Claim, Error> {
        let manifest = self.manifest_unverified()?;
        Ok(Claim {
            model: manifest.model().to_owned(),
            files: manifest.count(),
            key: self.hint.clone(),
            is_certified: self.is_certified,
        })
    }

    /// What is signed, if this was made with the key.
    ///
    /// A certificate of the key is not looked at: what its owner may sign is for whoever gives the key to decide.
    ///
    /// # Errors
    /// [`Error::WrongKey`]; for the statement that is signed [`Error::NotABundle`], [`Error::Unsupported`] and
    /// [`Error::Inconsistent`].
    pub fn verify(&self, key: &Key) -> Result<Manifest, Error> {
        let is_of_other = self.hint.as_ref().is_some_and(|hint| hint != key.hint());
        if is_of_other || !key.has_signed(&self.message(), &self.signature) {
            return Err(Error::WrongKey);
        }
        self.manifest_unverified()
    }

    fn manifest_unverified(&self) -> Result<Manifest, Error> {
        Manifest::of_statement(&self.payload)
    }

    /// What is signed: the encoding before authentication (PAE) of DSSE.
    fn message(&self) -> Vec<u8> {
        let (type_len, len) = (PAYLOAD_TYPE.len(), self.payload.len());
        let mut message = format!("DSSEv1 {type_len} {PAYLOAD_TYPE} {len} ").into_bytes();
        message.extend_from_slice(&self.payload);
        message
    }
}

fn decode(text: &str) -> Result<Vec<u8>, Error> {
    Base64::decode_to_vec(text, None).map_err(|_| not_a_bundle("a part is not base64"))
}

pub(crate) fn not_a_bundle(reason: impl ToString) -> Error {
    Error::NotABundle(reason.to_string())
}
