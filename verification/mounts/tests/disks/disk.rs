//! The disk of a mounted volume behaves like a block device.

use std::io::IoSlice;

use rustix::io::{ReadWriteFlags, pwritev2};

use super::{MODES, Mode, format, mount, open_directly, open_disk};
use crate::prelude::*;

#[test]
fn writes_persist() {
    let content = noise(3_000_001, 1);
    for mode in MODES {
        let world = needs!(World::with_mount_point());
        let path = world.path("vol.img");
        format(&path, 16);
        let mounted = mount(&world, mode);
        let disk = open_disk(&mounted);
        assert_eq!(read_at(&disk, 0, 1 << 20).unwrap(), vec![0; 1 << 20]);
        disk.write_all_at(&content, 123_457).unwrap();
        assert!(read_at(&disk, 123_457, content.len()).unwrap() == content);
        disk.sync_all().unwrap();
        drop(disk);
        mounted.unmount();
        // The mode is anybody's choice each time.
        for mode in MODES {
            let mounted = mount(&world, mode);
            assert!(read_at(&open_disk(&mounted), 123_457, content.len()).unwrap() == content);
            mounted.unmount();
        }
    }
}

#[test]
fn it_looks_like_its_volume() {
    let world = needs!(World::with_mount_point());
    let path = world.path("vol.img");
    format(&path, 16);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let mounted = mount(&world, Mode::Journal);
    let names = fs::read_dir(&mounted.place).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["disk"]);
    let (disk, volume) = (
        fs::metadata(mounted.path("disk")).unwrap(),
        fs::metadata(&path).unwrap(),
    );
    assert_eq!(disk.len(), mounted.volume.size());
    assert_eq!(disk.mode(), volume.mode());
    assert_eq!((disk.uid(), disk.gid()), (volume.uid(), volume.gid()));
    error_of(fs::metadata(mounted.path("other")));
    error_of(File::create(mounted.path("other")));
    error_of(fs::remove_file(mounted.path("disk")));
    error_of(fs::set_permissions(
        mounted.path("disk"),
        fs::Permissions::from_mode(0o666),
    ));
    mounted.unmount();
}

/// It gets neither longer nor shorter by any open or write.
#[test]
fn its_size_is_fixed() {
    let world = needs!(World::with_mount_point());
    format(&world.path("vol.img"), 16);
    let mounted = mount(&world, Mode::Journal);
    let disk = open_disk(&mounted);
    let size = disk.metadata().unwrap().len();
    disk.write_all_at(b"content", 0).unwrap();
    drop(File::create(mounted.path("disk")).unwrap());
    assert_eq!(fs::metadata(mounted.path("disk")).unwrap().len(), size);
    assert_eq!(read_at(&disk, 0, 7).unwrap(), b"content");
    disk.set_len(size).unwrap();
    assert_eq!(error_of(disk.set_len(size + 1)), Errno::INVAL);
    assert_eq!(error_of(disk.set_len(size - 1)), Errno::INVAL);
    assert_eq!(disk.write_at(b"content", size - 3).unwrap(), 3);
    assert_eq!(error_of(disk.write_at(b"content", size)), Errno::NOSPC);
    let mut appending = FileOptions::new()
        .append(true)
        .open(mounted.path("disk"))
        .unwrap();
    let appended = std::io::Write::write(&mut appending, b"content");
    assert_eq!(error_of(appended), Errno::NOSPC);
    // Linux has it since 6.9.
    let no_append = ReadWriteFlags::from_bits_retain(0x20);
    match pwritev2(&appending, &[IoSlice::new(b"C")], 0, no_append) {
        Err(Errno::OPNOTSUPP) => skip("there is no RWF_NOAPPEND"),
        written => {
            assert_eq!(written, Ok(1));
            assert_eq!(read_at(&disk, 0, 7).unwrap(), b"Content");
        }
    }
    assert_eq!(read_at(&disk, size - 3, 3).unwrap(), b"con");
    assert_eq!(disk.read_at(&mut [0; 10], size - 3).unwrap(), 3);
    assert_eq!(disk.read_at(&mut [0; 10], size).unwrap(), 0);
    assert_eq!(disk.metadata().unwrap().len(), size);
    drop((disk, appending));
    mounted.unmount();
}

#[test]
fn parts_are_made_zero() {
    for mode in MODES {
        let world = needs!(World::with_mount_point());
        format(&world.path("vol.img"), 16);
        let mounted = mount(&world, mode);
        let disk = open_disk(&mounted);
        let content = noise(1 << 20, 1);
        disk.write_all_at(&content, 0).unwrap();
        fallocate(&disk, FallocateFlags::ZERO_RANGE, 10_000, 500_000).unwrap();
        let mut expected = content.clone();
        expected[10_000..510_000].fill(0);
        assert!(read_at(&disk, 0, 1 << 20).unwrap() == expected);
        // Discards are to be asked for.
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert_eq!(fallocate(&disk, punch, 0, 4096), Err(Errno::OPNOTSUPP));
        fallocate(&disk, FallocateFlags::empty(), 0, 4096).unwrap();
        let size = disk.metadata().unwrap().len();
        let past_end = fallocate(&disk, FallocateFlags::ZERO_RANGE, size, 4096);
        assert_eq!(past_end, Err(Errno::NOSPC));
        assert!(read_at(&disk, 0, 1 << 20).unwrap() == expected);
        drop(disk);
        mounted.unmount();
    }
}

#[test]
fn direct_io_by_concurrent_users() {
    let world = needs!(World::with_mount_point());
    format(&world.path("vol.img"), 16);
    let mounted = mount(&world, Mode::Bitmap);
    let direct = open_directly(&mounted.path("disk"));
    thread::scope(|scope| {
        for writer in 0..8 {
            let direct = &direct;
            scope.spawn(move || {
                let mut memory = vec![0; 65536 + 4096];
                let skip = memory.as_ptr().align_offset(4096);
                let buffer = &mut memory[skip..skip + 65536];
                for round in 0..16 {
                    let place = (round * 8 + writer) * 65536;
                    buffer.copy_from_slice(&noise(65536, place));
                    direct.write_all_at(buffer, place).unwrap();
                }
            });
        }
    });
    drop(direct);
    let disk = open_disk(&mounted);
    for place in (0..128).map(|number| number * 65536) {
        assert!(read_at(&disk, place, 65536).unwrap() == noise(65536, place));
    }
    drop(disk);
    mounted.unmount();
}

/// A part of the storage is missing. The rest can still be read and written.
#[test]
fn a_part_that_cannot_be_read() {
    for mode in MODES {
        let world = needs!(World::with_mount_point());
        let path = world.path("vol.img");
        format(&path, 16);
        let mounted = mount(&world, mode);
        let disk = open_disk(&mounted);
        let file = FileOptions::new().write(true).open(&path).unwrap();
        file.set_len(8 << 20).unwrap();
        assert_eq!(error_of(read_at(&disk, 12 << 20, 4096)), Errno::IO);
        let content = noise(1 << 20, 1);
        disk.write_all_at(&content, 0).unwrap();
        disk.sync_all().unwrap();
        assert!(read_at(&disk, 0, content.len()).unwrap() == content);
        let status = mounted.status();
        assert!(status["failure"].is_null(), "{status}");
        drop(disk);
        mounted.unmount();
    }
}
