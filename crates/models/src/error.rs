use thiserror::Error as ThisError;

/// Why a signature cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// It is not a Sigstore bundle of a model signature.
    #[error("it is not a model signature: {0}")]
    NotABundle(String),
    /// It is one, but says something that is not supported.
    #[error("{0} is not supported in model signatures")]
    Unsupported(String),
    /// It contradicts itself.
    #[error("the model signature contradicts itself: {0}")]
    Inconsistent(String),
    /// The text is not a public key for it, or has something after it.
    #[error(
        "it is not one public key for model signatures: PEM of an elliptic curve, P-256, P-384 or P-521"
    )]
    BadKey,
    /// It was not made with the key.
    #[error("the model signature was not made with this key")]
    WrongKey,
}
