//! Trees without a format: one file, and trees that no format could store.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, Permissions as FilePermissions},
    io::Write,
    num::NonZeroU64,
    ops::ControlFlow,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{XattrFlags, fsetxattr},
    io::Errno,
};
use verimount_source::Scratch;
use verimount_testkit::{noise, skip};
use verimount_tree::{
    AddEntry, Attr, Cursor, DirEntry, Error, Extent, ExtentKind, FileType, MAX_DEPTH, NodeId,
    Paths, Permissions, SingleFile, StoredFile, Timestamp, Tree, Usage, part_inside, resolve, seek,
    walk,
};

fn node(number: u64) -> NodeId {
    NodeId::new(number).unwrap()
}

fn names(tree: &dyn Tree, directory: NodeId) -> Result<Vec<OsString>, Error> {
    let mut names = Vec::new();
    tree.list(directory, Cursor::START, &mut |entry, _| {
        names.push(entry.name.to_owned());
        ControlFlow::Continue(())
    })?;
    Ok(names)
}

/// A file with this mode and these bytes.
fn stored(mode: u32, bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.set_permissions(FilePermissions::from_mode(mode))
        .unwrap();
    file
}

#[test]
fn a_single_file_is_a_tree() {
    let bytes = noise(10_000, 2);
    let file = stored(0o644, &bytes);
    let name = OsStr::new("model.bin");
    let tree = SingleFile::new(
        name,
        &StoredFile::of(&file).unwrap(),
        Arc::new(bytes.clone()),
    );
    assert_eq!(names(&tree, NodeId::ROOT).unwrap(), [name]);
    let attr = tree.lookup(NodeId::ROOT, name).unwrap();
    assert_eq!(resolve(&tree, Path::new("/model.bin")).unwrap(), attr.node);
    let mut scratch = Scratch::default();
    let mut content = Vec::new();
    while let more @ [_, ..] = tree
        .read(attr.node, content.len() as u64, 3000, &mut scratch)
        .unwrap()
    {
        content.extend_from_slice(more);
    }
    assert_eq!(content, bytes);
    for offset in [10_000, u64::MAX] {
        let nothing: &[u8] = tree.read(attr.node, offset, 1, &mut scratch).unwrap();
        assert!(nothing.is_empty());
    }
    assert!(matches!(names(&tree, attr.node), Err(Error::NotADirectory)));
    assert!(matches!(tree.attr(node(3)), Err(Error::NotFound)));
    for missing in ["x", ".", "model.bin/x"] {
        assert!(resolve(&tree, Path::new(missing)).is_err(), "{missing}");
    }
    let target = tree.readlink(attr.node, &mut scratch);
    assert!(matches!(target, Err(Error::NotASymlink)));
    let read = tree.read(NodeId::ROOT, 0, 1, &mut scratch);
    assert!(matches!(read, Err(Error::IsADirectory)));
}

/// The tree grants no permission that the stored file does not.
#[test]
fn a_single_file_keeps_its_owner_and_permissions() {
    for (mode, shown) in [
        (0o600, 0o400),
        (0o755, 0o555),
        (0o640, 0o440),
        (0o6711, 0o511),
        (0o1000, 0),
    ] {
        let file = stored(mode, b"12345");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::fchown(&file, Some(4711), Some(4712)).unwrap();
            // Changing the owner clears set-ID bits.
            file.set_permissions(FilePermissions::from_mode(mode))
                .unwrap();
        }
        let metadata = file.metadata().unwrap();
        assert_eq!(metadata.mode() & 0o7777, mode);
        let owner = (metadata.uid(), metadata.gid());
        let written = Timestamp::new(metadata.mtime(), metadata.mtime_nsec() as u32).unwrap();
        let found = StoredFile::of(&file).unwrap();
        let tree = SingleFile::new("name".as_ref(), &found, Arc::new(b"12345".to_vec()));
        let attr = tree.attr(SingleFile::FILE).unwrap();
        assert_eq!(attr.mode(), 0o100_000 | shown, "{mode:o}");
        assert_eq!((attr.uid, attr.gid), owner);
        assert_eq!((attr.size, attr.nlink, attr.blocks), (5, 1, 1));
        let root = tree.attr(NodeId::ROOT).unwrap();
        assert_eq!(
            (root.mode(), root.uid, root.gid),
            (0o040_555, owner.0, owner.1)
        );
        for time in [attr.atime, attr.mtime, attr.ctime, root.mtime] {
            assert_eq!(time, written);
        }
    }
}

/// With an access control list, the group's bits are its mask, not the group's permissions.
#[test]
fn an_access_control_list_removes_the_groups_permissions() {
    /// Version 2; owner rw-, user 4711 r--, group ---, mask r--, others ---.
    const LIST: [(u16, u16, u32); 5] = [
        (0x01, 6, u32::MAX),
        (0x02, 4, 4711),
        (0x04, 0, u32::MAX),
        (0x10, 4, u32::MAX),
        (0x20, 0, u32::MAX),
    ];
    let file = stored(0o600, b"");
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in LIST {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    match fsetxattr(&file, "system.posix_acl_access", &list, XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP) => return skip("no access control lists here"),
        set => set.unwrap(),
    }
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o640);
    let found = StoredFile::of(&file).unwrap();
    let tree = SingleFile::new("name".as_ref(), &found, Arc::new(Vec::new()));
    let attr = tree.attr(SingleFile::FILE).unwrap();
    assert_eq!(attr.permissions, Permissions::new(0o400));
}

/// Endlessly nested directories, each with one file besides the next directory.
struct Endless {
    /// The node id of the directory inside another one, from that of the outer one.
    inside: fn(u64) -> u64,
    max_entries: u64,
}

impl Endless {
    const NAME_LEN: usize = 127;

    fn attr_of(node: NodeId, file_type: FileType) -> Attr {
        Attr::new(node, file_type, Permissions::new(0o755), 0)
    }
}

impl Tree for Endless {
    fn attr(&self, node: NodeId) -> Result<Attr, Error> {
        Ok(Self::attr_of(node, FileType::Directory))
    }

    fn lookup(&self, _: NodeId, _: &OsStr) -> Result<Attr, Error> {
        unreachable!("nobody asks")
    }

    fn parent(&self, _: NodeId) -> Result<Attr, Error> {
        unreachable!("nobody asks")
    }

    fn list(&self, directory: NodeId, from: Cursor, add: &mut AddEntry<'_>) -> Result<(), Error> {
        assert_eq!(from, Cursor::START);
        let name = "n".repeat(Self::NAME_LEN);
        let ino = (self.inside)(directory.get());
        let entry = DirEntry {
            name: name.as_ref(),
            node: node(ino),
            ino,
            file_type: FileType::Directory,
        };
        let _ = add(entry, Cursor::new(1).unwrap());
        Ok(())
    }

    fn read<'s>(&self, _: NodeId, _: u64, _: usize, _: &'s mut Scratch) -> Result<&'s [u8], Error> {
        Err(Error::IsADirectory)
    }

    fn usage(&self) -> Usage {
        Usage {
            bytes: 1,
            name_max: 127,
            max_entries: self.max_entries,
        }
    }
}

#[test]
fn the_search_for_paths_is_bounded() {
    let paths = Paths::new(&Endless {
        inside: |outer| outer + 1,
        max_entries: u64::MAX,
    });
    let name = "n".repeat(Endless::NAME_LEN);
    let second = PathBuf::from("/").join(&name).join(&name);
    assert_eq!(paths.get(node(3)), Some(second));
    assert_eq!(paths.get(NodeId::ROOT), Some("/".into()));
    // 31 names with their slashes have 3968 bytes; 32 are too many.
    assert!(paths.get(node(32)).is_some());
    assert_eq!(paths.get(node(33)), None);
    assert_eq!(paths.get(node(1 << 20)), None);
}

#[test]
fn a_walk_ends() {
    for (inside, max_entries, visited, reason) in [
        (
            (|outer| outer + 1) as fn(u64) -> u64,
            u64::MAX,
            MAX_DEPTH,
            "deep",
        ),
        (|outer| outer + 1, 7, 7, "share their entries"),
        (|outer| outer % 5 + 1, u64::MAX, 5, "reached by two paths"),
        (|outer| outer, u64::MAX, 1, "reached by two paths"),
    ] {
        let tree = Endless {
            inside,
            max_entries,
        };
        let mut count = 0;
        let walked = walk(&tree, NodeId::ROOT, PathBuf::new(), |path, attr| {
            count += 1;
            assert_eq!(path.iter().count(), count);
            assert!(attr.is_directory());
            Ok::<_, Error>(())
        });
        let error = walked.unwrap_err();
        assert!(
            error.is_about_content() && error.to_string().contains(reason),
            "{error}"
        );
        assert_eq!(count, visited, "{reason}");
    }
}

/// A file with alternating data and holes of `data` bytes each, returned in extents of `piece` bytes.
struct Striped {
    size: u64,
    data: u64,
    piece: u64,
}

impl Tree for Striped {
    fn attr(&self, node: NodeId) -> Result<Attr, Error> {
        let permissions = Permissions::new(0o644);
        Ok(Attr::new(
            node,
            FileType::RegularFile,
            permissions,
            self.size,
        ))
    }

    fn lookup(&self, _: NodeId, _: &OsStr) -> Result<Attr, Error> {
        Err(Error::NotADirectory)
    }

    fn parent(&self, _: NodeId) -> Result<Attr, Error> {
        Err(Error::NotADirectory)
    }

    fn list(&self, _: NodeId, _: Cursor, _: &mut AddEntry<'_>) -> Result<(), Error> {
        Err(Error::NotADirectory)
    }

    fn read<'s>(&self, _: NodeId, _: u64, _: usize, _: &'s mut Scratch) -> Result<&'s [u8], Error> {
        unreachable!("nobody asks")
    }

    fn usage(&self) -> Usage {
        unreachable!("nobody asks")
    }

    fn extent(&self, _: NodeId, offset: u64) -> Result<Extent, Error> {
        let kind = if (offset / self.data).is_multiple_of(2) {
            ExtentKind::Data
        } else {
            ExtentKind::Hole
        };
        let to_end = self.size.saturating_sub(offset);
        let len = self.piece - offset % self.piece;
        let len = NonZeroU64::new(len.min(to_end)).ok_or(Error::PastEnd)?;
        Ok(Extent { kind, len })
    }
}

#[test]
fn data_and_holes_are_found() {
    let tree = Striped {
        size: 100,
        data: 20,
        piece: 5,
    };
    let find = |kind, offset| match seek(&tree, NodeId::ROOT, kind, offset) {
        Ok(found) => Some(found),
        Err(Error::PastEnd) => None,
        Err(error) => panic!("{error}"),
    };
    for (offset, data, hole) in [
        (0, Some(0), Some(20)),
        (19, Some(19), Some(20)),
        (20, Some(40), Some(20)),
        (39, Some(40), Some(39)),
        (80, Some(80), Some(100)),
        (99, Some(99), Some(100)),
        (100, None, None),
        (u64::MAX, None, None),
    ] {
        assert_eq!(find(ExtentKind::Data, offset), data, "{offset}");
        assert_eq!(find(ExtentKind::Hole, offset), hole, "{offset}");
    }
    // At the end is a hole, after which no data follows.
    let tree = Striped { size: 40, ..tree };
    let found = seek(&tree, NodeId::ROOT, ExtentKind::Data, 25);
    assert!(matches!(found, Err(Error::PastEnd)));
}

/// A search in a file of very many extents is bounded: the rest counts as data.
#[test]
fn a_search_for_data_and_holes_is_bounded() {
    let size = 1 << 60;
    let tree = |piece| Striped {
        size,
        data: size / 4,
        piece,
    };
    let find = |tree: &Striped, kind, offset| seek(tree, NodeId::ROOT, kind, offset).unwrap();
    assert_eq!(find(&tree(1 << 50), ExtentKind::Hole, 5), size / 4);
    assert_eq!(find(&tree(1), ExtentKind::Hole, 5), size);
    let hole = size / 4;
    assert_eq!(find(&tree(1 << 50), ExtentKind::Data, hole), size / 2);
    let found = find(&tree(1), ExtentKind::Data, hole);
    assert!(hole < found && found < size / 2);
}

#[test]
fn a_part_lies_inside() {
    assert_eq!(part_inside(3, 4, 10), 3..7);
    assert_eq!(part_inside(3, 40, 10), 3..10);
    assert_eq!(part_inside(10, 1, 10), 10..10);
    assert_eq!(part_inside(u64::MAX, usize::MAX, 10), 10..10);
    assert_eq!(part_inside(0, usize::MAX, 10), 0..10);
}
