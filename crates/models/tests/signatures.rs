//! Signatures that Python's `model_signing` has made (`data/make.py`), and changes of them.

use std::path::Path;

use verimount_models::{Bundle, Check, Coverage, Error, Key, Manifest, Subject, Uncovered};

macro_rules! data {
    ($name:literal) => {
        include_str!(concat!("data/", $name))
    };
}

fn key(pem: &str) -> Key {
    Key::parse(pem).unwrap()
}

fn verified(signature: &str, pem: &str) -> Result<Manifest, Error> {
    Bundle::parse(signature.as_bytes())?.verify(&key(pem))
}

/// The content of a file of the model.
fn content(path: &Path) -> &'static [u8] {
    match path.to_str().unwrap() {
        "a.bin" => &[b'x'; 2500],
        "sub/é b" => b"2",
        "sub.txt" => b"1",
        other => panic!("{other} is not in the model"),
    }
}

#[test]
fn signatures_of_directories() {
    for (signature, pem) in [
        (data!("files.sig"), data!("p256.pem")),
        (data!("shards.sig"), data!("p384.pem")),
        (data!("blake2b.sig"), data!("p521.pem")),
    ] {
        let manifest = verified(signature, pem).unwrap();
        assert_eq!(manifest.model(), "model");
        let Subject::Directory(files) = manifest.subject() else {
            panic!("{manifest:?}");
        };
        let paths: Vec<_> = files.keys().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(paths, ["a.bin", "sub/é b", "sub.txt"]);
        for (path, expected) in files {
            let content = content(path);
            let mut check = Check::new(expected.clone(), content.len() as u64);
            check.update(content);
            assert_eq!(check.finish(), Ok(()), "{path:?}");
        }
        let mut ignored: Vec<_> = manifest.ignored().collect();
        ignored.sort();
        let expected = [
            ".git",
            ".gitattributes",
            ".github",
            ".gitignore",
            "model.sig",
        ];
        assert_eq!(ignored, expected.map(Path::new));
    }
}

#[test]
fn signatures_of_one_file() {
    for (signature, pem) in [
        (data!("one.sig"), data!("p256.pem")),
        (data!("one-sharded.sig"), data!("p384.pem")),
    ] {
        let manifest = verified(signature, pem).unwrap();
        assert_eq!(manifest.model(), "a.bin");
        let Subject::File(expected) = manifest.subject() else {
            panic!("{manifest:?}");
        };
        let mut check = Check::new(expected.clone(), 2500);
        check.update(&[b'x'; 2500]);
        assert_eq!(check.finish(), Ok(()));
    }
}

#[test]
fn a_signature_says_whom_it_is_from() {
    let bundle = Bundle::parse(data!("files.sig").as_bytes()).unwrap();
    let claim = bundle.claim().unwrap();
    assert_eq!((&*claim.model, claim.files), ("model", 3));
    assert_eq!(claim.key.as_deref(), Some(key(data!("p256.pem")).hint()));
    assert!(!claim.is_certified);
}

#[test]
fn other_keys_are_refused() {
    for pem in [data!("p384.pem"), data!("p521.pem")] {
        assert_eq!(verified(data!("files.sig"), pem), Err(Error::WrongKey));
    }
    let two = [data!("p256.pem"), data!("p384.pem")].concat();
    for text in [
        "",
        "key",
        &data!("p256.pem")[..100],
        data!("files.sig"),
        &two,
    ] {
        assert_eq!(Key::parse(text), Err(Error::BadKey));
    }
}

#[test]
fn what_is_not_supported_is_named() {
    let refused = verified(data!("blake3.sig"), data!("p256.pem")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the hash function \"blake3\" is not supported in model signatures"
    );
    let other = data!("files.sig").replace("v0.3+json", "v0.4+json");
    let refused = Bundle::parse(other.as_bytes());
    assert!(matches!(refused, Err(Error::Unsupported(_))), "{refused:?}");
}

/// Each byte counts, but for spaces and for what nothing reads.
#[test]
fn changed_signatures_are_refused() {
    let text = data!("files.sig");
    let unread = ["\"tlogEntries\":[]", "\"keyid\":\"", "hint"].map(|part| {
        let at = text.find(part).unwrap();
        at..at + part.len()
    });
    for at in 0..text.len() {
        if unread.iter().any(|range| range.contains(&at)) {
            continue;
        }
        let mut changed = text.as_bytes().to_vec();
        changed[at] ^= 1;
        let verified =
            Bundle::parse(&changed).and_then(|bundle| bundle.verify(&key(data!("p256.pem"))));
        assert!(
            verified.is_err(),
            "byte {at} of {:?}",
            char::from(text.as_bytes()[at])
        );
        assert!(
            Bundle::parse(&changed[..at]).is_err(),
            "the first {at} bytes"
        );
    }
}

#[test]
fn names_must_be_the_same() {
    let manifest = verified(data!("shards.sig"), data!("p384.pem")).unwrap();
    let Subject::Directory(files) = manifest.subject() else {
        panic!("{manifest:?}");
    };
    let sizes = [("a.bin", 2500), ("sub/é b", 1), ("sub.txt", 1)];
    let mut coverage = Coverage::new(files);
    assert_eq!(coverage.directory("sub".as_ref()), Ok(()));
    for (path, size) in sizes {
        assert!(coverage.file(path.as_ref(), size).is_ok());
    }
    let other = |path: &str| Uncovered::File(path.into());
    assert_eq!(coverage.file("b".as_ref(), 1), Err(other("b")));
    assert_eq!(coverage.file("sub".as_ref(), 1), Err(other("sub")));
    assert_eq!(
        coverage.file("b".as_ref(), 0),
        Err(Uncovered::Empty("b".into()))
    );
    assert_eq!(
        coverage.directory("su".as_ref()),
        Err(Uncovered::Directory("su".into()))
    );
    assert_eq!(
        coverage.directory("t".as_ref()),
        Err(Uncovered::Directory("t".into()))
    );
    let longer = coverage.file("a.bin".as_ref(), 2501);
    assert!(matches!(longer, Err(Uncovered::Size { signed: 2500, .. })));
    assert_eq!(coverage.finish(), Ok(()));
    for (missing, _) in sizes {
        let mut coverage = Coverage::new(files);
        for (path, size) in sizes.into_iter().filter(|(path, _)| *path != missing) {
            coverage.file(path.as_ref(), size).unwrap();
        }
        assert_eq!(coverage.finish(), Err(Uncovered::Missing(missing.into())));
    }
}
