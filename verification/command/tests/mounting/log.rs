//! The log of a mount: bounded, with exact counts, and without delaying readers.

use rustix::{
    fs::{mkfifoat, open},
    pipe::fcntl_setpipe_size,
    process::test_kill_process,
};

use super::is_empty;
use crate::prelude::*;

/// The most lines of one kind in a minute.
const MAX_LINES: usize = 40;

/// The offset of the bad block: not at the start, where images are recognised.
const BAD: u64 = 64 << 10;

/// A sealed file with a bad block.
fn damaged(world: &World) -> PathBuf {
    let file = world.write("file", noise(100_000, 1));
    verimount(args!["seal", &file]).succeeds_quietly();
    flip_at(&file, BAD);
    file
}

/// Reads the bad block of a mount so many times.
fn read_bad_block(directory: &Path, times: u64) {
    let opened = File::open(directory.join("file")).unwrap();
    for _ in 0..times {
        let refused = opened.read_exact_at(&mut [0; 100], BAD);
        assert_eq!(error_of(refused), Errno::IO);
    }
}

/// How many lines tell of a refused read.
fn refusals(log: &str) -> usize {
    let lines = log.lines();
    lines.filter(|line| line.contains("expected=")).count()
}

#[test]
fn a_bad_block_that_is_read_again_and_again_does_not_flood_the_log() {
    let world = needs!(World::with_mount_point());
    let mounted = Daemon::mount(&damaged(&world), &world.path("mnt"), &["--unpinned"]);
    let times = 10_000;
    read_bad_block(mounted.directory(), times);
    let status = verimount(args!["status --json", mounted.directory()])
        .reports_bad_data()
        .json();
    // The first time, the kernel asks for more than the reader and then for the reader's part.
    let mismatches = status["mismatches"].as_u64().unwrap();
    assert!((times..=times + 1).contains(&mismatches), "{mismatches}");
    // Every read found the same.
    assert_eq!(status["recent_failures"].as_array().unwrap().len(), 1);
    let log = mounted.unmount();
    assert_eq!(refusals(&log), MAX_LINES, "{log}");
    let left_out = format!("count={}", mismatches as usize - MAX_LINES);
    assert!(log.contains(&left_out), "no {left_out} in {log}");
}

#[test]
fn a_renamed_log_continues_in_a_new_file() {
    let world = needs!(World::with_mount_point());
    let (log, old) = (world.path("log"), world.path("log.1"));
    let mnt = world.path("mnt");
    let options = ["--unpinned", "--log", log.to_str().unwrap()];
    let mounted = Background::mount(&damaged(&world), &mnt, &options);
    read_bad_block(&mnt, 1);
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    eventually("it is logged", || refusals(&read(&log)) > 0);
    fs::rename(&log, &old).unwrap();
    read_bad_block(&mnt, 1);
    eventually("it is logged in a new file", || refusals(&read(&log)) > 0);
    assert!(refusals(&read(&old)) > 0);
    drop(mounted);
}

/// In a mount, files belong to whom its server says.
#[test]
fn no_log_is_written_where_others_lead() {
    let world = needs!(World::with_mount_point());
    let (file, log) = (damaged(&world), world.path("log"));
    let (theirs, image) = (world.directory("theirs"), world.path("image"));
    symlink(&log, theirs.join("link")).unwrap();
    verimount(args!["build", &theirs, &image]).succeeds();
    fs::set_permissions(&theirs, Permissions::from_mode(0o777)).unwrap();
    let mounted = Daemon::mount(&image, &world.path("mnt"), &["--unpinned"]);
    let other = world.directory("other");
    for directory in [theirs.as_path(), mounted.directory()] {
        let link = directory.join("link");
        let mount = args!["mount", &file, &other, "--unpinned", "--log", &link];
        verimount(mount).fails_saying("symbolic link");
        assert!(!log.exists());
    }
    mounted.unmount();
}

#[test]
fn a_blocked_log_delays_no_reader() {
    let world = needs!(World::with_mount_point());
    let (fifo, mnt, file) = (world.path("fifo"), world.path("mnt"), damaged(&world));
    mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
    let options = ["--unpinned", "--log", fifo.to_str().unwrap()];
    let mount = args!["mount", &file, &mnt; options.iter()];
    verimount(mount).fails_saying("FIFO without a reader");
    assert!(is_empty(&mnt));

    // Open, and never read. It takes fewer lines than there will be.
    let reader = open(&fifo, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    fcntl_setpipe_size(&reader, 4096).unwrap();
    let mounted = Background::mount(&file, &mnt, &options);
    read_bad_block(&mnt, 200);
    let daemon = mounted.daemon();
    umount(&mnt);
    eventually("the daemon ends", || test_kill_process(daemon).is_err());
}
