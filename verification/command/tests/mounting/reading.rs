//! A mount shows what was stored.

use std::sync::Barrier;

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, utimensat};

use super::{error_number, world, world_with_image};
use crate::prelude::*;

#[test]
fn the_whole_tree() {
    let world = needs!(world_with_image(&[]));
    let (image, mnt) = (world.path("image"), world.path("mnt"));
    let expected = snapshot(&world.path("tree")).unwrap();
    let digest = verimount(args!["digest", world.path("image")]);
    digest.succeeds();
    for options in [
        &["--unpinned"][..],
        &["--unpinned", "--threads", "1"],
        &["--unpinned", "--threads", "30"],
        &["--unpinned", "--block-size", "1K"],
        &["--unpinned", "--tree-cache", "0", "--tree-readahead", "off"],
        &["--unverified"],
    ] {
        let mounted = Daemon::mount(&image, &mnt, options);
        // Once from the storage, once as the kernel has it.
        for _ in 0..2 {
            assert_same(&snapshot(&mnt).unwrap(), &expected);
        }
        mounted.unmount();
    }
}

#[test]
fn trees_of_all_kinds() {
    for options in [
        &["--block-size", "1K", "--tree-block-size", "1K"][..],
        &["--block-size", "64K", "--tree-block-size", "64K"],
        &["--format", "romfs", "--block-size", "1M"],
        &[
            "--hash-alg",
            "sha512",
            "--salt",
            "5a17",
            "--volume-name",
            "v",
        ],
    ] {
        let world = needs!(world_with_image(options));
        let expected = snapshot(&world.path("tree")).unwrap();
        let mnt = world.path("mnt");
        let mounted = Daemon::mount(&world.path("image"), &mnt, &["--unpinned"]);
        assert_same(&snapshot(&mnt).unwrap(), &expected);
        mounted.unmount();
    }
}

#[test]
fn a_seal_beside_the_image_or_elsewhere() {
    let world = needs!(world());
    let image = world.image_with_sidecar("image");
    let digest = verimount(args!["digest", &image]).digest();
    let mnt = world.path("mnt");
    let hello = || fs::read(mnt.join("hello")).unwrap();
    let mounted = Daemon::mount(&image, &mnt, &["--digest", &digest]);
    assert_eq!(hello(), b"Hello, world!\n");
    mounted.unmount();
    let elsewhere = world.path("elsewhere");
    fs::rename(world.path("image.verity"), &elsewhere).unwrap();
    let options = [
        "--digest",
        &digest,
        "--sidecar",
        elsewhere.to_str().unwrap(),
    ];
    let mounted = Daemon::mount(&image, &mnt, &options);
    assert_eq!(hello(), b"Hello, world!\n");
    mounted.unmount();
}

#[test]
fn a_signed_image() {
    let world = needs!(world());
    let (public, secret) = world.keys("signer");
    let image = world.sealed_image("image");
    verimount(args!["sign", &image, "--key", &secret]).succeeds_quietly();
    let options = ["--key", public.to_str().unwrap()];
    let mounted = Daemon::mount(&image, &world.path("mnt"), &options);
    assert_eq!(fs::read(mounted.path("hello")).unwrap(), b"Hello, world!\n");
    mounted.unmount();
}

/// As the kernel shows a romfs image.
#[test]
fn modes_and_sizes() {
    let world = needs!(world_with_image(&["--format", "romfs"]));
    let mounted = Daemon::mount(&world.path("image"), &world.path("mnt"), &["--unpinned"]);
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

#[test]
fn programs_run() {
    let world = needs!(world_with_image(&[]));
    let mounted = Daemon::mount(&world.path("image"), &world.path("mnt"), &["--unpinned"]);
    let status = Command::new(mounted.path("bin/program")).status().unwrap();
    assert!(status.success());
    mounted.unmount();
}

/// They are part of the tree, but give no access to the machine's devices, not even to root.
#[test]
fn devices_are_listed_but_cannot_be_opened() {
    needs!(root_or_skip());
    let world = needs!(world_with_image(&[]));
    let mounted = Daemon::mount(&world.path("image"), &world.path("mnt"), &["--unpinned"]);
    let null = fs::metadata(mounted.path("null")).unwrap();
    assert_eq!(null.rdev(), fs::metadata("/dev/null").unwrap().rdev());
    for device in ["null", "disk"] {
        let opened = File::open(mounted.path(device));
        assert_eq!(error_number(opened), Some(Errno::ACCESS.raw_os_error()));
    }
    mounted.unmount();
}

#[test]
fn nothing_can_be_written() {
    let world = needs!(world_with_image(&[]));
    let mounted = Daemon::mount(&world.path("image"), &world.path("mnt"), &["--unpinned"]);
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
            OpenOptions::new()
                .write(true)
                .open(path("data/large"))
                .map(drop),
        ),
        (
            "append",
            OpenOptions::new()
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
        let number = error_number(attempt);
        assert_eq!(number, Some(Errno::ROFS.raw_os_error()), "{what}");
    }
    assert_same(
        &snapshot(mounted.directory()).unwrap(),
        &snapshot(&world.path("tree")).unwrap(),
    );
    mounted.unmount();
}

#[test]
fn a_missing_file_is_not_found() {
    let world = needs!(world_with_image(&[]));
    let mounted = Daemon::mount(&world.path("image"), &world.path("mnt"), &["--unpinned"]);
    for _ in 0..2 {
        for name in ["no such file", "data/no such file", "dangling"] {
            let number = error_number(fs::metadata(mounted.path(name)));
            assert_eq!(number, Some(Errno::NOENT.raw_os_error()), "{name}");
        }
        let number = error_number(fs::metadata(mounted.path("data/large/x")));
        assert_eq!(number, Some(Errno::NOTDIR.raw_os_error()));
    }
    mounted.unmount();
}

/// Pieces of all sizes at all positions, in random order.
#[test]
fn any_piece_of_a_file() {
    let world = needs!(world());
    let content = noise(5_000_003, 1);
    let file = world.write("file", &content);
    verimount(args!["seal", &file]).succeeds_quietly();
    let mounted = Daemon::mount(&file, &world.path("mnt"), &["--unpinned"]);
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
    let world = needs!(world());
    let content = noise(16 << 20, 1);
    let file = world.write("file", &content);
    verimount(args!["seal --append", &file]).succeeds_quietly();
    let mounted = Daemon::mount(&file, &world.path("mnt"), &["--unpinned"]);
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
    let world = needs!(world());
    let tree = world.directory("tree");
    for number in 0..5000 {
        fs::write(tree.join(format!("{number:0>50}")), number.to_string()).unwrap();
    }
    let image = world.path("image");
    verimount(args!["build", &tree, &image]).succeeds();
    let mounted = Daemon::mount(&image, &world.path("mnt"), &["--unpinned"]);
    assert_eq!(fs::read_dir(mounted.directory()).unwrap().count(), 5000);
    let status = verimount(args!["status --json", mounted.directory()]).json();
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
    let world = needs!(world());
    let image = world.sealed_image("image");
    let other = world.directory("other");
    let first = Daemon::mount(&image, &world.path("mnt"), &["--unpinned"]);
    let second = Daemon::mount(&image, &other, &["--unpinned"]);
    for mounted in [first, second] {
        assert_eq!(fs::read(mounted.path("hello")).unwrap(), b"Hello, world!\n");
        mounted.unmount();
    }
}

/// A sealed file is shown as a file of its owner; so is an image with `--as-file`.
#[test]
fn a_single_file() {
    let world = needs!(world());
    let content = noise(200_000, 1);
    let data = world.write("model.data", &content);
    verimount(args!["seal", &data]).succeeds_quietly();
    let program = world.write("program", "#!/bin/sh\nexit 7\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    verimount(args!["seal --append", &program]).succeeds_quietly();
    let empty = world.write("empty", "");
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o600)).unwrap();
    verimount(args!["seal", &empty]).succeeds_quietly();
    let plain = fs::read(world.plain_image("plain")).unwrap();
    let image = world.sealed_image("image");
    for (source, options, content, mode) in [
        (&data, &["--unpinned"][..], &content[..], 0o100_444),
        (&program, &["--unpinned"], b"#!/bin/sh\nexit 7\n", 0o100_500),
        (&empty, &["--unpinned"], b"", 0o100_400),
        (&image, &["--unpinned", "--as-file"], &plain, 0o100_444),
        (&data, &["--unverified"], content.as_slice(), 0o100_444),
    ] {
        let mounted = Daemon::mount(source, &world.path("mnt"), options);
        let name = source.file_name().unwrap();
        let names: Vec<_> = fs::read_dir(mounted.directory())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, [name]);
        let path = mounted.directory().join(name);
        assert!(fs::read(&path).unwrap() == content, "{name:?}");
        let (shown, stored) = (fs::metadata(&path).unwrap(), fs::metadata(source).unwrap());
        assert_eq!(shown.mode(), mode);
        assert_eq!((shown.uid(), shown.gid()), (stored.uid(), stored.gid()));
        assert_eq!(shown.modified().unwrap(), stored.modified().unwrap());
        if name == "program" {
            assert_eq!(Command::new(&path).status().unwrap().code(), Some(7));
        }
        mounted.unmount();
    }
}

/// The kernel's interface returns the same digest as on a file system with fs-verity.
#[test]
fn fsverity_measures_a_single_file() {
    let tool = needs!(tools::find("fsverity"));
    let world = needs!(world());
    let fsverity = |arguments: &[&str], path: &Path| {
        let output = Command::new(&tool).args(arguments).arg(path).output();
        let output = output.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let digest = text.split(' ').next().unwrap().to_owned();
        output.status.success().then_some(digest)
    };
    for (len, hash) in [(0, "sha256"), (4096, "sha512"), (1_000_000, "sha256")] {
        let file = world.write("file", noise(len, 1));
        let hash_alg = format!("--hash-alg={hash}");
        let expected = fsverity(&["digest", &hash_alg], &file).unwrap();
        verimount(args!["seal", &file, &hash_alg]).succeeds_quietly();
        let mounted = Daemon::mount(&file, &world.path("mnt"), &["--digest", &expected]);
        assert_eq!(
            fsverity(&["measure"], &mounted.path("file")),
            Some(expected)
        );
        mounted.unmount();
    }
    // A file in an image has no digest of its own.
    let image = world.sealed_image("image");
    let mounted = Daemon::mount(&image, &world.path("mnt"), &["--unpinned"]);
    assert_eq!(fsverity(&["measure"], &mounted.path("hello")), None);
    mounted.unmount();
}
