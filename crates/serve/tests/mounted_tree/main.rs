//! All features of a tree are visible in a mount, independently of any format.

mod made_up;
mod mounted;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fs,
    io::{ErrorKind, Read, Seek, SeekFrom},
    mem::MaybeUninit,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt},
    },
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use rustix::{
    fs::{RawDir, getxattr, lgetxattr, listxattr, llistxattr},
    io::Errno,
    process::{getegid, geteuid},
};
use verimount_mount::STATUS_XATTR;
use verimount_serve::{ImageFs, Owners, Served, VerifiedTree};
use verimount_source::Scratch;
use verimount_testkit::{pass_again_as_nobody, tools};
use verimount_tree::{Attr, Error, FileType, NodeId, Permissions as TreePermissions, Tree, walk};

use self::{
    made_up::{Content, Made, MadeUp, end, everything, numbers},
    mounted::MountedTree,
};

/// The user and group `nobody`.
const NOBODY: u32 = 65_534;

/// All files of a tree except the root, by path.
fn all(tree: &MadeUp) -> Vec<(PathBuf, Attr)> {
    let mut all = Vec::new();
    walk(tree, NodeId::ROOT, PathBuf::new(), |path, attr| {
        all.push((path.to_owned(), *attr));
        Ok::<_, Error>(())
    })
    .unwrap();
    all
}

/// The files with content that this user may read.
fn readable(tree: &MadeUp) -> impl Iterator<Item = (PathBuf, &Made)> {
    let files = all(tree).into_iter().filter(|(path, attr)| {
        let is_listed = path.ends_with("listed");
        attr.file_type == FileType::RegularFile && may_read(attr) && !is_listed
    });
    files.map(|(path, attr)| (path, tree.get(attr.node).unwrap()))
}

fn may_read(attr: &Attr) -> bool {
    let shift = match (
        attr.uid == geteuid().as_raw(),
        attr.gid == getegid().as_raw(),
    ) {
        (true, _) => 6,
        (_, true) => 3,
        _ => 0,
    };
    geteuid().is_root() || attr.permissions.bits() >> shift & 4 != 0
}

/// The line that `find` prints for a file.
fn line(tree: &MadeUp, path: &Path, attr: &Attr) -> String {
    let letter = match attr.file_type {
        FileType::RegularFile => 'f',
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::BlockDevice => 'b',
        FileType::CharDevice => 'c',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
    };
    let mut scratch = Scratch::default();
    let target = tree.readlink(attr.node, &mut scratch).unwrap_or_default();
    format!(
        "{}|{letter}|{:o}|{}|{}|{}|{}.{:09}0|{}|{}|{}|{}",
        path.to_str().unwrap(),
        attr.permissions.bits(),
        attr.uid,
        attr.gid,
        attr.size,
        attr.mtime.seconds(),
        attr.mtime.nanoseconds(),
        attr.nlink,
        attr.blocks,
        attr.node,
        str::from_utf8(target).unwrap()
    )
}

#[test]
fn attributes() {
    let tree = everything();
    let Some(mounted) = MountedTree::new(everything()) else {
        return;
    };
    let found = Command::new("find")
        .arg(mounted.root())
        .args(["-mindepth", "1", "-printf"])
        .arg("%P|%y|%m|%U|%G|%s|%T@|%n|%b|%i|%l\n")
        .output()
        .unwrap();
    assert!(found.status.success(), "{found:?}");
    let found: BTreeSet<_> = str::from_utf8(&found.stdout).unwrap().lines().collect();
    let all = all(&tree);
    let expected: Vec<_> = all
        .iter()
        .map(|(path, attr)| line(&tree, path, attr))
        .collect();
    let expected: BTreeSet<_> = expected.iter().map(String::as_str).collect();
    assert_eq!(found.len(), all.len());
    let differ: Vec<_> = found.symmetric_difference(&expected).take(10).collect();
    assert!(differ.is_empty(), "{differ:#?}");
    for (path, attr) in &all {
        let metadata = fs::symlink_metadata(mounted.path(path)).unwrap();
        let device = rustix::fs::makedev(attr.rdev.major(), attr.rdev.minor());
        assert_eq!(metadata.rdev(), device, "{path:?}");
        let times = [
            (metadata.atime(), metadata.atime_nsec()),
            (metadata.ctime(), metadata.ctime_nsec()),
        ];
        let expected = [attr.atime, attr.ctime];
        let expected = expected.map(|time| (time.seconds(), time.nanoseconds().into()));
        assert_eq!(times, expected, "{path:?}");
    }
    let root = fs::metadata(mounted.root()).unwrap();
    assert_eq!((root.mode(), root.ino()), (0o040_755, 1));
    mounted.unmount();
}

#[test]
fn contents() {
    let tree = everything();
    let Some(mounted) = MountedTree::new(everything()) else {
        return;
    };
    let mut count = 0;
    for (path, made) in readable(&tree) {
        if let Some(bytes) = made.bytes() {
            let found = fs::read(mounted.path(&path)).unwrap();
            assert!(found == bytes, "{path:?}");
            count += 1;
        }
    }
    assert!(count > 1000, "{count}");
    mounted.unmount();
}

#[test]
fn data_and_holes() {
    let tree = everything();
    let Some(mounted) = MountedTree::new(everything()) else {
        return;
    };
    for name in ["large", "sparse", "hole", "far"] {
        let path = Path::new("contents").join(name);
        let (_, made) = readable(&tree).find(|(found, _)| *found == path).unwrap();
        let Content::Pieces(pieces) = &made.content else {
            panic!("{name}");
        };
        let file = mounted.open(&path).unwrap();
        let size = made.attr.size;
        let edges = pieces.iter().flat_map(|piece| [piece.0, end(piece)]);
        let offsets = edges
            .chain([0, size])
            .flat_map(|edge| [edge.saturating_sub(1), edge, edge + 1]);
        for offset in offsets {
            let (data, hole) = data_and_hole(pieces, size, offset);
            let seek = |to| match rustix::fs::seek(&file, to) {
                Ok(found) => Some(found),
                Err(Errno::NXIO) => None,
                Err(error) => panic!("{name} at {offset}: {error}"),
            };
            assert_eq!(
                seek(rustix::fs::SeekFrom::Data(offset)),
                data,
                "{name} at {offset}"
            );
            assert_eq!(
                seek(rustix::fs::SeekFrom::Hole(offset)),
                hole,
                "{name} at {offset}"
            );
        }
    }
    let mut tail = [0; 20_000];
    let far = mounted.open("contents/far").unwrap();
    let len = far.read_at(&mut tail, (1 << 40) - 5).unwrap();
    let (_, made) = readable(&tree)
        .find(|(path, _)| path.ends_with("far"))
        .unwrap();
    let Content::Pieces(pieces) = &made.content else {
        panic!("it has pieces");
    };
    assert!(tail[..5] == [0; 5] && tail[5..len] == pieces[0].1);
    drop(far);
    mounted.unmount();
}

/// The offsets of the next data and of the next hole from `offset` on.
fn data_and_hole(pieces: &[(u64, Vec<u8>)], size: u64, offset: u64) -> (Option<u64>, Option<u64>) {
    if offset >= size {
        return (None, None);
    }
    let piece = pieces.iter().find(|piece| offset < end(piece));
    match piece {
        Some(piece) if piece.0 <= offset => (Some(offset), Some(end(piece))),
        Some(piece) => (Some(piece.0), Some(offset)),
        None => (None, Some(offset)),
    }
}

/// Names and values of the extended attributes of a file, as `getfattr -d -m -` gets them.
fn xattrs(path: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let mut list = vec![0; 64 << 10];
    let len = llistxattr(path, &mut list[..]).unwrap();
    let names = list[..len].split(|byte| *byte == 0);
    let names = names.filter(|name| !name.is_empty()).map(OsStr::from_bytes);
    names
        .map(|name| {
            let mut value = vec![0; 64 << 10];
            let len = lgetxattr(path, name, &mut value[..]).unwrap();
            value.truncate(len);
            (name.to_owned(), value)
        })
        .collect()
}

#[test]
fn extended_attributes() {
    let tree = everything();
    let Some(mounted) = MountedTree::new(everything()) else {
        return;
    };
    let mut count = 0;
    for (path, made) in readable(&tree) {
        let mut expected = made.xattrs.clone();
        if !geteuid().is_root() {
            expected.retain(|name, _| !name.as_bytes().starts_with(b"trusted."));
        }
        count += expected.len();
        assert!(xattrs(&mounted.path(&path)) == expected, "{path:?}");
    }
    assert!(count > 100, "{count}");
    let file = mounted.path("xattrs/many");
    let none = getxattr(&file, "user.missing", &mut [0; 10][..]);
    assert_eq!(none, Err(Errno::NODATA));
    // The mount's status is there, but not listed: copies would get it.
    assert!(getxattr(mounted.root(), STATUS_XATTR, &mut [0; 4096][..]).is_ok());
    assert_eq!(listxattr(mounted.root(), &mut [0; 100][..]), Ok(0));
    mounted.unmount();
}

/// The access control list denies what the permissions alone would allow.
#[test]
fn access_control_lists() {
    let Some(mounted) = MountedTree::new(everything()) else {
        return;
    };
    let listed = mounted.path("xattrs/listed");
    if !geteuid().is_root() {
        let refused = fs::File::open(&listed).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        return mounted.unmount();
    }
    assert_eq!(fs::read(&listed).unwrap(), b"listed");
    let expected = everything();
    let (_, attr) = all(&expected)
        .into_iter()
        .find(|(path, _)| path.ends_with("listed"))
        .unwrap();
    assert!(xattrs(&listed) == expected.get(attr.node).unwrap().xattrs);
    for (user, group, may) in [
        (NOBODY, NOBODY, false),
        (4711, 4711, true),
        (4711, NOBODY, true),
    ] {
        let status = as_user(user, group, "cat".as_ref())
            .arg(&listed)
            .output()
            .unwrap();
        assert_eq!(status.status.success(), may, "{user}: {status:?}");
    }
    mounted.unmount();
}

/// Owners can be replaced where a tree has its own, but not permissions.
#[test]
fn permissions_stay() {
    let tree = Arc::new(VerifiedTree::new(
        Box::new(everything()),
        None,
        Arc::default(),
    ));
    let owner = Owners {
        uid: Some(NOBODY),
        ..Owners::default()
    };
    let mask = Owners {
        umask: Some(TreePermissions::new(0)),
        ..Owners::default()
    };
    for (owners, may) in [(Owners::default(), true), (owner, true), (mask, false)] {
        let fs = ImageFs::new(tree.clone(), Served::default());
        assert_eq!(fs.with_owners(owners).is_ok(), may);
    }
}

/// The user who mounts a tree need not be the owner of its files.
#[test]
fn permissions_hold() {
    let tree = everything();
    let Some(mounted) = MountedTree::new(everything()) else {
        return;
    };
    for (path, attr) in all(&tree) {
        if attr.file_type == FileType::RegularFile && !path.ends_with("listed") {
            let may = mounted.open(&path).is_ok();
            assert_eq!(may, may_read(&attr), "{path:?}");
        }
    }
    for device in ["null", "far", "disk"] {
        let refused = mounted.open(Path::new("types").join(device)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    }
    mounted.unmount();
}

#[test]
fn a_million_names() {
    const COUNT: u64 = 1_000_000;
    let Some(mounted) = MountedTree::new(numbers(COUNT)) else {
        return;
    };
    let directory = mounted.open("numbers").unwrap();
    let mut buf = vec![MaybeUninit::uninit(); 64 << 10];
    let mut entries = RawDir::new(&directory, &mut buf);
    let (mut next, mut places) = (0_u64, Vec::new());
    while let Some(entry) = entries.next() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_str().unwrap();
        if matches!(name, "." | "..") {
            continue;
        }
        assert_eq!(name, next.to_string());
        next += 1;
        if next % 123_457 == 0 || next == COUNT {
            places.push((next, entry.next_entry_cookie()));
        }
    }
    assert_eq!(next, COUNT);
    // Listings continue at any position, in any order.
    for (next, place) in places.into_iter().rev() {
        let mut directory = mounted.open("numbers").unwrap();
        directory.seek(SeekFrom::Start(place)).unwrap();
        let mut entries = RawDir::new(&directory, &mut buf);
        let following = entries.next().map(|entry| {
            let entry = entry.unwrap();
            entry.file_name().to_str().unwrap().to_owned()
        });
        let expected = (next < COUNT).then(|| next.to_string());
        assert_eq!(following, expected);
    }
    for name in ["0", "999999", "500000"] {
        let mut file = mounted.open(Path::new("numbers").join(name)).unwrap();
        assert_eq!(file.read(&mut [0]).unwrap(), 0);
    }
    for name in ["1000000", "007", "-1", "x"] {
        let missing = fs::metadata(mounted.path("numbers").join(name)).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }
    drop(directory);
    mounted.unmount();
}

/// All tests again, mounted by an ordinary user.
#[test]
fn as_nobody() {
    pass_again_as_nobody(&["--skip", "as_nobody"]);
}

fn as_user(user: u32, group: u32, program: &OsStr) -> Command {
    let setpriv = tools::find("setpriv").expect("util-linux is part of every system");
    let mut command = Command::new(setpriv);
    command.args(["--reuid", &user.to_string(), "--regid", &group.to_string()]);
    command.args(["--clear-groups", "--"]).arg(program);
    command
}
