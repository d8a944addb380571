//! What the functions on files say, as values and not as text.

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use verimount::{
    BuildOptions, Content, DigestOptions, ErrorKind, ExtractOptions, FileDigest, FileKind,
    Identity, ImageFormat, OpenOptions, Progress, PublicKey, RomfsOptions, SealOptions, SealedFile,
    SecretKey, Step, VerifyOptions, Watcher, build, describe, digest, seal,
};
use verimount_verity::KeyPair;

fn end(_: Progress) -> ControlFlow<()> {
    ControlFlow::Break(())
}

/// Ends this step.
fn until(last: Step) -> impl Fn(Progress) -> ControlFlow<()> + Send + Sync {
    move |progress| {
        if progress.step == last {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// A file with nothing beside it.
fn file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, [1; 10_000]).unwrap();
    (folder, path)
}

fn files_in(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn only_what_is_trusted_is_opened() {
    let (_folder, path) = file();
    let open = |options: OpenOptions| Content::open(&path, &options);
    let unsealed = open(OpenOptions::new().unpinned()).unwrap_err();
    assert_eq!(unsealed.kind(), ErrorKind::NotSealed);

    let made = seal(&path, &SealOptions::default()).unwrap();
    let computed = digest(&path, &DigestOptions::default()).unwrap();
    assert_eq!(made.identity, Identity::FileDigest(computed));
    let content = open(OpenOptions::new().digest(computed)).unwrap();
    assert_eq!(content.identity(), Some(made.identity));
    // Only the seal is read.
    assert_eq!(content.stats().unwrap().bytes_verified, 0);
    assert!(content.verify(&VerifyOptions::default()).unwrap().is_good());
    assert!(content.stats().unwrap().bytes_verified >= 10_000);
    let not_an_image = content.image().unwrap_err();
    assert_eq!(not_an_image.kind(), ErrorKind::WrongFormat);

    let other: FileDigest = format!("sha256:{}", "0".repeat(64)).parse().unwrap();
    let refused = open(OpenOptions::new().digest(other)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WrongContent);
    assert_eq!(refused.location().unwrap().path(), Some(&*path));
    let nothing_said = open(OpenOptions::new()).unwrap_err();
    assert_eq!(nothing_said.kind(), ErrorKind::NotTrusted);
    let contradiction = open(OpenOptions::new().digest(computed).unverified());
    assert_eq!(contradiction.unwrap_err().kind(), ErrorKind::InvalidInput);

    let content = open(OpenOptions::new().unverified()).unwrap();
    assert!(content.has_unused_seal());
    let unverified = content.verify(&VerifyOptions::default()).unwrap_err();
    assert_eq!(unverified.kind(), ErrorKind::NotTrusted);
}

#[test]
fn a_signed_file_is_trusted_by_its_key() {
    let (_folder, path) = file();
    seal(&path, &SealOptions::default()).unwrap();
    let pair = KeyPair::generate(None).unwrap();
    let options = OpenOptions::new().key(PublicKey::parse(&pair.public).unwrap());
    let unsigned = Content::open(&path, &options).unwrap_err();
    assert_eq!(unsigned.kind(), ErrorKind::WrongContent);

    let sealed = SealedFile::open(&path, &options).unwrap();
    sealed
        .sign(&SecretKey::parse(&pair.secret, None).unwrap())
        .unwrap();
    Content::open(&path, &options).unwrap();

    let again = seal(&path, &SealOptions::default()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::WouldReplace);
    assert!(again.to_string().ends_with("it exists and is signed"));
}

#[test]
fn what_is_ended_leaves_nothing() {
    let (folder, path) = file();
    let options = SealOptions {
        watcher: Watcher::new(end),
        ..SealOptions::default()
    };
    let ended = seal(&path, &options).unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::Cancelled);
    assert_eq!(files_in(folder.path()), 1);
    fs::copy(&path, folder.path().join("the same")).unwrap();
    let output = tempfile::tempdir().unwrap();
    for last in [Step::Scan, Step::Compare, Step::Build, Step::Seal] {
        let options = BuildOptions {
            watcher: Watcher::new(until(last)),
            ..BuildOptions::default()
        };
        let ended = build(folder.path(), output.path().join("image"), &options);
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled, "{last:?}");
        assert_eq!(files_in(output.path()), 0);
    }
}

#[test]
fn the_search_for_names_can_be_ended() {
    let (folder, _) = file();
    let output = tempfile::tempdir().unwrap();
    let image = output.path().join("image");
    build(folder.path(), &image, &BuildOptions::default()).unwrap();
    let mut bytes = fs::read(&image).unwrap();
    let content = bytes.windows(100).position(|window| window == [1; 100]);
    bytes[content.unwrap()] = 0;
    fs::write(&image, bytes).unwrap();
    let content = Content::open(&image, &OpenOptions::new().unpinned()).unwrap();
    let report = content.verify(&VerifyOptions::default()).unwrap();
    assert_eq!(report.bad[0].files, [Path::new("file")]);
    let ended = content.verify(&VerifyOptions {
        watcher: Watcher::new(until(Step::Name)),
        ..VerifyOptions::default()
    });
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn an_image_comes_out_as_it_went_in() {
    let (folder, path) = file();
    let output = tempfile::tempdir().unwrap();
    let (image, copy) = (output.path().join("image"), output.path().join("copy"));
    let format = ImageFormat::Romfs(RomfsOptions {
        widen_permissions: true,
        ..RomfsOptions::default()
    });
    let options = BuildOptions {
        format,
        ..BuildOptions::default()
    };
    let built = build(folder.path(), &image, &options).unwrap();

    let described = describe(&image, &OpenOptions::new()).unwrap();
    assert!(matches!(described.kind, FileKind::Image(_)) && described.seal.is_some());
    let options = OpenOptions::new().digest(built.digest.unwrap());
    let image = Content::open(&image, &options).unwrap().image().unwrap();
    image.extract(&copy, &ExtractOptions::default()).unwrap();
    assert_eq!(
        fs::read(copy.join("file")).unwrap(),
        fs::read(path).unwrap()
    );
    let again = image
        .extract(&copy, &ExtractOptions::default())
        .unwrap_err();
    assert_eq!(again.kind(), ErrorKind::InvalidInput);
}
