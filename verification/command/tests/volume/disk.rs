//! The disk of a mounted volume behaves like a block device, and never returns wrong data.

use super::{MODES, format, json, mount, open_disk};
use crate::prelude::*;

/// A volume with all options, with keys and data in other files.
#[test]
fn all_format_options_together() {
    let world = needs!(World::with_mount_point());
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
        assert!(read_at(&disk, 777, content.len()).unwrap() == content);
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

/// Exactly the block that was changed cannot be read; it can be written again.
#[test]
fn a_changed_byte_is_noticed() {
    for mode in MODES {
        let world = needs!(World::with_mount_point());
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
            match read_at(&disk, at as u64, 4096) {
                Ok(bytes) => assert!(bytes == content[at..at + 4096] && at != bad, "{at}"),
                Err(error) => {
                    assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
                    assert_eq!(at, bad);
                }
            }
        }
        assert_eq!(error_of(read_at(&disk, 0, 1 << 20)), Errno::IO);
        // What is kept of the block is not known.
        assert_eq!(error_of(disk.write_at(b"part", bad as u64)), Errno::IO);
        let status = json(args!["status --json", mounted.directory()], 1);
        assert_eq!(status["mismatches"], 3);
        disk.write_all_at(&content[bad..bad + 4096], bad as u64)
            .unwrap();
        assert!(read_at(&disk, 0, 1 << 20).unwrap() == content);
        drop(disk);
        let log = mounted.unmount();
        let line = log.lines().find(|line| line.contains("ERROR")).unwrap();
        for word in ["sector=1368 ", "expected=", "actual="] {
            assert!(line.contains(word), "{line}");
        }
    }
}

#[test]
fn the_status_has_statistics() {
    let world = needs!(World::with_mount_point());
    format(&world, &[]);
    let mounted = mount(&world, &["--mode", "direct"]);
    let disk = open_disk(&mounted);
    disk.write_all_at(&[1; 65536], 0).unwrap();
    disk.sync_all().unwrap();
    read_at(&disk, 0, 8192).unwrap();
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
    let world = needs!(World::with_mount_point());
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
        assert_eq!(read_at(&disk, 0, 8192).unwrap(), changed);
        drop(disk);
        mounted.unmount();
    });
}
