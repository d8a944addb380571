//! `genromfs` and GRUB's reader agree with us on romfs images.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use verimount_romfs::Romfs;
use verimount_testkit::{
    plain_tree::{create, on_disk, one_of_everything},
    romfs_decoder::Decoder,
    tools,
};

use self::model::{build, in_image};

// As the tests of the crate have it.
#[path = "../../../../crates/romfs/tests/romfs/model.rs"]
mod model;

/// Builds an image with genromfs.
fn genromfs(program: &Path, root: &Path, options: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let status = Command::new(program)
        .args(["-V", "oracle", "-d"])
        .arg(root)
        .arg("-f")
        .arg(&image)
        .args(options)
        .status()
        .unwrap();
    assert!(status.success());
    fs::read(image).unwrap()
}

/// Three trees: one node of every kind, many files in a directory, and nested directories.
fn trees() -> [tempfile::TempDir; 3] {
    let [everything, wide, deep] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    create(everything.path(), one_of_everything().iter());
    for number in 0..500 {
        let name = format!("file {number}");
        let file = wide.path().join(&name);
        fs::write(&file, vec![number as u8; number * 5]).unwrap();
        match number % 50 {
            0 => fs::hard_link(file, wide.path().join(format!("link {number}"))).unwrap(),
            1 => symlink(name, wide.path().join(format!("symlink {number}"))).unwrap(),
            _ => {}
        }
    }
    let mut path = deep.path().to_owned();
    for level in 0..60 {
        fs::write(path.join("file"), level.to_string()).unwrap();
        fs::hard_link(path.join("file"), path.join("z link")).unwrap();
        path.push(format!("level {level}"));
        fs::create_dir(&path).unwrap();
    }
    [everything, wide, deep]
}

#[test]
fn images_of_genromfs_are_read() {
    let Some(program) = tools::find("genromfs") else {
        return;
    };
    for tree in trees() {
        for options in [&[][..], &["-a", "4096"], &["-A", "2048,/file*"]] {
            let image = genromfs(&program, tree.path(), options);
            let romfs = Romfs::open(image).unwrap();
            assert_eq!(romfs.volume_name(), b"oracle");
            assert!(
                in_image(&romfs).unwrap() == on_disk(tree.path()),
                "{options:?}"
            );
        }
    }
}

/// Shows that the decoder follows the format and not just our writer.
#[test]
fn the_plain_decoder_reads_images_of_genromfs() {
    let Some(program) = tools::find("genromfs") else {
        return;
    };
    for tree in trees() {
        let image = genromfs(&program, tree.path(), &[]);
        assert!(Decoder::new(&image).tree() == on_disk(tree.path()));
    }
}

#[test]
fn our_images_are_of_the_size_that_genromfs_makes() {
    let Some(program) = tools::find("genromfs") else {
        return;
    };
    for tree in trees() {
        // No file reaches the block size, so none is aligned. The volume names take the same space.
        let theirs = Romfs::open(genromfs(&program, tree.path(), &[])).unwrap();
        let ours = Romfs::open(build(tree.path(), 1 << 20)).unwrap();
        assert_eq!(ours.size(), theirs.size());
    }
}

#[test]
fn grub_reads_our_images() {
    let Some(program) = tools::find("grub-fstest") else {
        return;
    };
    for tree in trees() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        fs::write(&image, build(tree.path(), 4096)).unwrap();
        // Compares everything in the directory with the image, path by path.
        let compare = |directory: &Path| {
            let mut compare = Command::new(&program);
            compare.arg(&image).args(["cmp", "(loop0)/"]).arg(directory);
            compare.output().unwrap().status.success()
        };
        assert!(compare(tree.path()));
        fs::write(tree.path().join("surplus"), "not in the image").unwrap();
        assert!(!compare(tree.path()));
    }
}
