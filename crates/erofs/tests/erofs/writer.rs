//! Images that the writer makes show the tree that they were made of, and the same tree always gives the same
//! image.

use std::{
    fs::{self, File},
    io::{self, Cursor, Read, Seek, SeekFrom, Write},
    num::NonZeroUsize,
    ops::ControlFlow,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, PermissionsExt, symlink},
    },
    path::Path,
};

use tempfile::TempDir;
use verimount_erofs::{Options, Plan, Unstorable, VolumeName, plan};
use verimount_scan::{
    AddedFile, AttributeChoice, BuildError, Error as ScanError, Options as ScanOptions, Owner,
    Times, scan, scan_archive,
};
use verimount_testkit::{
    TarArchive, cases,
    directory::{compare, make_tree},
    go_on, noise, random_cases,
    seen::{check_lookups, data_ranges, everything},
};
use verimount_tree::{ExtentKind, Timestamp, Tree, resolve, seek};

use crate::{
    open,
    source::{TREE_BYTES, create, wishes},
};

const BLOCK: u64 = 4096;

fn plan_of(root: &Path) -> Plan {
    plan_with(root, &ScanOptions::default(), &Options::default())
}

fn plan_with(root: &Path, scan_options: &ScanOptions, options: &Options) -> Plan {
    let tree = scan(root, scan_options, &mut go_on).unwrap();
    plan(tree, options, &mut go_on).unwrap()
}

pub(crate) fn written(plan: &Plan) -> Vec<u8> {
    let mut image = Cursor::new(Vec::new());
    plan.write_to(&mut image, NonZeroUsize::MIN, &mut go_on)
        .unwrap();
    let image = image.into_inner();
    assert_eq!(image.len() as u64, plan.image_size());
    image
}

/// How many files have the content of another one, which is stored once.
fn shared_files(plan: &Plan) -> usize {
    let entries = plan.tree().entries();
    let firsts = entries.filter(|entry| entry.is_first_name());
    firsts
        .filter(|entry| plan.stored_as(entry.inode_id()) != entry.inode_id())
        .count()
}

pub(crate) fn image_of(root: &Path) -> Vec<u8> {
    written(&plan_of(root))
}

fn image_with(root: &Path, block_size: u64) -> Vec<u8> {
    let options = Options {
        block_size: block_size.try_into().unwrap(),
        ..Options::default()
    };
    written(&plan_with(root, &ScanOptions::default(), &options))
}

#[test]
fn a_tree_comes_back_from_its_image() {
    cases(random_cases(48), TREE_BYTES, |u| {
        let block = 1 << u.int_in_range(9..=16)?;
        let wishes = wishes(u)?;
        let folder = tempfile::tempdir().unwrap();
        create(folder.path(), &wishes, false);
        let tree = open(image_with(folder.path(), block)).unwrap();
        compare(&tree, folder.path(), true);
        check_lookups(&tree);
        Ok(())
    });
}

#[test]
fn only_the_tree_decides_the_bytes() {
    cases(random_cases(48), TREE_BYTES, |u| {
        let wishes = wishes(u)?;
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        create(one.path(), &wishes, false);
        create(other.path(), &wishes, true);
        for folder in [&one, &other] {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert!(image_of(one.path()) == image_of(other.path()));
        Ok(())
    });
}

#[test]
fn all_kinds_of_content_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    make_tree(folder.path());
    let tree = open(image_of(folder.path())).unwrap();
    compare(&tree, folder.path(), true);
    check_lookups(&tree);
}

/// The checksum of an image that must never change: other images of the same tree would have other digests.
#[test]
fn an_image_is_what_it_always_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("sub")).unwrap();
    fs::write(path("a"), "hello\n").unwrap();
    fs::hard_link(path("a"), path("sub/b")).unwrap();
    symlink("a", path("link")).unwrap();
    fs::write(path("large"), noise(10_000, 1)).unwrap();
    fs::write(path("sub/same"), noise(10_000, 1)).unwrap();
    let sparse = File::create(path("sparse")).unwrap();
    sparse.set_len(10 * BLOCK).unwrap();
    sparse.write_all_at(&noise(4096, 2), 4 * BLOCK).unwrap();
    for number in 0..200 {
        fs::write(path("sub").join(format!("file number {number}")), [7; 40]).unwrap();
    }
    for (name, mode) in [("a", 0o644), ("large", 0o755), ("sub", 0o700), ("", 0o755)] {
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let options = ScanOptions {
        times: Times::All(Timestamp::new(1_700_000_000, 5).unwrap()),
        owner: Some(Owner {
            uid: 1000,
            gid: 70_000,
        }),
        attributes: AttributeChoice::None,
        ..ScanOptions::default()
    };
    let name = VolumeName::new(b"golden").unwrap();
    let options_of_image = Options {
        volume_name: name,
        ..Options::default()
    };
    let image = written(&plan_with(folder.path(), &options, &options_of_image));
    assert_eq!(
        (image.len(), crc32c::crc32c(&image)),
        (53_248, 2_818_155_656)
    );
}

/// Comparing files takes as long as reading them.
#[test]
fn planning_can_be_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let content = noise(1 << 20, 1);
    for name in ["a", "b"] {
        fs::write(folder.path().join(name), &content).unwrap();
    }
    let planned = |limit: u64| {
        let tree = scan(folder.path(), &ScanOptions::default(), &mut go_on).unwrap();
        let mut read = 0;
        let until_limit = &mut |bytes| {
            read += bytes;
            if read >= limit {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let planned = plan(tree, &Options::default(), until_limit);
        (planned.map(drop), read)
    };
    // Samples, then everything.
    let (planned_all, all) = planned(u64::MAX);
    planned_all.unwrap();
    assert_eq!(all, 2 * (3 * BLOCK + (1 << 20)));
    for limit in [1, 3 * BLOCK + 1, 1 << 20, all] {
        let (cancelled, read) = planned(limit);
        assert!(matches!(cancelled, Err(BuildError::Cancelled)), "{limit}");
        assert!(read < limit + (1 << 20), "{limit}: {read}");
    }
}

#[test]
fn equal_contents_are_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("sub")).unwrap();
    let large = noise(1 << 20, 1);
    let mut other = large.clone();
    other[300_000] ^= 1;
    for (name, content) in [
        ("a", &large),
        ("b", &other),
        ("sub/c", &large),
        ("sub/d", &large),
        ("e", &noise(5000, 2)),
        ("f", &noise(5000, 2)),
        ("small", &noise(100, 3)),
        ("small too", &noise(100, 3)),
    ] {
        fs::write(path(name), content).unwrap();
    }
    let plan = plan_of(folder.path());
    assert_eq!(shared_files(&plan), 3);
    let image = written(&plan);
    // Three contents, and the metadata.
    assert_eq!(image.len() as u64, (2 << 20) + 2 * BLOCK + BLOCK);
    compare(&open(image).unwrap(), folder.path(), true);
}

/// Such holes take as much space as zeros.
#[test]
fn holes_of_less_than_a_block_do_not_count_as_a_difference() {
    let block = 4096;
    let mut content = noise(6 * block, 1);
    content[1024..1536].fill(0);
    let archive = |size: usize| {
        let (len, rest) = (size.to_string(), size - 1536);
        let map = format!("0,1024,1536,{rest}");
        let stored = [&content[..1024], &content[1536..size]].concat();
        TarArchive::default()
            .member(b'0', b"full", b"", &content[..size])
            .records(&[
                ("GNU.sparse.name", b"sparse"),
                ("GNU.sparse.size", len.as_bytes()),
                ("GNU.sparse.numblocks", b"2"),
                ("GNU.sparse.map", map.as_bytes()),
            ])
            .member(b'0', b"GNUSparseFile.0/sparse", b"", &stored)
    };
    // A file that is read whole at once, one of which samples would do, and one between these.
    for blocks in [2, 3, 6] {
        let path = Path::new("sparse.tar");
        let archive = archive(blocks * block).in_file();
        let tree = scan_archive(archive, path, &ScanOptions::default()).unwrap();
        let plan = plan(tree, &Options::default(), &mut go_on).unwrap();
        let image = written(&plan);
        assert_eq!(
            (shared_files(&plan), image.len()),
            (1, (1 + blocks) * block)
        );
        let found = everything(&open(image).unwrap()).unwrap();
        assert!(
            found
                .values()
                .all(|seen| seen.content == content[..blocks * block])
        );
    }
}

/// It is the file of the model signature, which nothing is compared with.
#[test]
fn an_added_file_is_stored_on_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let content = vec![b'x'; 10_000];
    fs::write(folder.path().join("z"), &content).unwrap();
    let options = ScanOptions {
        added: Some(AddedFile {
            name: "a".to_owned(),
            content: content.into(),
        }),
        ..ScanOptions::default()
    };
    let plan = plan_with(folder.path(), &options, &Options::default());
    assert_eq!(shared_files(&plan), 0);
}

/// NTFS and exFAT have longer ones.
#[test]
fn a_name_that_linux_does_not_list_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let planned = |len| {
        let options = ScanOptions {
            added: Some(AddedFile {
                name: "x".repeat(len),
                content: Vec::new().into(),
            }),
            ..ScanOptions::default()
        };
        let tree = scan(folder.path(), &options, &mut go_on).unwrap();
        plan(tree, &Options::default(), &mut go_on)
    };
    open(written(&planned(255).unwrap())).unwrap();
    match planned(256) {
        Err(BuildError::Unstorable { path, reason }) => {
            assert_eq!(path, folder.path().join("x".repeat(256)));
            assert_eq!(reason.downcast_ref(), Some(&Unstorable::NameTooLong(256)));
        }
        result => panic!("{result:?}"),
    }
}

#[test]
fn holes_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, len, data: &[u64]| {
        let file = File::create(folder.path().join(name)).unwrap();
        file.set_len(len).unwrap();
        for start in data {
            file.write_all_at(&noise(4096, *start), *start).unwrap();
        }
    };
    const GIB: u64 = 1 << 30;
    make("middle", 100 * BLOCK, &[7 * BLOCK, 50 * BLOCK]);
    make("end", 10 * BLOCK + 5, &[]);
    make("huge", 8000 * GIB, &[4000 * GIB]);
    make("nothing", GIB, &[]);
    let image = image_of(folder.path());
    // Of the largest file, the map is 8 MiB and the stored chunk 4 MiB.
    assert!(image.len() < 16 << 20, "{}", image.len());
    let tree = open(image).unwrap();
    let block_at = |start| (start, start + BLOCK);
    let middle = [7 * BLOCK, 50 * BLOCK].map(block_at);
    assert_eq!(data_ranges(&tree, "middle"), middle);
    assert_eq!(data_ranges(&tree, "nothing"), []);
    assert_eq!(data_ranges(&tree, "end"), []);
    let huge = resolve(&tree, Path::new("huge")).unwrap();
    let data = seek(&tree, huge, ExtentKind::Data, 0).unwrap();
    assert!(data <= 4000 * GIB && data > 3999 * GIB, "{data}");
    let mut scratch = verimount_source::Scratch::default();
    let read = tree.read(huge, 4000 * GIB, 4096, &mut scratch).unwrap();
    assert!(read == noise(4096, 4000 * GIB));
}

/// A member of 2 KiB would become an image of 12 GiB.
#[test]
fn holes_that_take_more_than_the_data_are_refused() {
    let planned = |size: &str| {
        let records: [(&str, &[u8]); 4] = [
            ("GNU.sparse.major", b"1"),
            ("GNU.sparse.minor", b"0"),
            ("GNU.sparse.name", b"sparse"),
            ("GNU.sparse.realsize", size.as_bytes()),
        ];
        // One byte behind five blocks.
        let mut content = b"1\n20480\n1\n".to_vec();
        content.resize(512, 0);
        content.push(b'x');
        let archive = TarArchive::default().records(&records);
        let archive = archive.member(b'0', b"f", b"", &content).in_file();
        let tree = scan_archive(archive, Path::new("a.tar"), &ScanOptions::default()).unwrap();
        plan(tree, &Options::default(), &mut go_on)
    };
    // Eight TiB.
    let kept = planned("8796093022208").unwrap();
    assert!(kept.image_size() < 16 << 20);
    let error = planned("9223372036854775807").unwrap_err();
    let expected = "a.tar/sparse: its holes would take more than 1 GiB, and more than its data";
    assert_eq!(error.to_string(), expected);
}

/// Of an archive, as a file system takes long to make so many files. Each has its name as content.
#[test]
fn a_large_directory_is_sorted() {
    const COUNT: usize = 20_000;
    let names = (0..COUNT).map(|number| format!("{number:x}"));
    let archive = names.fold(TarArchive::default(), |archive, name| {
        archive.member(b'0', name.as_bytes(), b"", name.as_bytes())
    });
    let path = Path::new("names.tar");
    let scanned = scan_archive(archive.in_file(), path, &ScanOptions::default()).unwrap();
    let plan = plan(scanned, &Options::default(), &mut go_on).unwrap();
    let tree = open(written(&plan)).unwrap();
    let found = everything(&tree).unwrap();
    assert_eq!(found.len(), COUNT);
    for (path, seen) in &found {
        assert_eq!(seen.content, path.as_os_str().as_bytes());
        let attr = &seen.attr;
        assert_eq!((attr.mode(), attr.uid, attr.gid), (0o100_644, 1, 2));
        assert_eq!((attr.mtime.seconds(), attr.nlink), (3, 1));
    }
    check_lookups(&tree);
}

/// A tree with one file that takes blocks of its own.
fn one_file(len: usize) -> (TempDir, Plan) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), noise(len, 1)).unwrap();
    let plan = plan_of(folder.path());
    (folder, plan)
}

#[test]
fn a_file_that_changes_fails_the_image() {
    for len in [100, 10_000] {
        let (folder, plan) = one_file(len);
        let file = folder.path().join("file");
        fs::write(&file, noise(len + 1, 1)).unwrap();
        let mut image = Cursor::new(Vec::new());
        match plan.write_to(&mut image, NonZeroUsize::MIN, &mut go_on) {
            Err(BuildError::Scan(ScanError::Changed { path })) => assert_eq!(path, file),
            result => panic!("{result:?}"),
        }
    }
}

/// An output that has room for this many bytes.
struct Full {
    image: Cursor<Vec<u8>>,
    room: u64,
}

impl Full {
    fn after(room: u64) -> Self {
        let image = Cursor::new(Vec::new());
        Self { image, room }
    }
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.room.saturating_sub(self.image.position());
        match bytes.len().min(room as usize) {
            0 => Err(io::ErrorKind::StorageFull.into()),
            taken => self.image.write(&bytes[..taken]),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Full {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.image.read(buffer)
    }
}

impl Seek for Full {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.image.seek(to)
    }
}

#[test]
fn writing_can_fail_and_be_cancelled() {
    let (_folder, plan) = one_file(1 << 20);
    let size = plan.image_size();
    let one = NonZeroUsize::MIN;
    plan.write_to(&mut Full::after(size), one, &mut go_on)
        .unwrap();
    let full = plan.write_to(&mut Full::after(size - 1), one, &mut go_on);
    assert!(matches!(full, Err(BuildError::Output(_))), "{full:?}");
    let mut calls = 0;
    let cancelled = plan.write_to(&mut Cursor::new(Vec::new()), one, &mut |_| {
        calls += 1;
        match calls {
            1 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    });
    assert!(
        matches!(cancelled, Err(BuildError::Cancelled)),
        "{cancelled:?}"
    );
    assert_eq!(calls, 2);
}
