//! Images of signed models, by the library.

use std::{
    fs,
    ops::ControlFlow,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;
use verimount::{
    BuildOptions, Built, Content, Error, ErrorKind, ModelKey, ModelSignature, OpenOptions,
    Progress, Step, VerifyOptions, Watcher, build, describe,
    options::{Links, ScanOptions},
};

/// What the tests of the crate `models` have.
fn data(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("../models/tests/data").join(name)
}

fn key(name: &str) -> ModelKey {
    ModelKey::parse(&fs::read_to_string(data(name)).unwrap()).unwrap()
}

/// A folder with the model that is signed.
fn model() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    fs::create_dir_all(model.join("sub")).unwrap();
    fs::write(model.join("a.bin"), [b'x'; 2500]).unwrap();
    fs::write(model.join("sub/é b"), "2").unwrap();
    fs::write(model.join("sub.txt"), "1").unwrap();
    folder
}

fn built(folder: &TempDir, options: BuildOptions) -> Result<Built, Error> {
    let signature = ModelSignature::open(data("files.sig"), &key("p256.pem"))?;
    assert_eq!((signature.model(), signature.files()), ("model", 3));
    let [model, image] = ["model", "image"].map(|name| folder.path().join(name));
    let options = BuildOptions {
        model_signature: Some(signature),
        ..options
    };
    build(model, image, &options)
}

#[test]
fn a_model_is_checked_and_described() {
    let folder = model();
    fs::write(folder.path().join("model/.gitignore"), "").unwrap();
    let built = built(&folder, BuildOptions::default()).unwrap();
    assert_eq!(built.left_out, [Path::new(".gitignore")]);
    let image = folder.path().join("image");
    let found = describe(&*image, &OpenOptions::new()).unwrap();
    let claim = found.model.unwrap();
    assert_eq!(claim.key.as_deref(), Some(key("p256.pem").hint()));

    let options = OpenOptions::new().digest(built.digest.unwrap());
    let content = Content::open(&*image, &options).unwrap();
    let verify = |name| {
        content.verify(&VerifyOptions {
            model_key: Some(key(name)),
            ..VerifyOptions::default()
        })
    };
    let report = verify("p256.pem").unwrap();
    let found = report.model.unwrap();
    assert_eq!((&*found.name, found.files), ("model", 3));
    assert_eq!(
        verify("p384.pem").unwrap_err().kind(),
        ErrorKind::WrongModel
    );
    let cancelled = VerifyOptions {
        model_key: Some(key("p256.pem")),
        watcher: Watcher::new(|progress| match progress.step {
            Step::Hash => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }),
    };
    let cancelled = content.verify(&cancelled).unwrap_err();
    assert_eq!(cancelled.kind(), ErrorKind::Cancelled);
}

#[test]
fn another_model_is_refused_by_its_kind() {
    let folder = model();
    fs::write(folder.path().join("model/sub.txt"), "2").unwrap();
    let refused = built(&folder, BuildOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WrongModel);
    let path = folder.path().join("model/sub.txt");
    assert_eq!(refused.location().and_then(|at| at.path()), Some(&*path));
    let other = ModelSignature::open(data("files.sig"), &key("p384.pem"));
    assert_eq!(other.unwrap_err().kind(), ErrorKind::WrongModel);
    let unsupported = ModelSignature::open(data("blake3.sig"), &key("p256.pem"));
    assert_eq!(unsupported.unwrap_err().kind(), ErrorKind::Unsupported);
    let none = ModelSignature::open(data("p256.pem"), &key("p256.pem"));
    assert_eq!(none.unwrap_err().kind(), ErrorKind::WrongFormat);
}

#[test]
fn a_check_ends_when_building_is_cancelled() {
    let folder = model();
    let options = BuildOptions {
        watcher: Watcher::new(|progress| match progress.step {
            Step::Build => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }),
        ..BuildOptions::default()
    };
    let cancelled = built(&folder, options).unwrap_err();
    assert_eq!(cancelled.kind(), ErrorKind::Cancelled);
    assert!(!folder.path().join("image").exists());
}

/// An image that keeps no signature, or has other files than the signature in it.
#[test]
fn images_are_compared_with_their_own_signature() {
    let folder = model();
    let [model, image] = ["model", "image"].map(|name| folder.path().join(name));
    for (signature, extra, is_good) in [
        (false, false, false),
        (true, false, true),
        (true, true, false),
    ] {
        if signature {
            fs::copy(data("files.sig"), model.join("model.sig")).unwrap();
        }
        if extra {
            fs::write(model.join("extra"), "").unwrap();
        }
        build(&model, &image, &BuildOptions::default()).unwrap();
        let content = Content::open(&*image, &OpenOptions::new().unpinned()).unwrap();
        let verified = content.verify(&VerifyOptions {
            model_key: Some(key("p256.pem")),
            ..VerifyOptions::default()
        });
        match verified {
            Ok(_) => assert!(is_good),
            Err(error) => {
                assert!(!is_good, "{error}");
                assert_eq!(error.kind(), ErrorKind::WrongModel);
            }
        }
    }
}

/// A snapshot of Hugging Face: whatever is in it must be a link to a blob.
#[test]
fn a_snapshot_has_nothing_but_links_to_blobs() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = folder.path().join("snapshot");
    fs::create_dir(&snapshot).unwrap();
    let blob = folder
        .path()
        .join("ce013625030ba8dba906f756967f9e9ca394464a");
    fs::write(&blob, "hello\n").unwrap();
    symlink(&blob, snapshot.join("config.json")).unwrap();
    let built = |links| {
        let scan = ScanOptions {
            links,
            ..ScanOptions::default()
        };
        let options = BuildOptions {
            scan,
            hugging_face: true,
            ..BuildOptions::default()
        };
        build(&snapshot, folder.path().join("image"), &options)
    };
    let refused = |links| match built(links) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::WrongModel),
        Ok(_) => panic!("{links:?}: it was built"),
    };
    built(Links::Followed).unwrap();
    refused(Links::Kept);

    let make_pipe = |path: &Path| {
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, path, FileType::Fifo, mode, 0).unwrap();
    };
    let pipe = snapshot.join("pipe");
    make_pipe(&pipe);
    refused(Links::Followed);
    fs::remove_file(&pipe).unwrap();
    let named = folder.path().join("0".repeat(40));
    make_pipe(&named);
    symlink(&named, &pipe).unwrap();
    refused(Links::Followed);
}

/// It would take hours to hash it.
#[test]
fn a_check_of_a_hole_ends_when_it_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = folder.path().join("snapshot");
    fs::create_dir(&snapshot).unwrap();
    let blob = folder.path().join("0".repeat(40));
    fs::File::create(&blob).unwrap().set_len(1 << 40).unwrap();
    symlink(&blob, snapshot.join("weights")).unwrap();
    let scan = ScanOptions {
        links: Links::Followed,
        ..ScanOptions::default()
    };
    // When all is written, no more bytes come.
    let last = AtomicU64::new(u64::MAX);
    let watch = move |progress: Progress| match progress.step {
        Step::Build if last.swap(progress.done, Relaxed) == progress.done => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let options = BuildOptions {
        scan,
        hugging_face: true,
        watcher: Watcher::new(watch),
        ..BuildOptions::default()
    };
    let cancelled = build(&snapshot, folder.path().join("image"), &options);
    assert_eq!(cancelled.unwrap_err().kind(), ErrorKind::Cancelled);
}

/// Nothing of it is verified, so no more is read than models need.
#[test]
fn a_claim_that_is_too_long_is_not_read() {
    let folder = model();
    let [model, image] = ["model", "image"].map(|name| folder.path().join(name));
    let signature = fs::read(data("files.sig")).unwrap();
    for (len, is_read) in [(8 << 20, true), ((8 << 20) + 1, false)] {
        let mut text = signature.clone();
        text.resize(len, b' ');
        fs::write(model.join("model.sig"), text).unwrap();
        build(&model, &image, &BuildOptions::default()).unwrap();
        let found = describe(&*image, &OpenOptions::new()).unwrap();
        assert_eq!(found.model.is_some(), is_read);
    }
}
