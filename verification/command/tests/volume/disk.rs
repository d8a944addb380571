//! The disk of a mounted volume behaves like a block device, and never returns wrong data.

use std::io::IoSlice;

use rustix::io::{ReadWriteFlags, pwritev2};

use super::{
    MODES, error_of, flip_where, format, json, mount, open_directly, open_disk, read, world,
};
use crate::prelude::*;

#[test]
fn writes_persist() {
    let content = noise(3_000_001, 1);
    for mode in MODES {
        let world = needs!(world());
        let path = format(&world, &[]);
        let mounted = mount(&world, &["--mode", mode]);
        let disk = open_disk(&mounted);
        assert_eq!(read(&disk, 0, 1 << 20).unwrap(), vec![0; 1 << 20]);
        disk.write_all_at(&content, 123_457).unwrap();
        assert!(read(&disk, 123_457, content.len()).unwrap() == content);
        disk.sync_all().unwrap();
        drop(disk);
        mounted.unmount();
        verimount(args!["volume check", &path]).succeeds_quietly();
        // The mode is anybody's choice each time.
        for mode in MODES {
            let mounted = mount(&world, &["--mode", mode]);
            assert!(read(&open_disk(&mounted), 123_457, content.len()).unwrap() == content);
            mounted.unmount();
        }
    }
}

/// A volume with all options, with keys and data in other files.
#[test]
fn all_format_options_together() {
    let world = needs!(world());
    let (key, journal_key) = (
        world.write("key", noise(32, 1)),
        world.write("journal key", noise(64, 2)),
    );
    let (tags, data) = (world.path("vol.img"), world.path("data"));
    for (path, size) in [(&tags, 8 << 20), (&data, 16 << 20)] {
        File::create(path).unwrap().set_len(size).unwrap();
    }
    let options = [
        ("--integrity", "hmac-sha256"),
        ("--integrity-key-file", key.to_str().unwrap()),
        ("--journal-integrity", "hmac-sha512"),
        (
            "--journal-integrity-key-file",
            journal_key.to_str().unwrap(),
        ),
        ("--data-device", data.to_str().unwrap()),
    ];
    let options = options.map(|(name, value)| [name, value]).concat();
    let run = |command: &str, more: &[&str]| {
        let options = options.iter().chain(more).map(Into::into);
        let arguments = args!["volume", command, &tags].into_iter();
        verimount(arguments.chain(options))
    };
    run("format", &["--sector-size", "512"]).succeeds_quietly();
    let content = noise(1_000_001, 3);
    for mode in ["journal", "direct"] {
        let mounted = mount(&world, &[&options[..], &["--mode", mode]].concat());
        let disk = open_disk(&mounted);
        assert_eq!(disk.metadata().unwrap().len(), 16 << 20);
        disk.write_all_at(&content, 777).unwrap();
        assert!(read(&disk, 777, content.len()).unwrap() == content);
        drop(disk);
        mounted.unmount();
        run("check", &[]).succeeds_quietly();
    }
    assert_eq!(fs::read(&data).unwrap()[777..777 + content.len()], content);
    flip_where(&data, &content[1024 - 777..][..512]);
    // No line tells the tag that the changed block would have to have.
    let checked = run("check", &[]);
    checked.reports_bad_data();
    let line = "bad sectors 2..3: ";
    checked.says(line);
    checked.says("not shown (keyed)");
}

#[test]
fn it_looks_like_its_volume() {
    let world = needs!(world());
    let path = format(&world, &[]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let size = json(args!["volume info --json", &path], 0)["size"].clone();
    let mounted = mount(&world, &[]);
    let names = fs::read_dir(mounted.directory()).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["disk"]);
    let (disk, volume) = (
        fs::metadata(mounted.path("disk")).unwrap(),
        fs::metadata(&path).unwrap(),
    );
    assert_eq!(disk.len(), size);
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
    let world = needs!(world());
    format(&world, &[]);
    let mounted = mount(&world, &[]);
    let disk = open_disk(&mounted);
    let size = disk.metadata().unwrap().len();
    disk.write_all_at(b"content", 0).unwrap();
    drop(File::create(mounted.path("disk")).unwrap());
    assert_eq!(fs::metadata(mounted.path("disk")).unwrap().len(), size);
    assert_eq!(read(&disk, 0, 7).unwrap(), b"content");
    disk.set_len(size).unwrap();
    assert_eq!(error_of(disk.set_len(size + 1)), Errno::INVAL);
    assert_eq!(error_of(disk.set_len(size - 1)), Errno::INVAL);
    assert_eq!(disk.write_at(b"content", size - 3).unwrap(), 3);
    assert_eq!(error_of(disk.write_at(b"content", size)), Errno::NOSPC);
    let mut appending = OpenOptions::new()
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
            assert_eq!(read(&disk, 0, 7).unwrap(), b"Content");
        }
    }
    assert_eq!(read(&disk, size - 3, 3).unwrap(), b"con");
    assert_eq!(disk.read_at(&mut [0; 10], size - 3).unwrap(), 3);
    assert_eq!(disk.read_at(&mut [0; 10], size).unwrap(), 0);
    assert_eq!(disk.metadata().unwrap().len(), size);
    drop((disk, appending));
    mounted.unmount();
}

#[test]
fn parts_are_made_zero() {
    for mode in MODES {
        let world = needs!(world());
        format(&world, &[]);
        let mounted = mount(&world, &["--mode", mode]);
        let disk = open_disk(&mounted);
        let content = noise(1 << 20, 1);
        disk.write_all_at(&content, 0).unwrap();
        fallocate(&disk, FallocateFlags::ZERO_RANGE, 10_000, 500_000).unwrap();
        let mut expected = content.clone();
        expected[10_000..510_000].fill(0);
        assert!(read(&disk, 0, 1 << 20).unwrap() == expected);
        // Discards are to be asked for.
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert_eq!(fallocate(&disk, punch, 0, 4096), Err(Errno::OPNOTSUPP));
        fallocate(&disk, FallocateFlags::empty(), 0, 4096).unwrap();
        let size = disk.metadata().unwrap().len();
        let past_end = fallocate(&disk, FallocateFlags::ZERO_RANGE, size, 4096);
        assert_eq!(past_end, Err(Errno::NOSPC));
        assert!(read(&disk, 0, 1 << 20).unwrap() == expected);
        drop(disk);
        mounted.unmount();
    }
}

#[test]
fn direct_io_by_concurrent_users() {
    let world = needs!(world());
    format(&world, &[]);
    let mounted = mount(&world, &["--mode", "bitmap"]);
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
        assert!(read(&disk, place, 65536).unwrap() == noise(65536, place));
    }
    drop(disk);
    mounted.unmount();
}

/// Exactly the block that was changed cannot be read; it can be written again.
#[test]
fn a_changed_byte_is_noticed() {
    for mode in MODES {
        let world = needs!(world());
        let path = format(&world, &[]);
        let content = noise(1 << 20, 1);
        let mounted = mount(&world, &["--mode", mode]);
        open_disk(&mounted).write_all_at(&content, 0).unwrap();
        mounted.unmount();
        let mounted = mount(&world, &["--mode", mode]);
        let disk = open_disk(&mounted);
        let bad = 700_416;
        flip_where(&path, &content[bad..bad + 4096]);
        for at in (0..content.len()).step_by(4096) {
            match read(&disk, at as u64, 4096) {
                Ok(bytes) => assert!(bytes == content[at..at + 4096] && at != bad, "{at}"),
                Err(error) => {
                    assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
                    assert_eq!(at, bad);
                }
            }
        }
        assert_eq!(error_of(read(&disk, 0, 1 << 20)), Errno::IO);
        // What is kept of the block is not known.
        assert_eq!(error_of(disk.write_at(b"part", bad as u64)), Errno::IO);
        let status = json(args!["status --json", mounted.directory()], 1);
        assert_eq!(status["mismatches"], 3);
        disk.write_all_at(&content[bad..bad + 4096], bad as u64)
            .unwrap();
        assert!(read(&disk, 0, 1 << 20).unwrap() == content);
        drop(disk);
        let log = mounted.unmount();
        let line = log.lines().find(|line| line.contains("ERROR")).unwrap();
        for word in ["sector=1368 ", "expected=", "actual="] {
            assert!(line.contains(word), "{line}");
        }
    }
}

/// A part of the storage is missing. The rest can still be read and written.
#[test]
fn a_part_that_cannot_be_read() {
    for mode in MODES {
        let world = needs!(world());
        let path = format(&world, &[]);
        let mounted = mount(&world, &["--mode", mode]);
        let disk = open_disk(&mounted);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(8 << 20).unwrap();
        assert_eq!(error_of(read(&disk, 12 << 20, 4096)), Errno::IO);
        let content = noise(1 << 20, 1);
        disk.write_all_at(&content, 0).unwrap();
        disk.sync_all().unwrap();
        assert!(read(&disk, 0, content.len()).unwrap() == content);
        let status = json(args!["status --json", mounted.directory()], 0);
        assert!(status["failure"].is_null(), "{status}");
        drop(disk);
        mounted.unmount();
    }
}

#[test]
fn the_status_has_statistics() {
    let world = needs!(world());
    format(&world, &[]);
    let mounted = mount(&world, &["--mode", "direct"]);
    let disk = open_disk(&mounted);
    disk.write_all_at(&[1; 65536], 0).unwrap();
    disk.sync_all().unwrap();
    read(&disk, 0, 8192).unwrap();
    let status = json(args!["status --json", mounted.directory()], 0);
    assert_eq!(status["kind"], "volume");
    assert_eq!(status["mode"], "direct");
    assert_eq!(status["size"], disk.metadata().unwrap().len());
    assert_eq!(status["bytes_written"], 65536);
    assert_eq!(status["bytes_read"], 8192);
    assert_eq!(status["requests"]["write"], 1);
    assert_eq!(status["requests"]["flush"], 1);
    let shown = verimount(args!["status", mounted.directory()]);
    let shown = shown.succeeds_quietly().text();
    assert!(shown.contains("written        65536 bytes"), "{shown}");
    drop(disk);
    mounted.unmount();
}

/// To rescue volumes that no other mode opens: nothing is checked, nothing is changed.
#[test]
fn recovery_only_reads() {
    let world = needs!(world());
    let path = format(&world, &[]);
    let content = noise(8192, 1);
    let mounted = mount(&world, &["--mode", "direct"]);
    open_disk(&mounted).write_all_at(&content, 0).unwrap();
    mounted.unmount();
    flip_where(&path, &content[..4096]);
    world.unchanged_by(|| {
        let mounted = mount(&world, &["--mode", "recovery"]);
        let writing = OpenOptions::new().write(true).open(mounted.path("disk"));
        assert_eq!(error_of(writing), Errno::ROFS);
        let disk = File::open(mounted.path("disk")).unwrap();
        let mut changed = content.clone();
        changed[0] ^= 1;
        assert_eq!(read(&disk, 0, 8192).unwrap(), changed);
        drop(disk);
        mounted.unmount();
    });
}
