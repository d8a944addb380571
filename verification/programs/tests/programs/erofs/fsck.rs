//! `fsck.erofs` accepts our images, and extracts the tree that they were made of.

use std::{fs, path::Path, process::Command};

use tempfile::TempDir;
use verimount_testkit::{directory::make_tree, noise, tools};

use super::{compressed, image_of, text};

/// What `fsck.erofs` has extracted of an image that it accepts.
struct Extracted(TempDir);

/// Has `fsck.erofs` check and extract an image; `None` if it is not installed.
fn extracted_by_fsck(image: &[u8]) -> Option<Extracted> {
    let extracted = tempfile::tempdir().unwrap();
    assert!(is_accepted(image, &extracted.path().join("tree"))?);
    Some(Extracted(extracted))
}

impl Extracted {
    /// Fails unless it has the files of this directory.
    fn is_like(&self, root: &Path) {
        assert!(self.diff(root));
        let surplus = root.join("surplus");
        fs::write(&surplus, "not in the image").unwrap();
        assert!(!self.diff(root));
        fs::remove_file(surplus).unwrap();
    }

    fn diff(&self, root: &Path) -> bool {
        let mut diff = Command::new("diff");
        diff.args(["-r", "--no-dereference"]).arg(root);
        diff.arg(self.0.path().join("tree"));
        diff.status().unwrap().success()
    }
}

/// Whether `fsck.erofs` accepts an image; `None` if it is not installed.
fn is_accepted(image: &[u8], extract_to: &Path) -> Option<bool> {
    let program = tools::find("fsck.erofs")?;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    fs::write(&path, image).unwrap();
    let extract = format!("--extract={}", extract_to.to_str().unwrap());
    let checked = Command::new(program)
        .arg(extract)
        .arg(path)
        .output()
        .unwrap();
    // A checksum that does not match does not change the exit code.
    let messages = String::from_utf8_lossy(&checked.stderr).into_owned();
    eprint!("{messages}");
    Some(checked.status.success() && !messages.contains("<E>"))
}

#[test]
fn fsck_accepts_and_extracts_our_images() {
    let folder = tempfile::tempdir().unwrap();
    make_tree(folder.path());
    // `fsck.erofs` 1.5 leaves holes out of what it extracts.
    fs::remove_file(folder.path().join("sparse")).unwrap();
    let mut image = image_of(folder.path(), None);
    let Some(extracted) = extracted_by_fsck(&image) else {
        return;
    };
    extracted.is_like(folder.path());
    // In the part of the superblock that only the checksum covers.
    image[1024 + 0x30] ^= 1;
    let to = tempfile::tempdir().unwrap();
    assert_eq!(is_accepted(&image, &to.path().join("tree")), Some(false));
}

#[test]
fn fsck_accepts_and_extracts_compressed_images() {
    let folder = tempfile::tempdir().unwrap();
    make_tree(folder.path());
    // `fsck.erofs` 1.5 leaves holes out of what it extracts.
    fs::remove_file(folder.path().join("sparse")).unwrap();
    let mixed = [
        text(200_000),
        noise(50_000, 1),
        vec![0; 3 << 20],
        text(5000),
    ]
    .concat();
    fs::write(folder.path().join("mixed"), mixed).unwrap();
    // The other algorithms are unknown to 1.5.
    for (codec, cluster) in [("lz4", 4096), ("lz4,9", 16_384), ("lz4,9", 1 << 20)] {
        let image = compressed(folder.path(), codec, cluster);
        let Some(extracted) = extracted_by_fsck(&image) else {
            return;
        };
        extracted.is_like(folder.path());
    }
}
