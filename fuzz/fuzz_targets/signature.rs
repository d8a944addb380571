//! Reads bytes as a signature and as keys. No input may be taken for a signature of a digest that
//! was never signed.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use verimount_verity::{FileDigest, PublicKey, SecretKey, Signature};

/// The key of the signature to begin with; its secret half is gone.
static KEY: LazyLock<PublicKey> = LazyLock::new(|| {
    PublicKey::parse(include_str!("../seeds/signature/public-key")).expect("a public key")
});

/// A digest that this key never signed.
static UNSIGNED: LazyLock<FileDigest> = LazyLock::new(|| {
    let digest = format!("sha256:{}", "5a".repeat(32));
    digest.parse().expect("a digest")
});

fuzz_target!(|input: &[u8]| {
    if let Some(signature) = Signature::parse(input) {
        assert_eq!(signature.as_bytes(), input);
        assert!(KEY.verify(&signature, &UNSIGNED).is_err());
    }
    if let Ok(text) = str::from_utf8(input) {
        let _ = PublicKey::parse(text);
        let _ = SecretKey::is_encrypted(text);
        let _ = SecretKey::parse(text, None);
    }
});
