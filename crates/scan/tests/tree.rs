//! What a scan finds in a tree, and what options make of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    ops::ControlFlow,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat, setxattr},
    io::Errno,
    process::geteuid,
};
use tempfile::TempDir;
use verimount_scan::{
    AddedFile, AttributeChoice, BadLink, Contents, Entry, EntryId, Error, Inode, InodeKind, Links,
    Options, Owner, Patterns, SourceTree, Times, XattrSetId, scan,
};
use verimount_testkit::{go_on, skip};
use verimount_tree::Timestamp;

fn scanned(root: &Path) -> SourceTree {
    scanned_with(root, &Options::default())
}

fn scanned_with(root: &Path, options: &Options) -> SourceTree {
    scan(root, options, &mut go_on).unwrap()
}

fn paths(tree: &SourceTree) -> Vec<String> {
    let paths = tree.entries().map(Entry::path_inside);
    paths
        .map(|path| path.to_str().unwrap().to_owned())
        .collect()
}

/// The inode with this path below the root.
fn inode<'t>(tree: &'t SourceTree, path: &str) -> &'t Inode {
    let mut entries = tree.entries();
    let entry = entries.find(|entry| entry.path_inside() == Path::new(path));
    entry.unwrap().inode()
}

/// Sets an attribute, if the file system supports it.
fn set_attribute(path: &Path, name: &str, value: &[u8]) -> bool {
    match setxattr(path, name, value, XattrFlags::empty()) {
        Ok(()) => true,
        Err(Errno::OPNOTSUPP | Errno::PERM) => {
            skip(format_args!("{name} cannot be set here"));
            false
        }
        Err(errno) => panic!("{name}: {errno}"),
    }
}

/// Names whose order differs from that of paths as strings, and directories with and without entries.
fn nested() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for directory in ["a/empty", "a/b/c", "b", "z"] {
        fs::create_dir_all(folder.path().join(directory)).unwrap();
    }
    for file in ["a.txt", "a/b/c/deep", "a/last", "b/file", "zz"] {
        fs::write(folder.path().join(file), file).unwrap();
    }
    folder
}

#[test]
fn a_scan_can_be_interrupted() {
    let folder = nested();
    let names = scanned(folder.path()).entry_count() - 1;
    for limit in 0..=names {
        let mut count = 0;
        let scanned = scan(folder.path(), &Options::default(), &mut |names| {
            count += names;
            if count > limit as u64 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        match scanned {
            Ok(_) => assert_eq!(limit, names),
            Err(Error::Cancelled) => assert_eq!(count, limit as u64 + 1),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn entries_come_in_walk_order() {
    let folder = nested();
    let tree = scanned(folder.path());
    let expected = [
        "",
        "a",
        "a/b",
        "a/b/c",
        "a/b/c/deep",
        "a/empty",
        "a/last",
        "a.txt",
        "b",
        "b/file",
        "z",
        "zz",
    ];
    assert_eq!(paths(&tree), expected);
    for entry in tree.entries() {
        let expected: Vec<_> = tree
            .entries()
            .skip(1)
            .filter(|other| other.parent().id() == entry.id())
            .map(Entry::name)
            .collect();
        let children: Vec<_> = entry.children().map(Entry::name).collect();
        assert_eq!(children, expected, "{entry:?}");
        assert!(children.is_sorted());
        for other in tree.entries() {
            let is_below = other.path_inside().starts_with(entry.path_inside());
            assert_eq!(entry.contains(other.id()), is_below, "{entry:?} {other:?}");
        }
    }
    assert_eq!(tree.root().path(), folder.path());
    assert_eq!(tree.entry(EntryId::ROOT).name(), b"");
    let directories = tree.entries().filter(|entry| entry.is_directory());
    assert_eq!((directories.count(), tree.inodes().len()), (7, 7 + 5));
}

#[test]
fn all_attributes_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, [1; 5000]).unwrap();
    if geteuid().is_root() {
        chown(&path, Some(70_000), Some(80_000)).unwrap();
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6751)).unwrap();
    // Half a second before 1969-12-31 23:59:59.
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_millis(1500);
    File::open(&path)
        .unwrap()
        .set_modified(before_1970)
        .unwrap();
    symlink("some/where", folder.path().join("link")).unwrap();
    mknodat(
        CWD,
        folder.path().join("pipe"),
        FileType::Fifo,
        Mode::RUSR,
        0,
    )
    .unwrap();
    mknodat(
        CWD,
        folder.path().join("socket"),
        FileType::Socket,
        Mode::RUSR,
        0,
    )
    .unwrap();

    let tree = scanned(folder.path());
    let file = inode(&tree, "file");
    assert_eq!(file.permissions.bits(), 0o6751);
    assert_eq!(file.mtime, Timestamp::new(-2, 500_000_000).unwrap());
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(
        (file.owner.uid, file.owner.gid),
        (metadata.uid(), metadata.gid())
    );
    assert!(matches!(&file.kind, InodeKind::File(data) if data.size() == 5000));
    let link = inode(&tree, "link");
    assert!(matches!(&link.kind, InodeKind::Symlink(target) if **target == *b"some/where"));
    assert!(matches!(inode(&tree, "pipe").kind, InodeKind::Fifo));
    assert!(matches!(inode(&tree, "socket").kind, InodeKind::Socket));
}

#[test]
fn devices_have_their_numbers() {
    if !geteuid().is_root() {
        skip("only root can make devices");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, kind, major, minor| {
        let path = folder.path().join(name);
        mknodat(CWD, path, kind, Mode::RUSR, makedev(major, minor)).unwrap();
    };
    make("block", FileType::BlockDevice, 259, 0x12345);
    make("char", FileType::CharacterDevice, 1, 3);
    let tree = scanned(folder.path());
    let InodeKind::BlockDevice(block) = inode(&tree, "block").kind else {
        panic!("no block device");
    };
    assert_eq!((block.major(), block.minor()), (259, 0x12345));
    let InodeKind::CharDevice(char) = inode(&tree, "char").kind else {
        panic!("no character device");
    };
    assert_eq!((char.major(), char.minor()), (1, 3));
}

#[test]
fn names_of_one_file_share_an_inode() {
    let folder = nested();
    let root = folder.path();
    for name in ["a/b/second", "z/third"] {
        fs::hard_link(root.join("a.txt"), root.join(name)).unwrap();
    }
    symlink("zz", root.join("link")).unwrap();
    fs::hard_link(root.join("link"), root.join("z/link")).unwrap();
    let tree = scanned(root);
    let mut names: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for entry in tree.entries() {
        names.entry(entry.inode_id()).or_default().push(entry);
    }
    let groups: Vec<Vec<PathBuf>> = names
        .values()
        .filter(|names| names.len() > 1)
        .map(|names| names.iter().map(|name| name.path_inside()).collect())
        .collect();
    let expected = [
        ["a/b/second", "a.txt", "z/third"]
            .map(PathBuf::from)
            .to_vec(),
        ["link", "z/link"].map(PathBuf::from).to_vec(),
    ];
    assert_eq!(groups, expected);
    for (id, names) in names {
        assert_eq!(tree.inode(id).names as usize, names.len());
        let firsts = names.iter().filter(|name| name.is_first_name());
        assert_eq!(
            firsts.map(|name| name.id()).collect::<Vec<_>>(),
            [names[0].id()]
        );
    }
    assert_eq!(tree.entry_count() - tree.inodes().len(), 3);
}

#[test]
fn holes_are_found() {
    const BLOCK: u64 = 1 << 16;
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, len, data: &[u64]| {
        let file = File::create(folder.path().join(name)).unwrap();
        file.set_len(len).unwrap();
        for start in data {
            file.write_all_at(&[1; BLOCK as usize], *start).unwrap();
        }
    };
    make("middle", 5 * BLOCK + 1, &[BLOCK, 3 * BLOCK]);
    make("nothing", 3 * BLOCK, &[]);
    make("start", 2 * BLOCK + 5, &[0]);
    make("full", BLOCK, &[0]);
    make("empty", 0, &[]);
    let tree = scanned(folder.path());
    let stored = |name| match &inode(&tree, name).kind {
        InodeKind::File(data) => data.stored.as_deref(),
        other => panic!("{other:?}"),
    };
    if stored("nothing").is_none() {
        skip("the file system does not tell of holes");
        return;
    }
    assert_eq!(
        stored("middle").unwrap(),
        [BLOCK..2 * BLOCK, 3 * BLOCK..4 * BLOCK]
    );
    assert_eq!(stored("nothing").unwrap(), []);
    assert_eq!(stored("start").unwrap().first(), Some(&(0..BLOCK)));
    assert_eq!(stored("full"), None);
    assert_eq!(stored("empty"), None);
}

#[test]
fn extended_attributes_are_chosen_by_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let [file, same, plain] = ["file", "same", "plain"].map(|name| folder.path().join(name));
    for path in [&file, &same, &plain] {
        fs::write(path, "content").unwrap();
    }
    for path in [&file, &same] {
        if !set_attribute(path, "user.b", b"2") || !set_attribute(path, "user.a", b"") {
            return;
        }
    }
    let trusted = set_attribute(&file, "trusted.c", b"3");
    let attributes = |choice, path: &str| {
        let options = Options {
            attributes: choice,
            ..Options::default()
        };
        let tree = scanned_with(folder.path(), &options);
        let set = tree.xattrs().set(inode(&tree, path).attributes);
        let name = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
        set.map(|(_, xattr)| (name(&xattr.name), name(&xattr.value)))
            .collect::<Vec<_>>()
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let user = [pair("user.a", ""), pair("user.b", "2")];
    assert_eq!(attributes(AttributeChoice::User, "file"), user);
    assert_eq!(attributes(AttributeChoice::None, "file"), []);
    assert_eq!(attributes(AttributeChoice::All, "same"), user);
    if trusted {
        let all = attributes(AttributeChoice::All, "file");
        assert_eq!(all[0], pair("trusted.c", "3"));
        assert_eq!(all[1..], user);
    }
    let tree = scanned(folder.path());
    assert_eq!(inode(&tree, "plain").attributes, XattrSetId::EMPTY);
}

/// Owner rw-, user 1234 rw-, group r--, mask rw-, others ---: the group's permissions are the mask, as the kernel shows them, but
/// its members may only read.
#[test]
fn a_list_that_is_left_out_leaves_nobody_more_rights() {
    let list = [
        (1_u16, 6_u16, u32::MAX),
        (2, 6, 1234),
        (4, 4, u32::MAX),
        (16, 6, u32::MAX),
        (32, 0, u32::MAX),
    ];
    let mut value = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in list {
        value.extend(tag.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    let folder = nested();
    if !set_attribute(&folder.path().join("zz"), "system.posix_acl_access", &value) {
        return;
    }
    for (attributes, permissions) in [
        (AttributeChoice::All, 0o660),
        (AttributeChoice::User, 0o640),
        (AttributeChoice::None, 0o640),
    ] {
        let options = Options {
            attributes,
            ..Options::default()
        };
        let tree = scanned_with(folder.path(), &options);
        let found = inode(&tree, "zz").permissions;
        assert_eq!(found.bits(), permissions, "{attributes:?}");
    }
}

#[test]
fn options_change_times_and_owners() {
    let folder = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
    for (path, seconds) in [(&old, 1000), (&new, 3000)] {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::create(path).unwrap().set_modified(time).unwrap();
    }
    let times = |times| {
        let owner = Some(Owner { uid: 7, gid: 8 });
        let options = Options {
            times,
            owner,
            ..Options::default()
        };
        let tree = scanned_with(folder.path(), &options);
        assert!(
            tree.inodes()
                .iter()
                .all(|inode| (inode.owner.uid, inode.owner.gid) == (7, 8))
        );
        ["old", "new"].map(|name| inode(&tree, name).mtime.seconds())
    };
    let time = Timestamp::new(2000, 0).unwrap();
    assert_eq!(times(Times::Kept), [1000, 3000]);
    assert_eq!(times(Times::All(time)), [2000, 2000]);
    assert_eq!(times(Times::AtMost(time)), [1000, 2000]);
}

#[test]
fn what_is_excluded_is_left_out_with_all_in_it() {
    let folder = nested();
    let exclude = |patterns: &[&str]| {
        let options = Options {
            exclude: Patterns::new(patterns).unwrap(),
            ..Options::default()
        };
        paths(&scanned_with(folder.path(), &options))
    };
    let expected = ["", "a", "a/empty", "a/last", "a.txt", "b", "z", "zz"];
    assert_eq!(exclude(&["a/b", "b/*"]), expected);
    assert_eq!(exclude(&["*"]), [""]);
    assert_eq!(exclude(&["**/c", "z*"]).len(), 8);
}

#[test]
fn contents_are_read_in_any_order() {
    let folder = nested();
    let tree = scanned(folder.path());
    let files = || {
        let entries = tree.entries();
        entries.filter(|entry| matches!(entry.inode().kind, InodeKind::File(_)))
    };
    let mut contents = Contents::new(&tree).unwrap();
    for entry in files().chain(files().rev()) {
        let path = entry.path_inside();
        let expected = path.to_str().unwrap().as_bytes();
        let mut bytes = vec![0; expected.len()];
        let content = contents.open(entry.id()).unwrap();
        content.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, expected);
        let too_far = content.read_exact_at(&mut bytes, 1);
        assert!(matches!(too_far, Err(Error::Changed { .. })), "{too_far:?}");
        content.finish().unwrap();
    }
}

/// The time of the last change of anything tells, though size and modification time stay.
#[test]
fn a_file_that_is_rewritten_has_changed() {
    let folder = nested();
    let tree = scanned(folder.path());
    let path = folder.path().join("b/file");
    let entry = tree.entries().find(|entry| entry.path() == path).unwrap();
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let mut contents = Contents::new(&tree).unwrap();
    let content = contents.open(entry.id()).unwrap();
    let changed = fs::metadata(&path).unwrap().ctime_nsec();
    // Until the clock has gone on.
    while fs::metadata(&path).unwrap().ctime_nsec() == changed {
        fs::write(&path, "other.").unwrap();
        File::open(&path).unwrap().set_modified(modified).unwrap();
    }
    for result in [content.finish(), contents.open(entry.id()).map(drop)] {
        match result {
            Err(Error::Changed { path: culprit }) => assert_eq!(culprit, path),
            other => panic!("{other:?}"),
        }
    }
}

fn following() -> Options {
    Options {
        links: Links::Followed,
        ..Options::default()
    }
}

#[test]
fn followed_links_are_what_they_lead_to() {
    let (folder, outside) = (nested(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("blob"), "blob").unwrap();
    fs::create_dir(outside.path().join("directory")).unwrap();
    fs::write(outside.path().join("directory/in"), "in").unwrap();
    let blob = outside.path().join("blob");
    let directory = outside.path().join("directory");
    symlink(&blob, folder.path().join("a/to-blob")).unwrap();
    symlink("to-blob", folder.path().join("a/to-link")).unwrap();
    symlink(&directory, folder.path().join("a/to-directory")).unwrap();
    symlink("../b", folder.path().join("z/to-b")).unwrap();
    let tree = scanned_with(folder.path(), &following());
    let entry = |path: &str| {
        let found = tree
            .entries()
            .find(|entry| entry.path_inside() == Path::new(path));
        found.unwrap_or_else(|| panic!("{path}: {:?}", paths(&tree)))
    };
    let targets = [
        ("a/to-blob", blob.as_os_str().as_bytes()),
        ("a/to-link", b"to-blob"),
        ("a/to-directory", directory.as_os_str().as_bytes()),
        ("z/to-b", b"../b"),
    ];
    for (path, target) in targets {
        assert_eq!(entry(path).followed(), Some(target), "{path}");
    }
    assert_eq!(entry("a.txt").followed(), None);
    // Both links lead to the same file.
    assert_eq!(entry("a/to-blob").inode_id(), entry("a/to-link").inode_id());
    let mut contents = Contents::new(&tree).unwrap();
    // In turns, so that the directories behind links are entered and left.
    for (path, expected) in [
        ("a/to-directory/in", "in"),
        ("a/to-blob", "blob"),
        ("z/to-b/file", "b/file"),
        ("a.txt", "a.txt"),
        ("a/to-directory/in", "in"),
        ("z/to-b/file", "b/file"),
    ] {
        let content = contents.open(entry(path).id()).unwrap();
        let mut bytes = vec![0; expected.len()];
        content.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, expected.as_bytes(), "{path}");
        content.finish().unwrap();
    }
    // It leads to another file now.
    let [content, other] = ["a/to-blob", "a/to-link"].map(|name| folder.path().join(name));
    fs::remove_file(&content).unwrap();
    fs::remove_file(other).unwrap();
    symlink("../b/file", content).unwrap();
    let opened = contents.open(entry("a/to-blob").id());
    assert!(matches!(opened, Err(Error::Changed { .. })), "{opened:?}");
}

#[test]
fn links_to_nothing_and_in_circles_are_named() {
    for (target, expected) in [
        ("nowhere", BadLink::Dangling),
        ("a.txt/x", BadLink::Dangling),
        ("link", BadLink::Circle),
        (".", BadLink::Circle),
        ("..", BadLink::Circle),
    ] {
        let folder = nested();
        let link = folder.path().join("z/link");
        symlink(target.replace("a.txt", "../a.txt"), &link).unwrap();
        match scan(folder.path(), &following(), &mut go_on) {
            Err(Error::Link { path, reason }) => {
                assert!(path.starts_with(folder.path()), "{path:?}");
                assert_eq!(reason, expected, "{target}");
            }
            other => panic!("{target}: {other:?}"),
        }
    }
}

#[test]
fn plain_files_have_neither_permissions_nor_hard_links() {
    let folder = nested();
    fs::hard_link(folder.path().join("a.txt"), folder.path().join("b/link")).unwrap();
    let permissions = fs::Permissions::from_mode(0o4751);
    fs::set_permissions(folder.path().join("a.txt"), permissions).unwrap();
    let options = Options {
        plain: true,
        ..Options::default()
    };
    let tree = scanned_with(folder.path(), &options);
    for entry in tree.entries() {
        assert!(entry.is_first_name());
        let expected = if entry.is_directory() { 0o755 } else { 0o644 };
        assert_eq!(entry.inode().permissions.bits(), expected, "{entry:?}");
    }
}

#[test]
fn a_file_is_added_and_ignored_paths_are_listed() {
    let folder = nested();
    let added = |name: &str| AddedFile {
        name: name.to_owned(),
        content: b"added"[..].into(),
    };
    let options = Options {
        ignored: ["a/b", "missing", "a.txt"].map(PathBuf::from).into(),
        added: Some(added("a.txt")),
        ..Options::default()
    };
    let tree = scanned_with(folder.path(), &options);
    let expected = ["a.txt", "a/b"].map(PathBuf::from);
    assert_eq!(
        BTreeSet::from_iter(tree.left_out()),
        BTreeSet::from_iter(&expected)
    );
    let expected = [
        "", "a", "a/empty", "a/last", "a.txt", "b", "b/file", "z", "zz",
    ];
    assert_eq!(paths(&tree), expected);
    let entry = tree.entries().find(|entry| entry.is_added()).unwrap();
    assert_eq!(entry.path_inside(), Path::new("a.txt"));
    let mut bytes = [0; 5];
    let content = Contents::new(&tree).unwrap().open(entry.id()).unwrap();
    content.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"added");
    assert!(content.read_exact_at(&mut bytes, 1).is_err());
    content.finish().unwrap();

    let options = Options {
        added: Some(added("zz")),
        ..Options::default()
    };
    match scan(folder.path(), &options, &mut go_on) {
        Err(Error::Taken { path }) => assert_eq!(path, folder.path().join("zz")),
        other => panic!("{other:?}"),
    }
}
