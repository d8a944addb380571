use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{ErrorKind, IoSlice},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, symlink},
    thread,
};

use rustix::{
    fs::{OFlags, XattrFlags, getxattr, getxattr_query, listxattr, removexattr, setxattr},
    io::{Errno, ReadWriteFlags, pwritev2},
};
use verimount_testkit::{error_of, eventually};

use crate::{
    memory_fs::PANIC,
    mounted::{Mounted, with_each},
};

/// `len` bytes that differ with `seed`.
fn content(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 31 + seed) % 251) as u8).collect()
}

#[test]
fn names() {
    with_each(|mounted| {
        assert_eq!(
            error_of(fs::metadata(mounted.path("missing"))),
            Errno::NOENT
        );
        fs::write(mounted.path("file"), "content").unwrap();
        fs::create_dir(mounted.path("directory")).unwrap();
        assert_eq!(
            error_of(fs::create_dir(mounted.path("directory"))),
            Errno::EXIST
        );
        fs::rename(mounted.path("file"), mounted.path("directory/moved")).unwrap();
        let moved = fs::metadata(mounted.path("directory/moved")).unwrap();
        assert_eq!((moved.len(), moved.mode() & 0o170_777), (7, 0o100_644));
        symlink("directory/moved", mounted.path("link")).unwrap();
        assert_eq!(fs::read(mounted.path("link")).unwrap(), b"content");
        // An operation that the file system does not implement fails.
        assert_eq!(
            error_of(fs::remove_dir(mounted.path("directory"))),
            Errno::NOSYS
        );
        fs::remove_file(mounted.path("directory/moved")).unwrap();
        assert_eq!(error_of(fs::read(mounted.path("link"))), Errno::NOENT);
    });
}

#[test]
fn a_read_says_whether_it_is_for_the_page_cache() {
    with_each(|mounted| {
        fs::write(mounted.path("file"), content(9000, 1)).unwrap();
        for (flags, is_cached) in [(OFlags::DIRECT, false), (OFlags::empty(), true)] {
            mounted.fs.cached_reads.lock().unwrap().clear();
            let mut file = File::options();
            let file = file.read(true).custom_flags(flags.bits().cast_signed());
            let file = file.open(mounted.path("file")).unwrap();
            assert_eq!(file.read_at(&mut [0; 4096], 4096).unwrap(), 4096);
            let reads = mounted.fs.cached_reads.lock().unwrap().clone();
            assert!(!reads.is_empty());
            assert!(reads.iter().all(|read| *read == is_cached), "{reads:?}");
        }
    });
}

#[test]
fn the_longest_name() {
    with_each(|mounted| {
        let name = "n".repeat(255);
        fs::write(mounted.path(&name), "").unwrap();
        assert!(mounted.path(&name).exists());
        let target = "t".repeat(4095);
        symlink(&target, mounted.path("link")).unwrap();
        assert_eq!(
            fs::read_link(mounted.path("link")).unwrap().as_os_str(),
            &*target
        );
    });
}

#[test]
fn listings() {
    with_each(|mounted| {
        let expected: BTreeSet<_> = (0..3000).map(|i| format!("a name {i}")).collect();
        for name in &expected {
            fs::write(mounted.path(name), name).unwrap();
        }
        // The first time with attributes, then as the kernel chooses.
        for _ in 0..2 {
            let mut found = BTreeSet::new();
            for entry in fs::read_dir(mounted.root()).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                assert_eq!(entry.metadata().unwrap().len(), name.len() as u64);
                found.insert(name);
            }
            assert_eq!(found, expected);
        }
    });
}

/// Writes and reads `size` bytes, with `flags` of `open`.
fn write_and_read(mounted: &Mounted, size: usize, flags: OFlags) {
    let mut options = File::options();
    let options = options.read(true).write(true).create(true);
    let options = options.custom_flags(flags.bits() as i32);
    let file = options.open(mounted.path("file")).unwrap();
    let written = content(size, size);
    assert_eq!(file.write_at(&written, 3).unwrap(), size);
    let mut read = vec![1; size + 10];
    assert_eq!(file.read_at(&mut read, 0).unwrap(), size + 3);
    assert_eq!(read[..3], [0; 3]);
    assert!(read[3..size + 3] == written, "{size}");
    assert_eq!(file.read_at(&mut read, size as u64 + 2).unwrap(), 1);
    assert_eq!(file.read_at(&mut read, size as u64 + 3).unwrap(), 0);
    file.set_len(2).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 2);
    fs::remove_file(mounted.path("file")).unwrap();
}

#[test]
fn contents_of_all_sizes() {
    const SIZES: [usize; 10] = [
        1, 7, 8, 4095, 4096, 4097, 65_536, 100_000, 1_048_575, 1_048_576,
    ];
    with_each(|mounted| {
        for size in SIZES {
            // With read-ahead, and with a request for each access.
            write_and_read(mounted, size, OFlags::empty());
            write_and_read(mounted, size, OFlags::DIRECT);
        }
    });
}

#[test]
fn writes_have_the_flags_of_their_file_and_their_own() {
    // The older bit of `O_SYNC`; rustix has no correct constant for it.
    const O_DSYNC: OFlags = OFlags::from_bits_retain(0o10_000);
    const O_SYNC: OFlags = OFlags::SYNC;
    const RWF_DSYNC: ReadWriteFlags = ReadWriteFlags::DSYNC;
    const RWF_SYNC: ReadWriteFlags = ReadWriteFlags::SYNC;
    let (open, write) = (OFlags::empty(), ReadWriteFlags::empty());
    with_each(|mounted| {
        let path = mounted.path("file");
        fs::write(&path, "content").unwrap();
        for direct in [OFlags::empty(), OFlags::DIRECT] {
            for (open, write, expected) in [
                (open, write, write),
                (O_DSYNC, write, RWF_DSYNC),
                (O_SYNC, write, RWF_SYNC),
                (open, RWF_DSYNC, RWF_DSYNC),
                (open, RWF_SYNC, RWF_SYNC),
                (O_DSYNC, RWF_SYNC, RWF_SYNC),
                (OFlags::APPEND, write, ReadWriteFlags::APPEND),
            ] {
                mounted.fs.write_flags.lock().unwrap().clear();
                let mut options = File::options();
                let options = options
                    .write(true)
                    .custom_flags((open | direct).bits() as i32);
                let file = options.open(&path).unwrap();
                let written = pwritev2(&file, &[IoSlice::new(b"C")], 0, write);
                assert_eq!(written, Ok(1));
                let flags = mounted.fs.write_flags.lock().unwrap();
                assert_eq!(*flags, [expected], "{direct:?} {open:?} {write:?}");
            }
        }
    });
}

#[test]
fn extended_attributes() {
    with_each(|mounted| {
        let path = mounted.path("file");
        fs::write(&path, "").unwrap();
        let mut buffer = vec![0; 65_536];
        assert_eq!(
            getxattr(&path, "user.none", &mut *buffer),
            Err(Errno::NODATA)
        );
        for size in [0, 1, 1000, 65_536] {
            let value = content(size, 1);
            setxattr(&path, "user.name", &value, XattrFlags::empty()).unwrap();
            assert_eq!(getxattr(&path, "user.name", &mut *buffer), Ok(size));
            assert!(buffer[..size] == value);
        }
        assert_eq!(getxattr_query(&path, "user.name"), Ok(65_536));
        assert_eq!(getxattr(&path, "user.name", &mut [0; 9]), Err(Errno::RANGE));
        assert_eq!(listxattr(&path, &mut *buffer), Ok(10));
        assert_eq!(buffer[..10], *b"user.name\0");
        removexattr(&path, "user.name").unwrap();
        assert_eq!(listxattr(&path, &mut *buffer), Ok(0));
    });
}

#[test]
fn concurrent_clients() {
    with_each(|mounted| {
        thread::scope(|scope| {
            for client in 0..8 {
                scope.spawn(move || {
                    let path = mounted.path(&client.to_string());
                    for round in 0..100 {
                        let written = content(client * 5000 + round, client + round);
                        fs::write(&path, &written).unwrap();
                        assert!(fs::read(&path).unwrap() == written);
                        assert_eq!(fs::metadata(&path).unwrap().len(), written.len() as u64);
                        fs::remove_file(&path).unwrap();
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(mounted.root()).unwrap().count(), 0);
    });
}

#[test]
fn removed_files_are_forgotten() {
    with_each(|mounted| {
        let paths: Vec<_> = (0..100).map(|i| mounted.path(&i.to_string())).collect();
        for path in &paths {
            fs::write(path, "").unwrap();
            assert!(path.exists());
        }
        assert!(mounted.fs.remembered() >= paths.len());
        for path in &paths {
            fs::remove_file(path).unwrap();
        }
        // The kernel forgets at some later time.
        eventually("they are forgotten", || mounted.fs.remembered() == 0);
    });
}

#[test]
fn a_panic_is_an_error() {
    with_each(|mounted| {
        let path = mounted.path(PANIC);
        fs::write(&path, "content").unwrap();
        for _ in 0..10 {
            assert_eq!(error_of(fs::read(&path)), Errno::IO);
        }
        fs::rename(&path, mounted.path("harmless")).unwrap();
        assert_eq!(fs::read(mounted.path("harmless")).unwrap(), b"content");
        assert_eq!(fs::metadata(&path).unwrap_err().kind(), ErrorKind::NotFound);
    });
}
