//! The status and the log of a mount.

use rustix::fs::{getxattr, getxattr_query, listxattr};

use crate::prelude::*;

fn status_attribute(directory: &Path) -> Value {
    let mut bytes = vec![0; 64 << 10];
    let len = getxattr(directory, "user.verimount.status", &mut bytes[..]).unwrap();
    serde_json::from_slice(&bytes[..len]).unwrap()
}

/// A sealed file of 1 MiB with one wrong byte, its right content and digest.
fn damaged(world: &World) -> (Vec<u8>, String) {
    let content = noise(1 << 20, 1);
    let file = world.write("file", &content);
    let digest = verimount(args!["seal", &file]).digest();
    flip_at(&file, 500_000);
    (content, digest)
}

/// The offset of the bad block.
const BAD: u64 = 500_000 / 4096 * 4096;

#[test]
fn the_attribute_counts_what_happens() {
    let world = needs!(World::with_mount_point());
    let (content, digest) = damaged(&world);
    let mounted = Daemon::mount(&world.path("file"), &world.path("mnt"), &["--unpinned"]);
    let before = status_attribute(mounted.directory());
    assert_eq!(before["digest"], *digest);
    assert_eq!(before["size"], 1 << 20);
    assert_eq!(before["mismatches"], 0);
    assert_eq!(before["recent_failures"].as_array().unwrap().len(), 0);

    let opened = File::open(mounted.path("file")).unwrap();
    let mut bytes = vec![0; 4096];
    opened.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == content[..4096]);
    let after = status_attribute(mounted.directory());
    let more = |name: &str| after[name].as_u64().unwrap() - before[name].as_u64().unwrap();
    assert!(more("bytes_verified") >= 4096);
    assert!(more("data_requests") >= 1);
    assert!(after["requests"]["read"].as_u64() > before["requests"]["read"].as_u64());

    let refused = opened.read_exact_at(&mut bytes, BAD);
    assert_eq!(error_of(refused), Errno::IO);
    let after = status_attribute(mounted.directory());
    assert!(after["mismatches"].as_u64().unwrap() > 0);
    let failure = &after["recent_failures"].as_array().unwrap()[0];
    assert_eq!(failure["file"], "/file");
    assert!(
        failure["reason"].as_str().unwrap().contains("expected"),
        "{failure}"
    );
    drop(opened);
    mounted.unmount();
}

#[test]
fn attributes_of_all_files() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mounted = Daemon::mount(&image, &world.path("mnt"), &["--unpinned"]);
    let mut names = [0; 100];
    // The status is not listed: copies would get it.
    assert_eq!(listxattr(mounted.directory(), &mut names), Ok(0));
    assert_eq!(listxattr(mounted.path("hello"), &mut names), Ok(0));
    // Too little room is an error, no room a question for how much is needed.
    let status = "user.verimount.status";
    let short = getxattr(mounted.directory(), status, &mut [0; 10]);
    assert_eq!(short, Err(rustix::io::Errno::RANGE));
    let needed = getxattr_query(mounted.directory(), status).unwrap();
    assert!(needed > 100);
    for (path, name) in [
        (mounted.path("hello"), status),
        (mounted.path(""), "user.other"),
        (mounted.path(""), "security.capability"),
    ] {
        let absent = getxattr(path, name, &mut [0; 100]);
        assert_eq!(absent, Err(rustix::io::Errno::NODATA), "{name}");
    }
    mounted.unmount();
}

#[test]
fn status_prints_it() {
    let world = needs!(World::with_mount_point());
    let (_, digest) = damaged(&world);
    let mounted = Daemon::mount(&world.path("file"), &world.path("mnt"), &["--unpinned"]);
    let status = verimount(args!["status", mounted.directory()]);
    let text = status.succeeds_quietly().text();
    assert!(text.contains(&digest), "{text}");
    assert!(text.contains("mismatches     0\n"), "{text}");
    let json = verimount(args!["status --json", mounted.directory()])
        .succeeds_quietly()
        .json();
    assert_eq!(json["digest"], *digest);

    assert_eq!(error_of(fs::read(mounted.path("file"))), Errno::IO);
    // From now on, there is bad data, which the exit code says.
    let status = verimount(args!["status", mounted.directory()]);
    status.reports_bad_data();
    status.says("/file at ");
    let json = verimount(args!["status --json", mounted.directory()]);
    json.reports_bad_data();
    mounted.unmount();
}

#[test]
fn status_of_a_directory_that_is_not_a_mount() {
    let world = needs!(World::with_mount_point());
    let file = world.write("file", "");
    for (path, words) in [
        (world.path("mnt"), "not a verimount mount"),
        (file, "not a verimount mount"),
        (world.path("missing"), "No such file"),
        ("/proc".into(), "not a verimount mount"),
    ] {
        verimount(args!["status", &path]).fails_saying(words);
    }
    // What anybody can set says nothing of a mount.
    let mnt = world.path("mnt");
    let forged = br#"{"kind":"image","mismatches":0}"#;
    if setxattr(&mnt, "user.verimount.status", forged, XattrFlags::empty()).is_ok() {
        verimount(args!["status", &mnt]).fails_saying("not a verimount mount");
    }
}

/// A line for each refused read: file, position, expected and actual digest.
#[test]
fn the_log_names_bad_blocks() {
    let world = needs!(World::with_mount_point());
    let (_, _) = damaged(&world);
    let mounted = Daemon::mount(&world.path("file"), &world.path("mnt"), &["--unpinned"]);
    let opened = File::open(mounted.path("file")).unwrap();
    let refused = opened.read_exact_at(&mut [0; 4096], BAD);
    assert_eq!(error_of(refused), Errno::IO);
    drop(opened);
    let log = mounted.unmount();
    let line = log.lines().find(|line| line.contains("does not match"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    for part in [
        "/file",
        "data",
        "expected=",
        "actual=",
        &format!("block={BAD}"),
    ] {
        assert!(line.contains(part), "no {part} in {line}");
    }
}

#[test]
fn a_daemon_in_the_background_logs_to_a_file() {
    let world = needs!(World::with_mount_point());
    damaged(&world);
    let mnt = world.path("mnt");
    let log = world.write("log", "what was there before\n");
    let options = ["--unpinned", "--log", log.to_str().unwrap()];
    let _mounted = Background::mount(&world.path("file"), &mnt, &options);
    assert_eq!(error_of(fs::read(mnt.join("file"))), Errno::IO);
    umount(&mnt);
    // The reader has its error before the log has its line.
    eventually("the error is logged", || {
        let text = fs::read_to_string(&log).unwrap();
        assert!(text.starts_with("what was there before\n"), "{text}");
        text.contains("does not match")
    });
    // A log that cannot be written is said at once.
    let nowhere = world.path("missing/log");
    verimount(args![
        "mount",
        world.path("file"),
        &mnt,
        "--unpinned",
        "--log",
        &nowhere
    ])
    .fails_saying(nowhere.to_str().unwrap());
    assert!(super::is_empty(&mnt));
}

#[test]
fn the_size_of_the_file_system() {
    let world = needs!(World::with_mount_point());
    let content = noise(1 << 20, 1);
    let file = world.write("file", &content);
    verimount(args!["seal", &file]).succeeds_quietly();
    let mounted = Daemon::mount(&file, &world.path("mnt"), &["--unpinned"]);
    let size = statvfs(mounted.directory()).unwrap();
    assert_eq!(size.f_blocks * size.f_frsize, 1 << 20);
    assert_eq!((size.f_bfree, size.f_bavail, size.f_ffree), (0, 0, 0));
    assert_eq!(size.f_namemax, 255);
    mounted.unmount();
    let image = world.sealed_image("image");
    let mounted = Daemon::mount(&image, &world.path("mnt"), &["--unpinned"]);
    let size = statvfs(mounted.directory()).unwrap();
    assert!(size.f_blocks * size.f_frsize >= 70_000);
    assert!(size.f_namemax >= 127);
    mounted.unmount();
}

/// All recent failures fit into a status, however long the names of files are.
#[test]
fn many_bad_files_with_long_names() {
    let world = needs!(World::with_mount_point());
    let tree = world.directory("tree");
    let mut directory = tree.clone();
    while directory.as_os_str().len() < 3700 {
        directory.push(OsStr::from_bytes(&[1; 127]));
    }
    fs::create_dir_all(&directory).unwrap();
    let files: Vec<_> = (0..30).map(|number| noise(5000, number)).collect();
    for (number, content) in files.iter().enumerate() {
        fs::write(directory.join(format!("{number:0>127}")), content).unwrap();
    }
    let image = world.path("image");
    verimount(args!["build", &tree, &image]).succeeds();
    for content in &files {
        flip_where(&image, &content[..64]);
    }

    let mnt = world.path("mnt");
    let mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
    let below = mnt.join(directory.strip_prefix(&tree).unwrap());
    for number in 0..files.len() {
        let read = fs::read(below.join(format!("{number:0>127}")));
        assert_eq!(error_of(read), Errno::IO);
    }
    let status = verimount(args!["status --json", &mnt])
        .reports_bad_data()
        .json();
    let failures = status["recent_failures"].as_array().unwrap();
    assert_eq!(failures.len(), 16);
    for (failure, number) in failures.iter().zip(14..) {
        let file = failure["file"].as_str().unwrap();
        assert!(file.starts_with('…'), "{file}");
        assert!(file.ends_with(&format!("/{number:0>127}")), "{file}");
    }
    mounted.unmount();
}
