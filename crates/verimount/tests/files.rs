//! What the functions on files say, as values and not as text.

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use verimount::{
    BuildOptions, Error, ExtractOptions, FileKind, ImageFormat, OpenOptions, Precious, Progress,
    RomfsOptions, SealOptions, SealedFile, Step, Trust, build, describe, digest, extract, open,
    seal, verify,
    verity::{
        Error as VerityError, FileDigest, Identity, KeyPair, PublicKey, SecretKey, TreeParams,
    },
};

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn end(_: Progress) -> ControlFlow<()> {
    ControlFlow::Break(())
}

/// Ends this step.
fn until(last: Step) -> impl FnMut(Progress) -> ControlFlow<()> {
    move |progress| match progress.step == last {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// Options for an EROFS image.
fn erofs() -> BuildOptions {
    let mut options = BuildOptions::default();
    options.format = ImageFormat::Erofs(verimount::erofs::Options::default());
    options
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
    let options = OpenOptions::default();
    let unsealed = open(&path, &Trust::Unpinned, &options);
    assert!(matches!(unsealed, Err(Error::NotSealed { .. })));

    let made = seal(&path, &SealOptions::default(), &mut go_on).unwrap();
    let computed = digest(&path, &TreeParams::default(), &mut go_on).unwrap();
    assert_eq!(made.identity, Identity::FileDigest(computed));
    let opened = open(&path, &Trust::from(computed), &options).unwrap();
    assert_eq!(opened.identity(), Some(made.identity));
    assert!(verify(&opened, &mut go_on).unwrap().is_good());
    assert!(opened.stats().unwrap().bytes_verified >= 10_000);
    assert!(matches!(opened.tree(), Err(Error::NotAnImage { .. })));

    let other: FileDigest = format!("sha256:{}", "0".repeat(64)).parse().unwrap();
    let refused = open(&path, &Trust::from(other), &options);
    assert!(matches!(
        refused,
        Err(Error::Seal { at, source: VerityError::WrongDigest { .. } }) if at.path() == Some(&path)
    ));

    let opened = open(&path, &Trust::Unverified, &options).unwrap();
    assert!(opened.has_unused_seal());
    let unverified = verify(&opened, &mut go_on);
    assert!(matches!(unverified, Err(Error::Unverified { .. })));
}

#[test]
fn a_signed_file_is_trusted_by_its_key() {
    let (_folder, path) = file();
    seal(&path, &SealOptions::default(), &mut go_on).unwrap();
    let pair = KeyPair::generate(None).unwrap();
    let trust = Trust::from(PublicKey::parse(&pair.public).unwrap());
    let options = OpenOptions::default();
    assert!(open(&path, &trust, &options).is_err());

    let sealed = SealedFile::open(&path, &options).unwrap();
    sealed
        .sign(&SecretKey::parse(&pair.secret, None).unwrap())
        .unwrap();
    open(&path, &trust, &options).unwrap();

    let again = seal(&path, &SealOptions::default(), &mut go_on);
    let what = Precious::SignedSeal;
    assert!(matches!(again, Err(Error::WouldReplace { what: found, .. }) if found == what));
}

#[test]
fn what_is_ended_leaves_nothing() {
    let (folder, path) = file();
    let ended = seal(&path, &SealOptions::default(), &mut end);
    assert!(matches!(ended, Err(Error::Cancelled { .. })));
    assert_eq!(files_in(folder.path()), 1);
    fs::copy(&path, folder.path().join("the same")).unwrap();
    let output = tempfile::tempdir().unwrap();
    for last in [Step::Scan, Step::Compare, Step::Build, Step::Seal] {
        let ended = build(
            folder.path(),
            &output.path().join("image"),
            &erofs(),
            &mut until(last),
        );
        assert!(matches!(ended, Err(Error::Cancelled { .. })), "{last:?}");
        assert_eq!(files_in(output.path()), 0);
    }
}

#[test]
fn the_search_for_names_can_be_ended() {
    let (folder, _) = file();
    let output = tempfile::tempdir().unwrap();
    let image = output.path().join("image");
    build(folder.path(), &image, &erofs(), &mut go_on).unwrap();
    let mut bytes = fs::read(&image).unwrap();
    let content = bytes.windows(100).position(|window| window == [1; 100]);
    bytes[content.unwrap()] = 0;
    fs::write(&image, bytes).unwrap();
    let opened = open(&image, &Trust::Unpinned, &OpenOptions::default()).unwrap();
    let report = verify(&opened, &mut go_on).unwrap();
    assert_eq!(report.bad[0].files, [Path::new("file")]);
    let ended = verify(&opened, &mut until(Step::Name));
    assert!(matches!(ended, Err(Error::Cancelled { .. })));
}

#[test]
fn an_image_comes_out_as_it_went_in() {
    let (folder, path) = file();
    let output = tempfile::tempdir().unwrap();
    let (image, copy) = (output.path().join("image"), output.path().join("copy"));
    let mut options = BuildOptions::default();
    options.format = ImageFormat::Romfs(RomfsOptions {
        widen_permissions: true,
        ..RomfsOptions::default()
    });
    let built = build(folder.path(), &image, &options, &mut go_on).unwrap();

    let described = describe(&image, &OpenOptions::default()).unwrap();
    assert!(matches!(described.kind, FileKind::Image(_)) && described.seal.is_some());
    let trust = Trust::from(built.digest.unwrap());
    let opened = open(&image, &trust, &OpenOptions::default()).unwrap();
    extract(&opened, &copy, &ExtractOptions::default(), &mut go_on).unwrap();
    assert_eq!(
        fs::read(copy.join("file")).unwrap(),
        fs::read(path).unwrap()
    );
    let again = extract(&opened, &copy, &ExtractOptions::default(), &mut go_on);
    assert!(matches!(again, Err(Error::NotEmpty { .. })));
}
