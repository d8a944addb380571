//! Operations on content: reading, writing, mapping, allocating, copying.

use std::os::fd::AsRawFd;

use rustix::fs::{
    FlockOperation, SeekFrom, copy_file_range, fcntl_lock, flock, linkat, openat, seek,
};

use super::{WAYS, mount_in, truncate};
use crate::prelude::*;

fn open(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options.open(path).unwrap()
}

#[test]
fn content_is_the_sources() {
    let content = noise(3_000_001, 1);
    for way in WAYS {
        let world = needs!(World::with_source());
        fs::write(world.path("src/read"), &content).unwrap();
        let mounted = mount_in(&world, way);
        assert!(fs::read(mounted.path("read")).unwrap() == content);
        fs::write(mounted.path("written"), &content).unwrap();
        assert!(fs::read(world.path("src/written")).unwrap() == content);
        let file = open(&mounted.path("written"));
        file.write_all_at(b"middle", 1_000_000).unwrap();
        file.set_len(2_000_000).unwrap();
        file.set_len(2_500_000).unwrap();
        file.write_all_at(b"end", 2_600_000).unwrap();
        drop(file);
        let mut expected = content.clone();
        expected[1_000_000..1_000_006].copy_from_slice(b"middle");
        expected.truncate(2_000_000);
        expected.resize(2_600_000, 0);
        expected.extend(b"end");
        assert!(fs::read(mounted.path("written")).unwrap() == expected);
        assert!(fs::read(world.path("src/written")).unwrap() == expected);
        // Truncated as it is opened, and by its name alone.
        File::create(mounted.path("written")).unwrap();
        assert_eq!(fs::metadata(world.path("src/written")).unwrap().len(), 0);
        if let Some(truncated) = truncate(&mounted.path("read")) {
            truncated.succeeds();
            assert_eq!(fs::read(world.path("src/read")).unwrap(), content[..7]);
        }
        mounted.unmount();
    }
}

/// Changes a file through a mapping, and reads through one what another descriptor writes.
const MAPPED: &str = "
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
other = os.open(sys.argv[1], os.O_RDWR)
with mmap.mmap(fd, 100000) as pages:
    pages[0:3] = b'new'
    pages[70000:70003] = b'map'
    pages.flush()
    assert os.pread(other, 3, 70000) == b'map'
    os.pwrite(other, b'pen', 50000)
    assert pages[50000:50003] == b'pen'
    pages[99999:100000] = b'!'
";

#[test]
fn mappings_are_files() {
    for way in WAYS {
        let world = needs!(World::with_source());
        let mut content = noise(100_000, 1);
        fs::write(world.path("src/file"), &content).unwrap();
        let mounted = mount_in(&world, way);
        let mapped = needs!(python(MAPPED, &[&mounted.path("file")]));
        mapped.succeeds();
        for (offset, new) in [(0, "new"), (50_000, "pen"), (70_000, "map"), (99_999, "!")] {
            content[offset..][..new.len()].copy_from_slice(new.as_bytes());
        }
        assert!(fs::read(world.path("src/file")).unwrap() == content);
        mounted.unmount();
    }
}

#[test]
fn direct_io() {
    let content = noise(1 << 20, 1);
    for way in WAYS {
        let world = needs!(World::with_source());
        fs::write(world.path("src/file"), &content).unwrap();
        let mounted = mount_in(&world, way);
        let direct = OFlags::DIRECT.bits() as i32;
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .custom_flags(direct)
            .open(mounted.path("file"));
        // As the source's file system likes it.
        let native = options.open(world.path("src/file"));
        assert_eq!(file.is_ok(), native.is_ok());
        if let Ok(file) = file {
            let mut buffer = vec![0; (1 << 20) + 4096];
            let skip = buffer.as_ptr().align_offset(4096);
            let read = file.read_at(&mut buffer[skip..][..1 << 20], 0).unwrap();
            assert!(buffer[skip..][..read] == content[..read] && read > 0);
        }
        mounted.unmount();
    }
}

#[test]
fn files_without_names() {
    for way in WAYS {
        let world = needs!(World::with_source());
        let mounted = mount_in(&world, way);
        let make = |flags| openat(CWD, mounted.directory(), flags, Mode::RUSR | Mode::WUSR);
        let file = match make(OFlags::TMPFILE | OFlags::RDWR) {
            Err(Errno::OPNOTSUPP) => return skip("the file system has none"),
            file => File::from(file.unwrap()),
        };
        file.write_all_at(b"content", 0).unwrap();
        assert_eq!(fs::read_dir(mounted.directory()).unwrap().count(), 0);
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let link = |to: &str| linkat(CWD, &*path, CWD, mounted.path(to), AtFlags::SYMLINK_FOLLOW);
        link("named").unwrap();
        assert_eq!(fs::read(world.path("src/named")).unwrap(), b"content");
        let never = make(OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL).unwrap();
        let path = format!("/proc/self/fd/{}", never.as_raw_fd());
        let linked = linkat(
            CWD,
            &*path,
            CWD,
            mounted.path("no"),
            AtFlags::SYMLINK_FOLLOW,
        );
        assert_eq!(linked, Err(Errno::NOENT));
        drop((file, never));
        mounted.unmount();
    }
}

/// Space is allocated and freed, and holes are reported, as in the source.
#[test]
fn allocation_and_holes() {
    type Step = fn(&File) -> rustix::io::Result<u64>;
    const STEPS: &[Step] = &[
        |file| fallocate(file, FallocateFlags::empty(), 0, 1 << 20).map(|()| 0),
        |file| fallocate(file, FallocateFlags::KEEP_SIZE, 1 << 20, 1 << 20).map(|()| 0),
        |file| Ok(rustix::fs::fstat(file)?.st_size as u64),
        |file| rustix::io::pwrite(file, &[1; 65_536], 262_144).map(|len| len as u64),
        |file| punch(file, 65_536, 65_536),
        |file| fallocate(file, FallocateFlags::ZERO_RANGE, 0, 4096).map(|()| 0),
        |file| fallocate(file, FallocateFlags::PUNCH_HOLE, 0, 65_536).map(|()| 0),
        |file| Ok(rustix::fs::fstat(file)?.st_size as u64),
        |file| rustix::fs::ftruncate(file, 3 << 20).map(|()| 0),
        |file| seek(file, SeekFrom::Data(0)),
        |file| seek(file, SeekFrom::Hole(0)),
        |file| seek(file, SeekFrom::Hole(300_000)),
        |file| seek(file, SeekFrom::Data(2 << 20)),
        |file| seek(file, SeekFrom::Hole(4 << 20)),
        |file| fallocate(file, FallocateFlags::empty(), 0, 0).map(|()| 0),
    ];
    fn punch(file: &File, offset: u64, len: u64) -> rustix::io::Result<u64> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(file, flags, offset, len).map(|()| 0)
    }
    for way in WAYS {
        let world = needs!(World::with_source());
        let mounted = mount_in(&world, way);
        let (native, mirrored) = (open(&world.path("src/native")), open(&mounted.path("file")));
        for (number, step) in STEPS.iter().enumerate() {
            assert_eq!(step(&mirrored), step(&native), "step {number}");
        }
        drop((native, mirrored));
        let content = |name: &str| fs::read(world.path(name)).unwrap();
        assert!(content("src/file") == content("src/native"));
        mounted.unmount();
    }
}

#[test]
fn ranges_are_copied() {
    let content = noise(1_000_000, 1);
    for way in WAYS {
        let world = needs!(World::with_source());
        fs::write(world.path("src/from"), &content).unwrap();
        let mounted = mount_in(&world, way);
        let (from, to) = (open(&mounted.path("from")), open(&mounted.path("to")));
        // So that pages of it are cached, and must not be believed after.
        to.write_all_at(&[0; 500_000], 0).unwrap();
        assert_eq!(fs::read(mounted.path("to")).unwrap().len(), 500_000);
        let (mut read, mut written) = (100, 200_000);
        let mut left = 700_000;
        while left > 0 {
            let copied =
                copy_file_range(&from, Some(&mut read), &to, Some(&mut written), left).unwrap();
            assert!(copied > 0);
            left -= copied;
        }
        let mut expected = vec![0; 200_000];
        expected.extend(&content[100..700_100]);
        assert!(fs::read(mounted.path("to")).unwrap() == expected);
        assert!(fs::read(world.path("src/to")).unwrap() == expected);
        drop((from, to));
        mounted.unmount();
    }
}

#[test]
fn locks_hold_between_users_of_the_mount() {
    for way in WAYS {
        let world = needs!(World::with_source());
        fs::write(world.path("src/file"), "content").unwrap();
        let mounted = mount_in(&world, way);
        let (first, second) = (open(&mounted.path("file")), open(&mounted.path("file")));
        flock(&first, FlockOperation::LockExclusive).unwrap();
        let taken = flock(&second, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(taken, Err(Errno::WOULDBLOCK));
        flock(&first, FlockOperation::Unlock).unwrap();
        flock(&second, FlockOperation::NonBlockingLockExclusive).unwrap();
        fcntl_lock(&first, FlockOperation::NonBlockingLockExclusive).unwrap();
        drop((first, second));
        mounted.unmount();
    }
}

#[test]
fn an_open_allows_only_its_access_mode() {
    for way in WAYS {
        let world = needs!(World::with_source());
        fs::write(world.path("src/file"), "content").unwrap();
        let mounted = mount_in(&world, way);
        let reader = File::open(mounted.path("file")).unwrap();
        assert_eq!(error_of(reader.write_at(b"x", 0)), Errno::BADF);
        assert_eq!(error_of(reader.set_len(0)), Errno::INVAL);
        let mut options = OpenOptions::new();
        let writer = options.write(true).open(mounted.path("file")).unwrap();
        assert_eq!(error_of(writer.read_at(&mut [0], 0)), Errno::BADF);
        let copied = copy_file_range(&writer, None, &writer, None, 1);
        assert_eq!(error_of(copied.map_err(io::Error::from)), Errno::BADF);
        drop((reader, writer));
        assert_eq!(fs::read(mounted.path("file")).unwrap(), b"content");
        mounted.unmount();
    }
}
