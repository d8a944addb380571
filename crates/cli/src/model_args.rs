use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueHint};
use verimount::{ModelKey, ModelSignature};
use verimount_host::printable;

use crate::options::read_key_file;

/// The signature of a model, and the key that it must be made with.
#[derive(Args)]
#[group(skip)]
pub(crate) struct SignatureArgs {
    /// Check the names and contents with this OpenSSF model signature, while they are read
    #[arg(long, value_name = "FILE", requires = "model_key", value_hint = ValueHint::FilePath)]
    model_signature: Option<PathBuf>,
    /// The public key that the model signature must be made with: PEM of an elliptic curve, P-256, P-384 or P-521
    #[arg(long, value_name = "FILE", requires = "model_signature", value_hint = ValueHint::FilePath)]
    model_key: Option<PathBuf>,
}

impl SignatureArgs {
    /// The signature, if there is one.
    pub(crate) fn read(&self) -> Result<Option<ModelSignature>> {
        let (Some(signature), Some(key)) = (&self.model_signature, &self.model_key) else {
            return Ok(None);
        };
        Ok(Some(ModelSignature::open(
            signature,
            &read_model_key(key)?,
        )?))
    }
}

/// Reads the key of model signatures.
pub(crate) fn read_model_key(path: &Path) -> Result<ModelKey> {
    let shown = || printable(path).to_string();
    let text = read_key_file(path).with_context(shown)?;
    ModelKey::parse(&text).with_context(shown)
}
