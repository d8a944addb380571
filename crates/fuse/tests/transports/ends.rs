use std::{
    env, fs,
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    thread,
};

use rustix::{
    fs::OFlags,
    mount::{UnmountFlags, unmount},
};
use verimount_fuse::{Capabilities, Transport};
use verimount_testkit::{error_of, eventually, skip};

use crate::{
    memory_fs::{MemoryFs, SLOW},
    mounted::{MountPoint, Mounted, Wanted, is_disconnected, serve},
};

#[test]
fn falls_back_to_the_device_without_io_uring() {
    let Some(mounted) = Mounted::new(Wanted::IoUringInVain) else {
        return;
    };
    assert_eq!(mounted.transport, Transport::OwnDevices);
    fs::write(mounted.path("file"), "content").unwrap();
    assert_eq!(fs::read(mounted.path("file")).unwrap(), b"content");
    mounted.unmount();
}

#[test]
fn an_abort_ends_requests_in_flight() {
    for wanted in [Wanted::Device, Wanted::Fair, Wanted::IoUring] {
        let Some(mut mounted) = Mounted::new(wanted) else {
            continue;
        };
        let path = mounted.path(SLOW);
        fs::write(&path, "content").unwrap();
        let mut options = File::options();
        // Each read is a request.
        let options = options
            .read(true)
            .custom_flags(OFlags::DIRECT.bits() as i32);
        let opened: Vec<_> = (0..4).map(|_| options.open(&path).unwrap()).collect();
        // At least two reach the file system; others may wait for a free thread.
        let readers = opened
            .into_iter()
            .map(|mut file| thread::spawn(move || error_of(file.read(&mut [0; 10]))));
        let readers: Vec<_> = readers.collect();
        mounted.fs.await_slow(2);
        mounted.abort();
        for reader in readers {
            let error = reader.join().unwrap();
            assert!(is_disconnected(error), "{error}");
        }
        mounted.fs.let_go();
        mounted.join();
    }
}

#[test]
fn an_open_file_is_served_after_a_lazy_unmount() {
    for wanted in [Wanted::Device, Wanted::Fair, Wanted::IoUring] {
        let Some(mut mounted) = Mounted::new(wanted) else {
            continue;
        };
        let path = mounted.path("file");
        fs::write(&path, "content").unwrap();
        let mut file = File::open(&path).unwrap();
        unmount(mounted.root(), UnmountFlags::DETACH).unwrap();
        assert!(!path.exists());
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        assert_eq!(content, b"content");
        drop(file);
        mounted.join();
    }
}

#[test]
fn nothing_is_left_of_a_mount_that_nobody_waited_for() {
    for wanted in [Wanted::Device, Wanted::Fair, Wanted::IoUring] {
        let Some(mounted) = Mounted::new(wanted) else {
            continue;
        };
        fs::write(mounted.path("file"), "content").unwrap();
        let fs = Arc::downgrade(&mounted.fs);
        drop(mounted);
        eventually("its threads have ended", || fs.strong_count() == 0);
    }
}

/// Environment variable with the transport and the mount point for a copy of this program.
const DAEMON: &str = "VERIMOUNT_TEST_DAEMON";

#[test]
fn requests_fail_when_the_daemon_is_killed() {
    for wanted in ["device", "io_uring"] {
        let folder = MountPoint::new();
        let mut daemon = Command::new(env::current_exe().unwrap())
            .args(["--exact", "ends::daemon", "--ignored", "--nocapture"])
            .env(
                DAEMON,
                format!("{wanted}:{}", folder.path().to_str().unwrap()),
            )
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(daemon.stdout.take().unwrap()).lines();
        let mounted = lines
            .map(Result::unwrap)
            .any(|line| line.ends_with("mounted"));
        if mounted {
            let path = folder.path().join(SLOW);
            fs::write(&path, "content").unwrap();
            let reader = thread::spawn(move || error_of(fs::read(path)));
            daemon.kill().unwrap();
            let error = reader.join().unwrap();
            assert!(is_disconnected(error), "{error}");
            assert!(is_disconnected(error_of(fs::metadata(folder.path()))));
        }
        assert!(daemon.wait().unwrap().success() != mounted);
    }
}

/// Serves until it is killed.
#[test]
#[ignore = "the daemon of another test"]
fn daemon() {
    let Ok(what) = env::var(DAEMON) else {
        return;
    };
    let (wanted, folder) = what.split_once(':').unwrap();
    let wanted = match wanted {
        "device" => Wanted::Device,
        _ => Wanted::IoUring,
    };
    if !rustix::process::geteuid().is_root() {
        return skip("only root mounts without a helper");
    }
    let fs = Arc::<MemoryFs>::default();
    if let Some(serving) = serve(fs, Path::new(folder), wanted, Capabilities::empty()) {
        println!("mounted");
        std::io::stdout().flush().unwrap();
        serving.join().unwrap();
    }
}
