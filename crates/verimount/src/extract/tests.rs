//! Trees that no image has, and directories that others change.

use std::{
    fs, io,
    num::NonZeroU64,
    ops::ControlFlow,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
};

use rustix::fs::{SeekFrom as SystemSeek, lgetxattr, seek};
use tempfile::TempDir;
use verimount_testkit::skip;
use verimount_tree::{
    ACCESS_LIST, AccessList, AddEntry, Cursor, DirEntry, Extent, Permissions, Rights, Timestamp,
    Usage, Who, XattrNames, part_inside,
};

use super::*;
use crate::{ErrorKind, fault::Fault};

/// What is in [`Fake`].
struct Entry {
    parent: u64,
    name: &'static str,
    node: u64,
    attr: Attr,
}

/// A tree in memory that stores owners. Its files consist of ones, in the ranges that are no holes.
struct Fake {
    entries: Vec<Entry>,
    holes: Vec<Range<u64>>,
    /// The access control list of its files; empty for none.
    list: Vec<u8>,
    bytes: u64,
}

fn node(number: u64) -> NodeId {
    NodeId::new(number).unwrap()
}

impl Fake {
    fn new(bytes: u64) -> Self {
        let mut fake = Self {
            entries: Vec::new(),
            holes: Vec::new(),
            list: Vec::new(),
            bytes,
        };
        fake.add(0, "", 1, FileType::Directory, 0o750, 0);
        fake
    }

    /// Adds a file of the user who runs the test.
    fn add(
        &mut self,
        parent: u64,
        name: &'static str,
        number: u64,
        file_type: FileType,
        mode: u32,
        size: u64,
    ) {
        let mtime = Timestamp::new(-1_000_000, 999_999_999).unwrap();
        let attr = Attr {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            nlink: 2,
            atime: mtime,
            mtime,
            ..Attr::new(node(number), file_type, Permissions::new(mode), size)
        };
        self.entries.push(Entry {
            parent,
            name,
            node: number,
            attr,
        });
    }
}

impl Tree for Fake {
    fn attr(&self, node: NodeId) -> Result<Attr, TreeError> {
        let mut entries = self.entries.iter();
        let entry = entries.find(|entry| entry.node == node.get());
        Ok(entry.ok_or(TreeError::NotFound)?.attr)
    }

    fn lookup(&self, _: NodeId, _: &OsStr) -> Result<Attr, TreeError> {
        Err(TreeError::NotFound)
    }

    fn parent(&self, _: NodeId) -> Result<Attr, TreeError> {
        unreachable!("nobody asks")
    }

    fn list(
        &self,
        directory: NodeId,
        from: Cursor,
        add: &mut AddEntry<'_>,
    ) -> Result<(), TreeError> {
        let inside = |entry: &&Entry| entry.parent == directory.get();
        let skipped = usize::try_from(from.get()).unwrap();
        for (at, entry) in (from.get() + 1..).zip(self.entries.iter().filter(inside).skip(skipped))
        {
            let shown = DirEntry {
                name: entry.name.as_ref(),
                node: entry.attr.node,
                ino: entry.attr.ino,
                file_type: entry.attr.file_type,
            };
            if add(shown, Cursor::new(at).unwrap()).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn read<'s>(
        &self,
        node: NodeId,
        offset: u64,
        len: usize,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], TreeError> {
        let buf = scratch.grown(part_inside(offset, len, self.attr(node)?.size).len());
        buf.fill(1);
        Ok(buf)
    }

    fn xattr_names(&self, node: NodeId) -> Result<XattrNames, TreeError> {
        let mut names = XattrNames::default();
        if !self.list.is_empty() && !self.attr(node)?.is_directory() {
            names.push(ACCESS_LIST.as_ref())?;
        }
        Ok(names)
    }

    fn xattr(&self, _: NodeId, _: &OsStr) -> Result<Vec<u8>, TreeError> {
        Ok(self.list.clone())
    }

    fn usage(&self) -> Usage {
        Usage {
            bytes: self.bytes,
            name_max: 255,
            max_entries: 100,
        }
    }

    fn extent(&self, node: NodeId, offset: u64) -> Result<Extent, TreeError> {
        let size = self.attr(node)?.size;
        let hole = self.holes.iter().find(|hole| hole.contains(&offset));
        let next = self.holes.iter().map(|hole| hole.start);
        let (kind, end) = match hole {
            Some(hole) => (ExtentKind::Hole, hole.end),
            None => (
                ExtentKind::Data,
                next.filter(|start| *start > offset).min().unwrap_or(size),
            ),
        };
        let len = NonZeroU64::new(end.min(size) - offset).ok_or(TreeError::PastEnd)?;
        Ok(Extent { kind, len })
    }
}

/// Extracts to `copy` in a new folder. Before each step, `others` act in the copy.
fn extract_beside(
    tree: &Fake,
    mut others: impl FnMut(&Path) -> ControlFlow<()>,
) -> (TempDir, PathBuf, Result<Extracted, Error>) {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    let location = Location::from(Path::new("image"));
    let options = ExtractOptions::default();
    let extracted = extract(tree, &location, &copy, &options, &mut |_| others(&copy));
    (folder, copy, extracted)
}

fn go_on(_: &Path) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The error of extracting, which names `path` in the copy, and its kind.
#[track_caller]
fn io_error_at(
    copy: &Path,
    path: &str,
    extracted: Result<Extracted, Error>,
) -> (io::ErrorKind, Error) {
    let error = extracted.unwrap_err();
    let at = error.location().and_then(Location::path);
    assert_eq!(at, Some(&*copy.join(path)));
    match ContentFault::of(&error) {
        ContentFault::Io(reason) => (reason.kind(), error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn holes_stay_holes() {
    const MIB: u64 = 1 << 20;
    let mut tree = Fake::new(MIB);
    tree.add(1, "sparse", 2, FileType::RegularFile, 0o600, 5 * MIB);
    tree.holes = vec![0..MIB, MIB + 65_536..5 * MIB];
    let (_folder, copy, extracted) = extract_beside(&tree, go_on);
    assert!(extracted.unwrap().unrestored.is_empty());
    let file = File::open(copy.join("sparse")).unwrap();
    let data = seek(&file, SystemSeek::Data(0)).unwrap();
    let hole = seek(&file, SystemSeek::Hole(data)).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!((data, hole, metadata.len()), (MIB, MIB + 65_536, 5 * MIB));
    let content = fs::read(copy.join("sparse")).unwrap();
    assert_eq!(
        content.iter().map(|byte| u64::from(*byte)).sum::<u64>(),
        65_536
    );
}

#[test]
fn everything_is_restored() {
    let mut tree = Fake::new(100);
    // Nobody but root could make something in the directory, or find something in it, afterwards.
    tree.add(1, "closed", 2, FileType::Directory, 0, 0);
    tree.add(2, "first", 3, FileType::RegularFile, 0o4711, 10);
    tree.add(1, "fifo", 4, FileType::Fifo, 0o604, 0);
    tree.add(1, "second", 3, FileType::RegularFile, 0o4711, 10);
    tree.add(1, "fifo too", 4, FileType::Fifo, 0o604, 0);
    let (_folder, copy, extracted) = extract_beside(&tree, go_on);
    assert!(extracted.unwrap().unrestored.is_empty());
    for (path, mode, links) in [
        ("", 0o040_750, 3),
        ("second", 0o104_711, 2),
        ("closed", 0o040_000, 2),
        ("fifo too", 0o010_604, 2),
    ] {
        let metadata = fs::symlink_metadata(copy.join(path)).unwrap();
        assert_eq!((metadata.mode(), metadata.nlink()), (mode, links), "{path}");
        let mtime = (metadata.mtime(), metadata.mtime_nsec());
        assert_eq!(mtime, (-1_000_000, 999_999_999), "{path}");
    }
    // For the folder to be removed.
    fs::set_permissions(copy.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
}

/// Owner rw-, user 1234 rw-, group r--, mask rw-, others ---.
fn list_with_mask() -> Vec<u8> {
    let entries = [
        (Who::Owner, Rights::READ | Rights::WRITE),
        (Who::User(1234), Rights::READ | Rights::WRITE),
        (Who::OwningGroup, Rights::READ),
        (Who::Others, Rights::empty()),
    ];
    AccessList::new(entries).unwrap().encode()
}

/// The authority is the kernel: the group's permissions are the mask of the list (acl(5)), which an image may contradict. The
/// first permissions are those that images of bsdtar's archives had.
#[test]
fn a_list_decides_the_permissions() {
    for (stored, mode) in [(0o600, 0o660), (0o660, 0o660), (0o4755, 0o4660)] {
        let mut tree = Fake::new(100);
        tree.add(1, "file", 2, FileType::RegularFile, stored, 10);
        tree.add(1, "fifo", 3, FileType::Fifo, stored, 0);
        tree.list = list_with_mask();
        let (_folder, copy, extracted) = extract_beside(&tree, go_on);
        let unrestored = extracted.unwrap().unrestored;
        if unrestored.get(Unrestored::AccessLists).is_some() {
            return skip("no access control lists here");
        }
        for name in ["file", "fifo"] {
            let path = copy.join(name);
            let found = fs::symlink_metadata(&path).unwrap().mode() & 0o7777;
            assert_eq!(found, mode, "{name}, {stored:o}");
            let mut list = [0; 100];
            let len = lgetxattr(&path, ACCESS_LIST, &mut list[..]).unwrap();
            assert_eq!(list[..len], tree.list, "{name}, {stored:o}");
        }
        let differs = unrestored.get(Unrestored::Permissions).is_some();
        assert_eq!(differs, stored != mode);
    }
}

/// The group's permissions are not those of the mask. What is no list stands for one that the file system does not take.
#[test]
fn without_its_list_a_file_allows_nobody_more() {
    let mut tree = Fake::new(100);
    tree.add(1, "file", 2, FileType::RegularFile, 0o664, 10);
    tree.list = vec![1];
    let (_folder, copy, extracted) = extract_beside(&tree, go_on);
    let unrestored = extracted.unwrap().unrestored;
    for kind in [Unrestored::AccessLists, Unrestored::Permissions] {
        assert!(unrestored.get(kind).is_some(), "{kind:?}");
    }
    let mode = copy.join("file").metadata().unwrap().mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn directories_are_private_until_all_files_are_there() {
    let mut tree = Fake::new(100);
    tree.add(1, "open", 2, FileType::Directory, 0o777, 0);
    tree.add(2, "inside", 3, FileType::RegularFile, 0o666, 10);
    let mut seen = 0;
    let (_folder, copy, extracted) = extract_beside(&tree, |copy| {
        let mode = |path: &Path| {
            path.metadata()
                .ok()
                .map(|metadata| metadata.mode() & 0o7777)
        };
        let file = copy.join("open/inside");
        if let Some(outer) = mode(copy).filter(|_| !file.exists()) {
            assert_eq!(outer, 0o700);
            if let Some(inner) = mode(&copy.join("open")) {
                assert_eq!(inner, 0o700);
                seen += 1;
            }
        }
        ControlFlow::Continue(())
    });
    extracted.unwrap();
    assert!(seen > 0);
    assert_eq!(copy.join("open").metadata().unwrap().mode() & 0o7777, 0o777);
}

#[test]
fn no_more_is_written_than_the_image_may_have() {
    let mut tree = Fake::new(100);
    tree.add(1, "first", 2, FileType::RegularFile, 0o600, 60);
    tree.add(1, "second", 3, FileType::RegularFile, 0o600, 41);
    let (_folder, copy, extracted) = extract_beside(&tree, go_on);
    let error = extracted.unwrap_err();
    assert!(matches!(
        ContentFault::other(&error),
        Some(Fault::TooLarge { limit: 100 })
    ));
    let at = error.location().and_then(Location::path);
    assert_eq!(at, Some(&*copy.join("second")));
    tree.bytes = 101;
    extract_beside(&tree, go_on).2.unwrap();
    // Holes are written for nothing, but take time.
    tree.holes = (0..41).step_by(2).map(|at| at..at + 1).collect();
    tree.bytes = 100;
    let (_folder, _copy, extracted) = extract_beside(&tree, go_on);
    assert_eq!(extracted.unwrap_err().kind(), ErrorKind::TooLarge);
}

/// A tree with a directory that others replace as soon as there is something in it.
fn nested() -> Fake {
    let mut tree = Fake::new(100);
    tree.add(1, "a", 2, FileType::Directory, 0o755, 0);
    tree.add(2, "b", 3, FileType::Directory, 0o755, 0);
    tree.add(3, "first", 4, FileType::RegularFile, 0o644, 1);
    tree.add(2, "second", 5, FileType::RegularFile, 0o644, 1);
    tree
}

/// Puts something in place of the directory `a`, once it has a file in it.
fn replace(copy: &Path, with: impl Fn(&Path)) -> ControlFlow<()> {
    let directory = copy.join("a");
    if directory.join("b/first").exists() {
        fs::rename(&directory, copy.join("moved")).unwrap();
        with(&directory);
    }
    ControlFlow::Continue(())
}

#[test]
fn a_directory_that_is_replaced_is_not_used() {
    let outside = tempfile::tempdir().unwrap();
    let tree = nested();
    let (_folder, copy, extracted) = extract_beside(&tree, |copy| {
        replace(copy, |path| fs::create_dir(path).unwrap())
    });
    let (_, error) = io_error_at(&copy, "a/second", extracted);
    assert!(error.to_string().contains("replaced"), "{error}");
    let (_folder, copy, extracted) = extract_beside(&tree, |copy| {
        replace(copy, |path| symlink(outside.path(), path).unwrap())
    });
    let (kind, _) = io_error_at(&copy, "a/second", extracted);
    assert_eq!(kind, io::ErrorKind::NotADirectory);
    assert_eq!(outside.path().read_dir().unwrap().count(), 0);
}

#[test]
fn names_that_others_plant_are_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("target");
    for file_type in [
        FileType::RegularFile,
        FileType::Directory,
        FileType::Fifo,
        FileType::Socket,
    ] {
        for exists in [false, true] {
            if exists {
                fs::write(&target, "theirs").unwrap();
            }
            let mut tree = Fake::new(100);
            tree.add(1, "name", 2, file_type, 0o777, 0);
            let (_folder, copy, extracted) = extract_beside(&tree, |copy| {
                let _ = symlink(&target, copy.join("name"));
                ControlFlow::Continue(())
            });
            let (kind, _) = io_error_at(&copy, "name", extracted);
            assert_eq!(kind, io::ErrorKind::AlreadyExists);
            assert_eq!(target.exists(), exists);
            let _ = fs::remove_file(&target);
        }
    }
}

/// Whoever replaces the first name of a file gets no further one.
#[test]
fn a_first_name_that_is_replaced_is_noticed() {
    let mut tree = Fake::new(100);
    tree.add(1, "first", 2, FileType::RegularFile, 0o600, 1);
    tree.add(1, "second", 2, FileType::RegularFile, 0o600, 1);
    let (_folder, copy, extracted) = extract_beside(&tree, |copy| {
        let first = copy.join("first");
        if first.metadata().is_ok_and(|found| found.len() == 1) && !copy.join("other").exists() {
            fs::rename(&first, copy.join("other")).unwrap();
            fs::write(first, "theirs").unwrap();
        }
        ControlFlow::Continue(())
    });
    let (_, error) = io_error_at(&copy, "second", extracted);
    assert!(error.to_string().contains("replaced"), "{error}");
}
