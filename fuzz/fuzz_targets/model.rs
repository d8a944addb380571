//! Reads bytes as a model signature, and as the statement that one signs. Nothing may be taken for a signature of what was never
//! signed, and what is expected of a file is no content that has another size.

#![no_main]

use std::{path::Path, sync::LazyLock};

use libfuzzer_sys::fuzz_target;
use verimount_models::{Bundle, Check, Coverage, Key, Manifest, Subject};

/// The key of the signatures to begin with; its secret half is gone.
static KEY: LazyLock<Key> =
    LazyLock::new(|| Key::parse(include_str!("../seeds/model/key.pem")).expect("a public key"));

/// What the key has signed.
static SIGNED: LazyLock<[Manifest; 2]> = LazyLock::new(|| {
    [
        &include_bytes!("../seeds/model/files.sig")[..],
        include_bytes!("../seeds/model/one.sig"),
    ]
    .map(|signature| {
        let bundle = Bundle::parse(signature).expect("a signature");
        bundle.verify(&KEY).expect("a signature of the key")
    })
});

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = str::from_utf8(input) {
        let _ = Key::parse(text);
    }
    if let Ok(bundle) = Bundle::parse(input) {
        let _ = bundle.claim();
        if let Ok(manifest) = bundle.verify(&KEY) {
            assert!(SIGNED.contains(&manifest));
        }
    }
    if let Ok(manifest) = Manifest::of_statement(input) {
        use_manifest(&manifest);
    }
});

fn use_manifest(manifest: &Manifest) {
    assert!(manifest.ignored().all(Path::is_relative));
    match manifest.subject() {
        Subject::File(expected) => {
            let check = Check::new(expected.clone(), 0);
            assert!(expected.size().is_none() || check.finish().is_err());
        }
        Subject::Directory(files) => {
            let mut coverage = Coverage::new(files);
            for (path, expected) in files {
                assert!(path.is_relative());
                let size = expected.size().unwrap_or(0);
                assert_eq!(coverage.file(path, size), Ok(expected));
                if let Some(parent) = path.parent().filter(|parent| *parent != Path::new("")) {
                    assert_eq!(coverage.directory(parent), Ok(()));
                }
            }
            assert_eq!(coverage.finish(), Ok(()));
        }
    }
}
