//! What needs no feature: a file of a sealed image is read by the digest of the seal.

use std::fs;

use verimount::{ErrorKind, Identity, Image, OpenOptions, SealOptions, seal};
use verimount_testkit::{
    flip_where,
    romfs_image::{DIRECTORY, FILE, RomfsImage},
};

const CONTENT: &[u8] = b"what is in the file";

/// A romfs image with a file.
fn romfs() -> Vec<u8> {
    const ROOT: usize = RomfsImage::ROOT;
    const AT: usize = ROOT + 32;
    let next = AT as u32;
    let mut image = RomfsImage::crafted(&[
        (ROOT, next | DIRECTORY, ROOT as u32, "."),
        (AT, FILE, 0, "file"),
    ]);
    let file = image.header("file");
    image.change(&file, 2, CONTENT.len() as u32);
    image.0[AT + 32..][..CONTENT.len()].copy_from_slice(CONTENT);
    image.fix_superblock();
    image.0
}

#[test]
fn a_file_of_an_image_is_read_by_digest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    fs::write(&path, romfs()).unwrap();
    let options = SealOptions {
        append: true,
        ..SealOptions::default()
    };
    let sealed = seal(&path, &options).unwrap();
    let Identity::FileDigest(digest) = sealed.identity else {
        panic!("fs-verity is the default")
    };
    let options = OpenOptions::new().digest(digest);
    let read = || Image::open(&path, &options)?.read("file");
    assert_eq!(read().unwrap(), CONTENT);
    flip_where(&path, CONTENT);
    assert_eq!(read().unwrap_err().kind(), ErrorKind::Corrupt);
}
