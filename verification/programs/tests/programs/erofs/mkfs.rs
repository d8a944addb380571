//! Images that `mkfs.erofs` makes of a tree are compared with the tree.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use tempfile::TempDir;
use verimount_erofs::ErofsTree;
use verimount_testkit::{
    directory::{compare, make_tree},
    seen::{check_lookups, everything},
    skip, tools,
};
use verimount_verity::Checked;

/// Options of the oldest version that is in use.
const OPTIONS: [&[&str]; 13] = [
    &[],
    &["-Enoinline_data"],
    &["-Eforce-inode-extended"],
    &["-x1"],
    &["-x500"],
    &["--chunksize=4096"],
    &["--chunksize=65536", "-Eforce-chunk-indexes"],
    &["--ignore-mtime", "-T1700000000"],
    &["-zlz4"],
    &["-zlz4hc,12", "-C65536"],
    &["-zlz4", "-Eztailpacking"],
    &["-zlz4", "-Elegacy-compress"],
    &["-zlz4", "-C16384", "-Elegacy-compress,ztailpacking"],
];

/// A folder on a disk, as mkfs.erofs 1.5 writes no chunks to a tmpfs.
fn folder() -> TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"));
    folder.or_else(|_| tempfile::tempdir()).unwrap()
}

/// Whether mkfs.erofs 1.5 can write chunks to `folder`: they are first in `/tmp`, and are only copied within a file system.
fn takes_chunks(folder: &TempDir) -> bool {
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    device(folder.path()) == device("/tmp".as_ref())
}

/// An image, and what was written to further devices.
fn image_of(tree: &Path, program: &Path, options: &[&str]) -> Vec<u8> {
    let folder = folder();
    let image = folder.path().join("image");
    let made = Command::new(program)
        .args(options)
        .arg(&image)
        .arg(tree)
        .stdout(Stdio::null())
        .output();
    let made = made.unwrap();
    assert!(
        made.status.success(),
        "{options:?}: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    fs::read(image).unwrap()
}

#[test]
fn what_mkfs_makes_is_read() {
    let Some(program) = tools::find("mkfs.erofs") else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    make_tree(root.path());
    let takes_chunks = takes_chunks(&folder());
    for options in OPTIONS {
        if !takes_chunks && options.iter().any(|it| it.starts_with("--chunksize")) {
            skip(format_args!("{options:?}: /tmp is another file system"));
            continue;
        }
        let image = Arc::new(image_of(root.path(), &program, options));
        let tree = ErofsTree::open(Checked::unverified(image), Vec::new()).unwrap();
        check_lookups(&tree);
        compare(&tree, root.path(), !options.contains(&"--ignore-mtime"));
    }
}

#[test]
fn chunks_may_be_on_another_device() {
    let Some(program) = tools::find("mkfs.erofs") else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    make_tree(root.path());
    let blob = root.path().with_extension("blob");
    let option = format!("--blobdev={}", blob.to_str().unwrap());
    let image = image_of(root.path(), &program, &["--chunksize=65536", &option]);
    let device = Arc::new(fs::read(&blob).unwrap());
    fs::remove_file(blob).unwrap();
    let tree = ErofsTree::open(
        Checked::unverified(Arc::new(image.clone())),
        vec![Checked::unverified(device)],
    )
    .unwrap();
    compare(&tree, root.path(), true);
    // Without the device, its files cannot be read, as they are not behind the image either.
    let tree = ErofsTree::open(Checked::unverified(Arc::new(image)), Vec::new()).unwrap();
    assert!(everything(&tree).is_err());
}
