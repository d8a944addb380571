//! Readers that wait for a server that says nothing.

use std::sync::atomic::Ordering::SeqCst;

use crate::prelude::*;

const SIZE: usize = 8_000_000;

/// More than the threads that a mount has to answer.
const READERS: usize = 40;

/// A server of a sealed file that can fall silent.
struct Stalling {
    server: HttpServer,
    is_silent: Arc<AtomicBool>,
    digest: String,
}

impl Stalling {
    fn new(world: &World) -> Self {
        let file = world.write("sealed", noise(SIZE, 1));
        let digest = verimount(args!["seal --append", &file]).digest();
        let is_silent = Arc::new(AtomicBool::new(false));
        let silent = is_silent.clone();
        let server = HttpServer::start(fs::read(&file).unwrap(), move |_, _, right| {
            if silent.load(SeqCst) {
                right.cut(1000, HttpEnd::Silent)
            } else {
                right
            }
        });
        Self {
            server,
            is_silent,
            digest,
        }
    }

    /// Mounts with a deadline of an hour.
    fn mount(&self, mnt: &Path, more: &[&str]) -> Daemon {
        let options = ["--digest", &self.digest, "--timeout", "3600"];
        let options = [&options, more].concat();
        Daemon::mount(Path::new(&self.server.url("/file")), mnt, &options)
    }
}

/// Reads at different places of a file that are not read yet.
fn readers(file: &Path) -> Vec<Child> {
    let place = |number| 100 + number * (SIZE / 4096 - 200) / READERS;
    let start = |number| {
        let mut reader = Command::new("dd");
        reader.arg(format!("if={}", file.to_str().unwrap()));
        reader.args(["of=/dev/null", "bs=4096", "count=1", "status=none"]);
        reader.arg(format!("skip={}", place(number)));
        reader.stderr(Stdio::null()).spawn().unwrap()
    };
    (0..READERS).map(start).collect()
}

/// Starts readers, and waits until all of them wait for the mount.
fn waiting_readers(file: &Path) -> Vec<Child> {
    let readers = readers(file);
    // What is not cached of the program itself is waited for as well, but before it has opened the file.
    let reads = |reader: &Child| {
        fs::read_link(format!("/proc/{}/fd/0", reader.id())).is_ok_and(|input| input == file)
            && is_in_state(reader, 'D')
    };
    eventually("all readers wait", || readers.iter().all(reads));
    readers
}

/// Kills processes that wait, and waits until they are gone.
fn kill(mut readers: Vec<Child>) {
    for reader in &mut readers {
        assert!(reader.try_wait().unwrap().is_none());
        reader.kill().unwrap();
    }
    for reader in &mut readers {
        eventually("a killed reader is gone", || {
            reader.try_wait().unwrap().is_some()
        });
    }
}

#[test]
fn killed_readers_are_gone_and_the_mount_ends() {
    let world = needs!(World::with_mount_point());
    let (mnt, server) = (world.path("mnt"), Stalling::new(&world));
    let mounted = server.mount(&mnt, &["--no-cache", "--prefetch", "none"]);
    server.is_silent.store(true, SeqCst);
    kill(waiting_readers(&mnt.join("file")));
    mounted.unmount();
}

/// The file is not open yet: what was read of it came from the cache.
#[test]
fn readers_of_a_warm_cache_are_killed_as_well() {
    let world = needs!(World::with_mount_point());
    let (mnt, server) = (world.path("mnt"), Stalling::new(&world));
    let cache = world.path("cache");
    let options = ["--cache", cache.to_str().unwrap(), "--prefetch", "none"];
    server.mount(&mnt, &options).unmount();
    server.is_silent.store(true, SeqCst);
    let mounted = server.mount(&mnt, &options);
    kill(waiting_readers(&mnt.join("file")));
    mounted.unmount();
}

/// Opens that wait for a file to be loaded.
#[test]
fn killed_openers_are_gone_and_the_mount_serves() {
    needs!(root_passes_through_or_skip());
    let world = needs!(World::with_mount_point());
    let (mnt, server) = (world.path("mnt"), Stalling::new(&world));
    let options = [
        "--no-cache",
        "--prefetch",
        "none",
        "--resident",
        "all",
        "--resident-limit",
        "64M",
    ];
    let mounted = server.mount(&mnt, &options);
    server.is_silent.store(true, SeqCst);
    let openers = readers(&mnt.join("file"));
    let is_loading = || {
        let status = verimount(args!["status", &mnt]);
        let line = "\nloading        1 files, of which ";
        status.succeeds().text().contains(line)
    };
    // Whoever waits for an open could be interrupted, as far as the kernel knows.
    let all_wait = || openers.iter().all(|opener| is_in_state(opener, 'S'));
    eventually("all wait", || is_loading() && all_wait());
    kill(openers);
    mounted.unmount();
}

/// A first signal waits for what is open; a second one does not, whatever its threads wait for.
#[test]
fn a_second_signal_ends_a_mount_whose_readers_wait() {
    let world = needs!(World::with_mount_point());
    let (mnt, server) = (world.path("mnt"), Stalling::new(&world));
    let mut mounted = server.mount(&mnt, &["--no-cache", "--prefetch", "none"]);
    server.is_silent.store(true, SeqCst);
    let mut readers = waiting_readers(&mnt.join("file"));
    mounted.signal(Signal::TERM);
    // To look into it would be to wait as well.
    let is_mounted = || {
        fs::read_to_string("/proc/self/mounts")
            .unwrap()
            .contains(mnt.to_str().unwrap())
    };
    eventually("it is detached", || !is_mounted());
    mounted.signal(Signal::TERM);
    assert_eq!(mounted.wait().signal(), Some(Signal::TERM.as_raw()));
    for reader in &mut readers {
        assert!(!reader.wait().unwrap().success());
    }
}
