//! A mount shows what was stored.

use std::sync::Barrier;

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, utimensat};

use super::{mount, romfs, small_image, world_with_image};
use crate::prelude::*;

#[test]
fn trees_of_all_kinds() {
    let small = TreeParams {
        block_size: BlockSize::from_log2(10).unwrap(),
        ..TreeParams::default()
    };
    for options in [
        BuildOptions {
            seal: Some(small),
            ..BuildOptions::default()
        },
        romfs(),
    ] {
        let world = needs!(world_with_image(&options));
        let expected = snapshot(&world.path("tree")).unwrap();
        let mnt = world.path("mnt");
        let mounted = mount(&world.path("image"), &mnt);
        assert_same(&snapshot(&mnt).unwrap(), &expected);
        mounted.unmount();
    }
}

/// As the kernel shows a romfs image.
#[test]
fn modes_and_sizes() {
    let world = needs!(world_with_image(&romfs()));
    let mounted = mount(&world.path("image"), &world.path("mnt"));
    let mut modes = vec![
        ("", 0o040_755),
        ("bin/program", 0o100_755),
        ("data", 0o040_755),
        ("data/large", 0o100_644),
        ("a link", 0o120_777),
        ("fifo", 0o010_644),
        ("socket", 0o140_644),
    ];
    if is_root() {
        modes.extend([("null", 0o020_600), ("disk", 0o060_600)]);
    }
    for (name, mode) in modes {
        let metadata = fs::symlink_metadata(mounted.path(name)).unwrap();
        assert_eq!(metadata.mode(), mode, "{name}: {:o}", metadata.mode());
        assert_eq!(metadata.mtime(), 0, "{name}");
    }
    let large = fs::metadata(mounted.path("data/large")).unwrap();
    assert_eq!(large.size(), 1_300_001);
    assert_eq!(large.blocks(), 1_300_001_u64.div_ceil(512));
    mounted.unmount();
}

/// They are part of the tree, but give no access to the machine's devices, not even to root.
#[test]
fn devices_are_listed_but_cannot_be_opened() {
    needs!(root_or_skip());
    let world = needs!(world_with_image(&BuildOptions::default()));
    let mounted = mount(&world.path("image"), &world.path("mnt"));
    let null = fs::metadata(mounted.path("null")).unwrap();
    assert_eq!(null.rdev(), fs::metadata("/dev/null").unwrap().rdev());
    for device in ["null", "disk"] {
        let opened = File::open(mounted.path(device));
        assert_eq!(error_of(opened), Errno::ACCESS);
    }
    mounted.unmount();
}

#[test]
fn nothing_can_be_written() {
    let world = needs!(world_with_image(&BuildOptions::default()));
    let mounted = mount(&world.path("image"), &world.path("mnt"));
    let path = |name| mounted.path(name);
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    let attempts = [
        ("create", File::create_new(path("new")).map(drop)),
        ("create below", File::create_new(path("data/new")).map(drop)),
        (
            "open",
            FileOptions::new()
                .write(true)
                .open(path("data/large"))
                .map(drop),
        ),
        (
            "append",
            FileOptions::new()
                .append(true)
                .open(path("empty file"))
                .map(drop),
        ),
        ("truncate", File::create(path("data/large")).map(drop)),
        ("mkdir", fs::create_dir(path("folder"))),
        ("unlink", fs::remove_file(path("empty file"))),
        ("rmdir", fs::remove_dir(path("empty/inside"))),
        ("rename", fs::rename(path("data/large"), path("data/other"))),
        (
            "link",
            fs::hard_link(path("data/large"), path("data/other")),
        ),
        ("symlink", std::os::unix::fs::symlink("target", path("new"))),
        (
            "chmod",
            fs::set_permissions(path("data"), fs::Permissions::from_mode(0o777)),
        ),
        (
            "chown",
            std::os::unix::fs::chown(path("data"), Some(1), None),
        ),
        (
            "utime",
            utimensat(CWD, path("data"), &times, AtFlags::empty()).map_err(Into::into),
        ),
    ];
    for (what, attempt) in attempts {
        let number = error_of(attempt);
        assert_eq!(number, Errno::ROFS, "{what}");
    }
    assert_same(
        &snapshot(mounted.directory()).unwrap(),
        &snapshot(&world.path("tree")).unwrap(),
    );
    mounted.unmount();
}

#[test]
fn a_missing_file_is_not_found() {
    let world = needs!(world_with_image(&BuildOptions::default()));
    let mounted = mount(&world.path("image"), &world.path("mnt"));
    for _ in 0..2 {
        for name in ["no such file", "data/no such file", "dangling"] {
            let number = error_of(fs::metadata(mounted.path(name)));
            assert_eq!(number, Errno::NOENT, "{name}");
        }
        let number = error_of(fs::metadata(mounted.path("data/large/x")));
        assert_eq!(number, Errno::NOTDIR);
    }
    mounted.unmount();
}

/// Pieces of all sizes at all positions, in random order.
#[test]
fn any_piece_of_a_file() {
    let world = needs!(World::with_mount_point());
    let content = noise(5_000_003, 1);
    let file = world.write("file", &content);
    seal(&file, &SealOptions::default()).unwrap();
    let mounted = mount(&file, &world.path("mnt"));
    let opened = File::open(mounted.path("file")).unwrap();
    let seed = seed();
    let len = content.len() as u64;
    let starts = random_numbers(500, len + 10_000, seed);
    let lengths = random_numbers(500, 300_000, seed ^ 1);
    for (start, len) in starts.into_iter().zip(lengths) {
        let mut bytes = vec![0; len as usize];
        let mut read = 0;
        while let more @ 1.. = opened
            .read_at(&mut bytes[read..], start + read as u64)
            .unwrap()
        {
            read += more;
        }
        let start = content.len().min(start as usize);
        let end = content.len().min(start + len as usize);
        assert!(bytes[..read] == content[start..end], "{start}, {len}");
    }
    drop(opened);
    mounted.unmount();
}

#[test]
fn concurrent_readers_get_the_right_bytes() {
    const READERS: usize = 8;
    let world = needs!(World::with_mount_point());
    let content = noise(16 << 20, 1);
    let file = world.write("file", &content);
    let options = SealOptions {
        append: true,
        ..SealOptions::default()
    };
    seal(&file, &options).unwrap();
    let mounted = mount(&file, &world.path("mnt"));
    let path = mounted.path("file");
    let start = Barrier::new(READERS);
    thread::scope(|scope| {
        for reader in 0..READERS {
            let (path, start, content) = (&path, &start, &content);
            scope.spawn(move || {
                start.wait();
                // Each begins somewhere else, in pieces of its own size.
                let opened = File::open(path).unwrap();
                let piece = 10_000 * (reader + 1);
                let mut bytes = vec![0; piece];
                let begin = reader * content.len() / READERS;
                for step in 0..content.len() / piece {
                    let at = (begin + step * piece) % (content.len() - piece);
                    opened.read_exact_at(&mut bytes, at as u64).unwrap();
                    assert!(bytes == content[at..at + piece], "{reader}: {at}");
                }
            });
        }
    });
    mounted.unmount();
}

/// A part of a listing has some hundred entries at most.
#[test]
fn a_large_directory() {
    let world = needs!(World::with_mount_point());
    let tree = world.directory("tree");
    for number in 0..5000 {
        fs::write(tree.join(format!("{number:0>50}")), number.to_string()).unwrap();
    }
    let image = world.path("image");
    build(&tree, &image, &BuildOptions::default()).unwrap();
    let mounted = mount(&image, &world.path("mnt"));
    assert_eq!(fs::read_dir(mounted.directory()).unwrap().count(), 5000);
    let status = mounted.json();
    // With attributes, which nobody asked for, it would be 33 parts.
    let parts = status["requests"]["readdir"].as_u64().unwrap();
    assert!(parts < 25, "{parts}");
    assert_same(
        &snapshot(mounted.directory()).unwrap(),
        &snapshot(&tree).unwrap(),
    );
    mounted.unmount();
}

#[test]
fn one_image_mounted_twice() {
    let world = needs!(World::with_mount_point());
    let image = small_image(&world);
    let other = world.directory("other");
    let first = mount(&image, &world.path("mnt"));
    let second = mount(&image, &other);
    for mounted in [first, second] {
        assert_eq!(fs::read(mounted.path(HELLO)).unwrap(), b"Hello, world!\n");
        mounted.unmount();
    }
}
