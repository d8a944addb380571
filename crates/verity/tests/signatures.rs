//! Minisign signatures over file digests, against forgers.

use std::{num::NonZeroUsize, sync::Arc};

use verimount_testkit::{go_on, noise};
use verimount_verity::{
    Corruption, Error, FileDigest, KeyPair, PublicKey, SealLayout, Sealed, SecretKey, Signature,
    TreeParams, Trust, seal,
};

const DIGEST: &str = "sha256:3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95";

fn digest() -> FileDigest {
    DIGEST.parse().unwrap()
}

fn other_digest() -> FileDigest {
    DIGEST.replace('3', "4").parse().unwrap()
}

struct Keys {
    public: PublicKey,
    secret: SecretKey,
}

fn keys() -> Keys {
    let pair = KeyPair::generate(None).unwrap();
    Keys {
        public: PublicKey::parse(&pair.public).unwrap(),
        secret: SecretKey::parse(&pair.secret, None).unwrap(),
    }
}

#[test]
fn only_the_signed_digest_is_accepted() {
    for text in [DIGEST, &format!("sha512:{}", "5a".repeat(64))] {
        let digest: FileDigest = text.parse().unwrap();
        let (ours, others) = (keys(), keys());
        let signature = ours.secret.sign(&digest).unwrap();
        // As it is stored and found again.
        let signature = Signature::parse(signature.as_bytes()).unwrap();
        ours.public.verify(&signature, &digest).unwrap();
        for (key, digest) in [(&others, digest), (&ours, other_digest())] {
            let refused = key.public.verify(&signature, &digest);
            assert!(matches!(refused, Err(Error::WrongSignature(_))));
        }
    }
}

/// Calls `test` with what writes a signature, if there is one, into a seal, and opens that.
fn with_seal(test: impl FnOnce(&dyn Fn(Option<&Signature>) -> Sealed)) {
    let data = Arc::new(noise(10_000, 1));
    let file = tempfile::NamedTempFile::new().unwrap();
    let (layout, threads) = (SealLayout::Sidecar, NonZeroUsize::MIN);
    let params = TreeParams::default();
    seal(&data, file.as_file(), layout, &params, threads, &mut go_on).unwrap();
    let open = || {
        let sidecar = Arc::new(std::fs::read(file.path()).unwrap());
        Sealed::open_sidecar(data.clone(), sidecar).unwrap()
    };
    test(&|signature| {
        if let Some(signature) = signature {
            open().write_signature(file.as_file(), signature).unwrap();
        }
        open()
    });
}

#[test]
fn only_a_seal_that_the_key_has_signed_is_accepted() {
    with_seal(|with_signature| {
        let (ours, others) = (keys(), keys());
        let trust = Trust::Key(ours.public.clone());
        let unsigned = with_signature(None);
        let digest = unsigned.file_digest();
        let refused = unsigned.accepted_by(&trust);
        assert!(matches!(refused, Err(Error::NotSigned)));
        for (key, digest) in [(&others, digest), (&ours, other_digest())] {
            let signature = key.secret.sign(&digest).unwrap();
            let refused = with_signature(Some(&signature)).accepted_by(&trust);
            assert!(matches!(refused, Err(Error::WrongSignature(_))));
        }
        let signature = ours.secret.sign(&digest).unwrap();
        let sealed = with_signature(Some(&signature));
        sealed.accepted_by(&trust).unwrap();
    });
}

/// As a cache may return it.
#[test]
fn a_head_with_a_part_of_a_signature_is_refused() {
    with_seal(|with_signature| {
        let signature = keys().secret.sign(&digest()).unwrap();
        let seal = with_signature(Some(&signature)).accepted_by(&Trust::Unpinned);
        let head = seal.unwrap().head().to_vec();
        let parse = |head: &[u8]| {
            let nothing = || Arc::new(Vec::new());
            Sealed::from_parts(head, nothing(), nothing())
        };
        parse(&head).unwrap();
        let longer = [&head[..], b"\n"].concat();
        for wrong in [&head[..head.len() - 1], &head[..256], &longer] {
            let refused = parse(wrong);
            assert!(matches!(
                refused,
                Err(Error::Corrupt(Corruption::DescriptorSize(_)))
            ));
        }
    });
}

/// Whatever byte of a signature is changed: it is no signature any more, or not this key's, or,
/// where the byte was not part of what is signed, still one over the right digest and no other.
#[test]
fn no_changed_byte_makes_a_signature_for_another_digest() {
    let keys = keys();
    let signature = keys.secret.sign(&digest()).unwrap();
    let mut harmless = 0;
    for position in 0..signature.as_bytes().len() {
        for bits in [0x01, 0x20, 0x80, 0xff] {
            let mut bytes = signature.as_bytes().to_vec();
            bytes[position] ^= bits;
            let Some(changed) = Signature::parse(&bytes) else {
                continue;
            };
            assert!(
                keys.public.verify(&changed, &other_digest()).is_err(),
                "byte {position} with {bits:#x}"
            );
            harmless += usize::from(keys.public.verify(&changed, &digest()).is_ok());
        }
    }
    // Only the comment that says of itself that it is not signed: less than a third of the text.
    assert!(harmless * 3 < signature.as_bytes().len() * 4, "{harmless}");
}

#[test]
fn cut_off_signatures_are_refused() {
    let keys = keys();
    let signature = keys.secret.sign(&digest()).unwrap();
    let bytes = signature.as_bytes();
    let without_last_newline = bytes.len() - 1;
    for len in 0..without_last_newline {
        let believed = Signature::parse(&bytes[..len])
            .is_some_and(|cut| keys.public.verify(&cut, &digest()).is_ok());
        assert!(!believed, "{len} of {} bytes", bytes.len());
    }
}

#[test]
fn encrypted_keys_need_their_password() {
    let password = || Some("correct horse".to_owned());
    let pair = KeyPair::generate(password()).unwrap();
    assert!(SecretKey::is_encrypted(&pair.secret).unwrap());
    let key = SecretKey::parse(&pair.secret, password()).unwrap();
    let signature = key.sign(&digest()).unwrap();
    let public = PublicKey::parse(&pair.public).unwrap();
    public.verify(&signature, &digest()).unwrap();
    for wrong in [None, Some(String::new()), Some("battery staple".to_owned())] {
        let refused = SecretKey::parse(&pair.secret, wrong);
        assert!(matches!(refused, Err(Error::BadKey(_))));
    }
    let plain = KeyPair::generate(None).unwrap();
    assert!(!SecretKey::is_encrypted(&plain.secret).unwrap());
}

#[test]
fn texts_that_are_no_keys_are_refused() {
    let pair = KeyPair::generate(None).unwrap();
    let half = |text: &str| text[..text.len() / 2].to_owned();
    for text in [
        "",
        "\n",
        "key",
        "untrusted comment: x\n",
        &half(&pair.public),
    ] {
        assert!(
            matches!(PublicKey::parse(text), Err(Error::BadKey(_))),
            "{text}"
        );
    }
    for text in ["", "\n", "key", &pair.public, &half(&pair.secret)] {
        assert!(SecretKey::parse(text, None).is_err(), "{text}");
    }
}

/// By minisign's format, a file of a key is a comment and the key.
#[test]
fn texts_with_anything_beside_one_key_are_refused() {
    let [one, other] = [(), ()].map(|()| KeyPair::generate(None).unwrap());
    let says_so = |refused: Error| {
        let text = refused.to_string();
        assert!(text.contains("more than one key"), "{text}");
    };
    let kinds = [(&one.public, &other.public), (&one.secret, &other.secret)];
    for (file, second) in kinds {
        let parse = |text: &str| {
            if file == &one.public {
                PublicKey::parse(text).map(drop)
            } else {
                SecretKey::parse(text, None).map(drop)
            }
        };
        // As editors leave it.
        for end in ["", "\n\n", "\r\n \n"] {
            parse(&format!("{}{end}", file.trim_end())).unwrap();
        }
        let [line, other_line] = [file, second].map(|file| file.lines().nth(1).unwrap());
        for text in [
            format!("{file}{second}"),
            format!("{file}{other_line}\n"),
            format!("{file}\n\nand a note\n"),
            format!("{line}\n{other_line}\n"),
            format!("{line}\n{file}"),
        ] {
            says_so(parse(&text).unwrap_err());
        }
    }
}

/// The line alone is enough, as `minisign -P` has it.
#[test]
fn a_public_key_is_its_line_of_base64() {
    let pair = KeyPair::generate(None).unwrap();
    let line = pair.public.lines().nth(1).unwrap();
    let secret = SecretKey::parse(&pair.secret, None).unwrap();
    let signature = secret.sign(&digest()).unwrap();
    for text in [line, &format!("  {line}\n")] {
        let public = PublicKey::parse(text).unwrap();
        public.verify(&signature, &digest()).unwrap();
    }
}

#[test]
fn a_signature_begins_with_a_comment_and_fits_into_a_seal() {
    let signature = keys().secret.sign(&digest()).unwrap();
    let text = str::from_utf8(signature.as_bytes()).unwrap();
    let (_, rest) = text.split_once('\n').unwrap();
    let with = |first: &str| Signature::parse(format!("{first}\n{rest}").as_bytes());
    assert!(with("untrusted comment: short").is_some());
    assert!(with("a comment").is_none());
    assert!(with(&format!("untrusted comment: {}", "a".repeat(16_384))).is_none());
}
