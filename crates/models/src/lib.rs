//! Model signatures of the OpenSSF, and the names of Hugging Face's blobs: what the files of a model must be.
//!
//! A [`Bundle`] is the text of a signature. With the [`Key`] that it must be made with, it gives a [`Manifest`]: the
//! files of the model, each with what its content is [`Expected`] to be. A [`Coverage`] compares the names with those that
//! there are, and a [`Check`] the bytes, which it is given from front to back. Nothing is read here.
//!
//! What is signed is described by [`model_signing`](https://github.com/sigstore/model-transparency): a Sigstore bundle
//! with an envelope of [DSSE](https://github.com/secure-systems-lab/dsse/blob/v1.0.0/protocol.md) around a statement of
//! [in-toto](https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md).
//!
//! No signature is trusted before it is checked. What two programs could read in different ways is refused.

// The examples of the README are tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

mod bundle;
mod check;
mod coverage;
mod digest;
mod error;
mod expected;
mod key;
mod manifest;
mod statement;

pub use bundle::{Bundle, Claim, MAX_BUNDLE};
pub use check::{Check, Differs};
pub use coverage::{Coverage, Uncovered};
pub use error::Error;
pub use expected::Expected;
pub use key::Key;
pub use manifest::{Manifest, Subject};
