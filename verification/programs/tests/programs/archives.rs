//! A tree in an archive of GNU tar is the tree that it was made of.

use std::{
    fs::{self, File},
    io::{Seek, Write},
    os::unix::fs::{FileExt, PermissionsExt, symlink},
    path::Path,
    process::Command,
};

use rustix::{
    fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat, setxattr},
    io::Errno,
    process::geteuid,
};
use verimount_scan::{Options, SourceTree, scan, scan_archive};
use verimount_testkit::{go_on, noise, set_time, skip, tools};

use self::described::described;

// As the tests of the crate have it.
#[path = "../../../../crates/scan/tests/archive/described.rs"]
mod described;

/// A directory as it is.
fn directory(root: &Path) -> SourceTree {
    scan(root, &Options::default(), &mut go_on).unwrap()
}

#[track_caller]
fn assert_same(tree: &SourceTree, expected: &SourceTree) {
    let (tree, expected) = (described(tree), described(expected));
    for (one, other) in tree.iter().zip(&expected) {
        assert!(one == other, "{one:#?}\n{other:#?}");
    }
    assert_eq!(tree.len(), expected.len());
}

/// What is read of an archive.
fn scanned(archive: &[u8]) -> SourceTree {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(archive).unwrap();
    file.rewind().unwrap();
    scan_archive(file, Path::new("layer.tar"), &Options::default()).unwrap()
}

/// A tree with everything that an archive can hold. All times are whole seconds.
fn tree(root: &Path) {
    let deep = format!("{}/{}", "d".repeat(200), "e".repeat(250));
    fs::create_dir_all(root.join(&deep)).unwrap();
    fs::write(root.join(&deep).join("f".repeat(255)), "deep").unwrap();
    fs::write(root.join("a file"), noise(100_000, 1)).unwrap();
    fs::write(root.join("empty"), "").unwrap();
    fs::hard_link(root.join("a file"), root.join("second name")).unwrap();
    fs::set_permissions(root.join("empty"), fs::Permissions::from_mode(0o6751)).unwrap();
    symlink("a file", root.join("link")).unwrap();
    symlink("t".repeat(300), root.join("long link")).unwrap();
    let node = |name: &str, kind, number| {
        mknodat(CWD, root.join(name), kind, Mode::RUSR, number).unwrap();
    };
    node("fifo", FileType::Fifo, 0);
    if geteuid().is_root() {
        node("block", FileType::BlockDevice, makedev(259, 0x12345));
        node("char", FileType::CharacterDevice, makedev(1, 3));
        std::os::unix::fs::lchown(root.join("link"), Some(3_000_000), Some(4_000_000)).unwrap();
    }
    let sparse = File::create(root.join("sparse")).unwrap();
    sparse.set_len(10 << 20).unwrap();
    for number in 0..40 {
        sparse
            .write_all_at(&[7; 5000], number * (200 << 10))
            .unwrap();
    }
    let nothing = File::create(root.join("nothing stored")).unwrap();
    nothing.set_len(1 << 20).unwrap();
    set_times(root, 1_500_000_000);
}

/// Sets the time of everything below a directory, and of itself.
fn set_times(root: &Path, seconds: i64) {
    let tree = directory(root);
    for entry in tree.entries() {
        set_time(&entry.path(), seconds, 0).unwrap();
    }
}

/// The archive that GNU tar makes of a directory; `None` if that is not installed.
fn archived(root: &Path, options: &[&str]) -> Option<Vec<u8>> {
    let mut tar = Command::new(tools::find("tar")?);
    tar.args(["--create", "--numeric-owner"]).args(options);
    let output = tar.arg("--directory").arg(root).arg(".").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(output.stdout)
}

#[test]
fn all_formats_of_gnu_tar_keep_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    tree(folder.path());
    // Half a second and a nanosecond before 1970.
    let exact = [(1_500_000_000, 123_456_789), (-1, 499_999_999)];
    for (path, (seconds, nanoseconds)) in ["empty", "sparse"].iter().zip(exact) {
        set_time(&folder.path().join(path), seconds, nanoseconds).unwrap();
    }
    if geteuid().is_root() {
        let set = |name: &str, value: &[u8]| {
            let path = folder.path().join("a file");
            setxattr(path, name, value, XattrFlags::empty()).unwrap();
        };
        set("user.binary", b"a\n=\0b");
        set("user.empty", b"");
        set("trusted.x", b"1");
        let capability = [
            1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        set("security.capability", &capability);
        set("system.posix_acl_access", &access_list([6, 4, 4, 4, 4]));
    }
    let expected = directory(folder.path());
    for sparse in ["0.0", "0.1", "1.0"] {
        let version = format!("--sparse-version={sparse}");
        for lists in [&["--xattrs"][..], &["--xattrs", "--acls"]] {
            let options = [&["--format=posix", "--sparse", &version][..], lists].concat();
            let Some(archive) = archived(folder.path(), &options) else {
                return;
            };
            assert_same(&scanned(&archive), &expected);
        }
    }
}

/// The value of an access control list with these permissions of the owner, the user 1234, the group, a mask and others.
fn access_list(permissions: [u16; 5]) -> Vec<u8> {
    let mut value = vec![2, 0, 0, 0];
    let entries = [(1_u16, !0), (2, 1234_u32), (4, !0), (16, !0), (32, !0)];
    for ((tag, id), permissions) in entries.into_iter().zip(permissions) {
        value.extend(tag.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

/// libarchive writes what the group may do in the place of the mask, which is in the list.
#[test]
fn archives_of_bsdtar_keep_modes_and_lists() {
    let Some(bsdtar) = tools::find("bsdtar") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for (name, mode) in [("file", 0o600), ("program", 0o6711)] {
        fs::write(folder.path().join(name), name).unwrap();
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(folder.path().join(name), permissions).unwrap();
    }
    fs::create_dir(folder.path().join("directory")).unwrap();
    for (name, attribute) in [
        ("file", "system.posix_acl_access"),
        ("program", "system.posix_acl_access"),
        ("directory", "system.posix_acl_access"),
        ("directory", "system.posix_acl_default"),
    ] {
        let list = access_list([7, 6, 0, 6, 1]);
        let path = folder.path().join(name);
        match setxattr(path, attribute, &list, XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP) => return skip("no access control lists here"),
            set => set.unwrap(),
        }
    }
    set_times(folder.path(), 1_500_000_000);
    let mut archive = Command::new(bsdtar);
    archive.args(["--create", "--format=pax", "--acls", "--xattrs"]);
    archive.args(["--numeric-owner", "--file=-", "--directory"]);
    let output = archive.arg(folder.path()).arg(".").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_same(&scanned(&output.stdout), &directory(folder.path()));
}

#[test]
fn the_older_formats_keep_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    tree(folder.path());
    let expected = directory(folder.path());
    let Some(archive) = archived(folder.path(), &["--format=gnu", "--sparse"]) else {
        return;
    };
    assert_same(&scanned(&archive), &expected);
    // They have neither long names, nor large numbers, nor holes.
    let small = tempfile::tempdir().unwrap();
    fs::create_dir_all(small.path().join("d".repeat(80)).join("sub")).unwrap();
    fs::write(
        small.path().join("d".repeat(80)).join("sub/file"),
        "content",
    )
    .unwrap();
    set_times(small.path(), 1_500_000_000);
    let expected = directory(small.path());
    for format in ["--format=ustar", "--format=v7"] {
        let archive = archived(small.path(), &[format]).unwrap();
        assert_same(&scanned(&archive), &expected);
    }
}
