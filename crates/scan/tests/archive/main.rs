//! A tree in a tar archive is the tree that it is unpacked as.

mod described;

use std::{
    fs::File,
    io::{Seek, Write},
    path::Path,
};

use verimount_scan::{
    ArchiveError, AttributeChoice, Compression, Contents, Error, Limit, Loss, Misfit, Options,
    OutwardLinks, Patterns, SourceTree, Whiteouts, scan_archive, scan_layers,
};
use verimount_testkit::TarArchive;

use self::described::described;

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

fn scanned_with(archive: &[u8], options: &Options) -> Result<SourceTree, Error> {
    scan_archive(file(archive), Path::new("layer.tar"), options)
}

fn scanned(archive: TarArchive) -> Result<SourceTree, Error> {
    scanned_with(&archive.finish(), &Options::default())
}

/// Paths with what is there.
fn listed(tree: &SourceTree) -> Vec<(String, String)> {
    let described = described(tree).into_iter();
    let shown = described.map(|entry| {
        let attributes = entry.attributes.iter();
        let names = attributes.map(|(name, value)| format!(" {name}={}", value.escape_ascii()));
        let content = entry.content.escape_ascii();
        let shown = format!("{} {content}{}", entry.kind, names.collect::<String>());
        (entry.path, shown.trim_end().to_owned())
    });
    shown.skip(1).collect()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    let pair = |(path, shown): &(&str, &str)| (String::from(*path), String::from(*shown));
    list.iter().map(pair).collect()
}

/// The second one is in the place of the first, and other names of that keep it.
#[test]
fn what_comes_later_replaces_what_came_before() {
    let archive = TarArchive::default()
        .member(b'0', b"file", b"", b"old")
        .member(b'1', b"link", b"file", b"")
        .member(b'0', b"file", b"", b"new")
        .member(b'1', b"file", b"./file", b"")
        .member(b'5', b"dir", b"", b"")
        .member(b'0', b"dir/inside", b"", b"1")
        .member_with(b'5', b"dir/", b"", b"", |header| header[106] = b'0')
        .member(b'5', b"empty", b"", b"")
        .member(b'0', b"empty", b"", b"2")
        .member(b'2', b"becomes", b"target", b"")
        .member(b'5', b"becomes", b"", b"");
    let tree = scanned(archive).unwrap();
    let expected = [
        ("becomes", "directory"),
        ("dir", "directory"),
        ("dir/inside", "file 1"),
        ("empty", "file 2"),
        ("file", "file new"),
        ("link", "file old"),
    ];
    assert_eq!(listed(&tree), pairs(&expected));
    assert!(tree.inodes().iter().all(|inode| inode.names == 1));
    let dir = tree.entries().find(|entry| entry.name() == b"dir").unwrap();
    assert_eq!(dir.inode().permissions.bits(), 0o640);
    let directories = tree.entries().filter(|entry| entry.is_directory());
    assert_eq!((directories.count(), tree.inodes().len()), (3, 4 + 3));
}

#[test]
fn paths_are_below_the_root() {
    let archive = TarArchive::default()
        .file("/absolute")
        .file("./b//./file")
        .member_with(b'5', b"./", b"", b"", |header| header[104] = b'7')
        .member(b'1', b"c", b"/absolute", b"");
    let tree = scanned(archive).unwrap();
    let expected = [
        ("absolute", "file"),
        ("b", "directory"),
        ("b/file", "file"),
        ("c", "file"),
    ];
    assert_eq!(listed(&tree), pairs(&expected));
    let owner = |path: &str| {
        let mut entries = tree.entries();
        let entry = entries
            .find(|entry| entry.path_inside() == Path::new(path))
            .unwrap();
        let inode = entry.inode();
        (
            inode.permissions.bits(),
            inode.owner.uid,
            inode.mtime.seconds(),
        )
    };
    assert_eq!(owner(""), (0o744, 1, 3));
    // Only occurs in the path of another one.
    assert_eq!(owner("b"), (0o755, 0, 0));
    let empty = scanned(TarArchive::default()).unwrap();
    assert_eq!(empty.entry_count(), 1);
    assert_eq!(empty.root().inode().permissions.bits(), 0o755);
}

#[test]
fn members_without_a_place_are_refused() {
    let archive = TarArchive::default;
    let name = |len| "n".repeat(len);
    let target = |path: &str| Misfit::Target(path.into());
    for (archive, expected) in [
        (archive().file("../a"), Misfit::Outside),
        (archive().file("a/../../b"), Misfit::Outside),
        (archive().file("a/b/.."), Misfit::Outside),
        (archive().member(b'1', b"a", b"../b", b""), Misfit::Outside),
        (
            archive()
                .records(&[("path", name(256).as_bytes())])
                .file("a"),
            Misfit::NameLength,
        ),
        (
            archive().file("a").file("a/b"),
            Misfit::NoDirectory("a".into()),
        ),
        (
            archive()
                .member(b'2', b"a", b"b", b"")
                .file("b/c")
                .file("a/c"),
            Misfit::NoDirectory("a".into()),
        ),
        (archive().file("a/b").file("a"), Misfit::Directory),
        (archive().member(b'1', b"a", b"a", b""), target("a")),
        (
            archive().member(b'1', b"a", b"later", b"").file("later"),
            target("later"),
        ),
        (
            archive().file("d/f").member(b'1', b"a", b"d", b""),
            target("d"),
        ),
        (
            archive().file(".wh.gone").member(b'1', b"a", b"gone", b""),
            target("gone"),
        ),
        (archive().file("."), Misfit::Root),
    ] {
        match scanned(archive) {
            Err(Error::Member { misfit, .. }) => assert_eq!(misfit, expected),
            other => panic!("{other:?}, not {expected}"),
        }
    }
    let error = scanned(archive().file("/../a\nb")).unwrap_err().to_string();
    assert_eq!(error, r"layer.tar/../a\nb: its path contains ..");
    let deep = |names: usize, is_directory| {
        let path = "d/".repeat(names);
        let type_flag = if is_directory { b'5' } else { b'0' };
        let path = if is_directory {
            path
        } else {
            format!("{path}f")
        };
        scanned(
            archive()
                .records(&[("path", path.as_bytes())])
                .member(type_flag, b"a", b"", b""),
        )
    };
    assert!(deep(1023, true).is_ok() && deep(1023, false).is_ok());
    for result in [deep(1024, true), deep(1024, false), deep(30_000, true)] {
        let is_too_deep = matches!(
            result,
            Err(Error::TooLarge {
                limit: Limit::Depth,
                ..
            })
        );
        assert!(is_too_deep, "{result:?}");
    }
    let compressed = scanned_with(b"\x1f\x8b\x08", &Options::default());
    let is_named = matches!(
        compressed,
        Err(Error::Archive {
            source: ArchiveError::Compressed(Compression::Gzip),
            ..
        })
    );
    assert!(is_named, "{compressed:?}");
}

#[test]
fn whiteouts_become_those_of_overlayfs() {
    let archive = TarArchive::default()
        .file(".wh.deleted")
        .file("dir/.wh..wh..opq")
        .file("dir/new")
        .file(".wh..wh.aufs")
        .file(".wh..wh.plnk/5.6")
        // It was deleted, and another one made.
        .file(".wh.again")
        .file("again/file")
        .file("later/file")
        .file(".wh.later")
        .file(".wh.replaced")
        .member(b'0', b"replaced", b"", b"1")
        .file("kept")
        .file(".wh.kept")
        .records(&[("SCHILY.xattr.user.x", b"1")])
        .member(b'5', b"dir", b"", b"")
        .finish();
    let tree = scanned_with(&archive, &Options::default()).unwrap();
    let opaque = "directory  trusted.overlay.opaque=y user.overlay.opaque=y";
    let expected = [
        ("again", opaque),
        ("again/file", "file"),
        ("deleted", "CharDevice(DeviceNumber(0))"),
        (
            "dir",
            "directory  trusted.overlay.opaque=y user.overlay.opaque=y user.x=1",
        ),
        ("dir/new", "file"),
        ("kept", "file"),
        ("later", opaque),
        ("later/file", "file"),
        ("replaced", "file 1"),
    ];
    assert_eq!(listed(&tree), pairs(&expected));
    // It is no attribute of the archive.
    let options = Options {
        attributes: AttributeChoice::None,
        ..Options::default()
    };
    let none = scanned_with(&archive, &options).unwrap();
    assert!(listed(&none).contains(&("dir".to_owned(), opaque.to_owned())));
    let options = Options {
        whiteouts: Whiteouts::Keep,
        ..Options::default()
    };
    let kept = listed(&scanned_with(&archive, &options).unwrap());
    let names: Vec<_> = kept.iter().map(|(path, _)| path.as_str()).collect();
    assert!(
        names.contains(&".wh.deleted") && names.contains(&"dir/.wh..wh..opq"),
        "{names:?}"
    );
    assert!(!names.contains(&"deleted"));
}

/// The tree of layers, the lowest first, one behind the other in a file.
fn layered<const N: usize>(layers: [TarArchive; N]) -> Result<SourceTree, Error> {
    let mut bytes = b"in front".to_vec();
    let mut places = Vec::new();
    for layer in layers {
        let start = bytes.len() as u64;
        bytes.extend(layer.finish());
        places.push(start..bytes.len() as u64);
    }
    let path = Path::new("image.tar");
    scan_layers(file(&bytes), &places, path, &Options::default())
}

#[test]
fn layers_make_a_tree_together() {
    let archive = TarArchive::default;
    let lowest = archive()
        .member(b'0', b"changed", b"", b"old")
        .member(b'0', b"kept", b"", b"low")
        .member(b'1', b"linked", b"kept", b"")
        .file("gone")
        .file("gone directory/sub/file")
        .file("emptied/sub/file")
        .member(b'5', b"emptied/sub/deep", b"", b"")
        .member_with(b'5', b"merged", b"", b"", |header| header[106] = b'0')
        .file("merged/below")
        .file("directory/below")
        .member(b'2', b"link", b"merged", b"");
    let middle = archive()
        .member(b'0', b"changed", b"", b"new")
        .member(b'0', b"linked", b"", b"own")
        .member(b'1', b"second", b"linked", b"")
        .file(".wh.gone")
        .file("gone directory/same layer")
        .file(".wh.gone directory")
        // What is in the same layer stays, wherever the whiteout is.
        .file("emptied/sub/above")
        .file("emptied/.wh..wh..opq")
        .file("emptied/later")
        .file("emptied/sub/deep/later")
        .file("merged/above")
        .file("directory")
        .file("link/above");
    let highest = archive()
        .file("gone directory/sub/again")
        .member(b'5', b"directory", b"", b"")
        .file(".wh.second")
        .file(".wh..wh.plnk/1.2")
        .file(".wh.never there");
    let tree = layered([lowest, middle, highest]).unwrap();
    let expected = [
        ("changed", "file new"),
        ("directory", "directory"),
        ("emptied", "directory"),
        ("emptied/later", "file"),
        ("emptied/sub", "directory"),
        ("emptied/sub/above", "file"),
        ("emptied/sub/deep", "directory"),
        ("emptied/sub/deep/later", "file"),
        ("gone directory", "directory"),
        ("gone directory/same layer", "file"),
        ("gone directory/sub", "directory"),
        ("gone directory/sub/again", "file"),
        ("kept", "file low"),
        ("link", "directory"),
        ("link/above", "file"),
        ("linked", "file own"),
        ("merged", "directory"),
        ("merged/above", "file"),
        ("merged/below", "file"),
    ];
    assert_eq!(listed(&tree), pairs(&expected));
    assert!(tree.inodes().iter().all(|inode| inode.names == 1));
    // What only occurs in paths of a layer is what it was below, unless that has been deleted.
    let permissions = |name: &[u8]| {
        let found = tree.entries().find(|entry| entry.name() == name);
        found.unwrap().inode().permissions.bits()
    };
    assert_eq!(
        (permissions(b"merged"), permissions(b"deep")),
        (0o640, 0o755)
    );
}

/// As bsdtar writes it for a file of mode 0660 with this list: in the header is what the group may do, not the mask. The authority
/// is the kernel, which gives the file that mode when the list is set.
fn with_list(archive: TarArchive, name: &[u8]) -> TarArchive {
    let list = b"user::rw-,user:1234:rw-:1234,group::---,mask::rw-,other::---";
    let archive = archive.records(&[("SCHILY.acl.access", list)]);
    archive.member_with(b'0', name, b"", b"", |header| {
        header[100..107].copy_from_slice(b"0000600");
    })
}

#[test]
fn lists_decide_the_permissions_in_layers_too() {
    let lower = with_list(TarArchive::default(), b"below").file("above");
    let upper = with_list(TarArchive::default(), b"above");
    let tree = layered([lower, upper]).unwrap();
    for entry in tree.entries().skip(1) {
        let inode = entry.inode();
        assert_eq!(inode.permissions.bits(), 0o660, "{entry:?}");
        assert_eq!(tree.xattrs().set(inode.attributes).len(), 1, "{entry:?}");
    }
}

#[test]
fn a_list_that_is_left_out_leaves_nobody_more_rights() {
    let archive = with_list(TarArchive::default(), b"file").finish();
    for choice in [AttributeChoice::User, AttributeChoice::None] {
        let options = Options {
            attributes: choice,
            ..Options::default()
        };
        let tree = scanned_with(&archive, &options).unwrap();
        assert_eq!(tree.inodes()[1].permissions.bits(), 0o600);
    }
}

/// Each layer is unpacked by itself, and what a layer has cannot be in its own way.
#[test]
fn layers_are_archives_by_themselves() {
    let archive = TarArchive::default;
    let misfit = |layers| match layered(layers) {
        Err(Error::Member { misfit, .. }) => misfit,
        other => panic!("{other:?}"),
    };
    let link = archive().member(b'1', b"link", b"file", b"");
    let file = || archive().file("file");
    let expected = Misfit::Target("file".into());
    assert_eq!(misfit([file(), link.clone()]), expected);
    assert_eq!(misfit([file().file(".wh.x"), link]), expected);
    let below = file().file("file/below");
    assert_eq!(
        misfit([archive(), below]),
        Misfit::NoDirectory("file".into())
    );
    let above = archive().file("file/x").file("file");
    assert_eq!(misfit([file(), above]), Misfit::Directory);
    let whole = 0..512;
    let cut = scan_layers(
        self::file(&file().unfinished()),
        std::slice::from_ref(&whole),
        Path::new("image.tar"),
        &Options::default(),
    );
    assert!(matches!(cut, Err(Error::Archive { .. })), "{cut:?}");
}

#[test]
fn links_out_of_the_tree_are_counted() {
    let link = |archive: TarArchive, name: &str, target: &str| {
        archive.member(b'2', name.as_bytes(), target.as_bytes(), b"")
    };
    let inside = [
        ("a/b", "../c"),
        ("x", "/etc"),
        ("y", "a/.././b"),
        ("z", "."),
    ];
    let outside = [("a/d", "../../e"), ("v", ".."), ("w", "a/../../w")];
    let tree = |links: &[(&str, &str)]| {
        let links = links.iter();
        let archive = links.fold(TarArchive::default(), |archive, (name, target)| {
            link(archive, name, target)
        });
        scanned(archive).unwrap()
    };
    assert_eq!(OutwardLinks::of(&tree(&inside)), OutwardLinks::default());
    let expected = OutwardLinks {
        count: 3,
        first: "a/d".into(),
    };
    let all = [inside.as_slice(), &outside].concat();
    assert_eq!(OutwardLinks::of(&tree(&all)), expected);
}

/// No format can store access control lists of NFS.
#[test]
fn lists_of_nfs_are_told() {
    let list: (&str, &[u8]) = ("SCHILY.acl.ace", b"owner@:rwxp----------:-------:allow");
    let archive = TarArchive::default()
        .records(&[list])
        .member(b'0', b"./dir/file", b"", b"")
        .member(b'0', b"other", b"", b"")
        .finish();
    let told = |attributes| {
        let options = Options {
            attributes,
            ..Options::default()
        };
        let tree = scanned_with(&archive, &options).unwrap();
        let lost = tree.losses().get(Loss::AccessLists).cloned();
        lost.map(|lost| (lost.count, lost.examples[0].path.clone()))
    };
    assert_eq!(told(AttributeChoice::All), Some((1, "dir/file".into())));
    assert_eq!(told(AttributeChoice::None), None);
}

/// As of a directory: a further name of what is left out keeps it.
#[test]
fn what_is_excluded_is_left_out_with_all_in_it() {
    let archive = TarArchive::default()
        .member(b'0', b"a/out/file", b"", b"1")
        .member(b'1', b"b", b"a/out/file", b"")
        .file("a/in")
        .finish();
    let options = Options {
        exclude: Patterns::new(["*/out"]).unwrap(),
        ..Options::default()
    };
    let tree = scanned_with(&archive, &options).unwrap();
    let expected = [("a", "directory"), ("a/in", "file"), ("b", "file 1")];
    assert_eq!(listed(&tree), pairs(&expected));
    assert_eq!(tree.inodes().len(), 4);
}

#[test]
fn an_archive_that_changes_is_noticed() {
    let bytes = TarArchive::default()
        .member(b'0', b"file", b"", b"content")
        .finish();
    let archive = file(&bytes);
    let other = archive.try_clone().unwrap();
    let tree = scan_archive(archive, Path::new("layer.tar"), &Options::default()).unwrap();
    let file = tree
        .entries()
        .find(|entry| entry.name() == b"file")
        .unwrap();
    let mut contents = Contents::new(&tree).unwrap();
    let content = contents.open(file.id()).unwrap();
    let mut buffer = [0; 4];
    content.read_exact_at(&mut buffer, 3).unwrap();
    assert_eq!(&buffer, b"tent");
    let behind = content.read_exact_at(&mut buffer, 4);
    assert!(matches!(behind, Err(Error::Changed { .. })), "{behind:?}");
    other.set_len(100).unwrap();
    for result in [content.finish(), contents.open(file.id()).map(drop)] {
        match result {
            Err(Error::Changed { path }) => assert_eq!(path, Path::new("layer.tar")),
            other => panic!("{other:?}"),
        }
    }
}
