//! Who is killed is let go, though the file system still works on the request.

use std::{
    fs,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::FileType,
    process::{Pid, Signal, kill_process},
};
use verimount_fuse::{Capabilities, NodeId};

use crate::{
    fairness::{SHARE, USERS},
    memory_fs::{SLOW, SLOW_DIRECTORY, SLOW_LOOKUP, SLOW_OPEN, SLOW_UNCACHED, SLOW_WRITE},
    mounted::{Mounted, Wanted},
};

/// Longer than anything here takes on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that uses a mount.
struct Caller(Child);

impl Caller {
    fn new(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stderr(Stdio::null());
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }

    /// Reads through the page cache, unless it is told not to by `flag`.
    fn reading(file: &Path, flag: &str) -> Self {
        Self::new(&mut dd(&[("if", file)], flag))
    }

    fn is_gone(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Kills it, and waits until it is gone.
    #[track_caller]
    fn killed(mut self) {
        self.0.kill().unwrap();
        eventually("it is gone", || self.is_gone());
    }

    /// Whether it sleeps where no signal wakes it.
    fn is_asleep(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        stat.contains(") D ")
    }
}

/// `dd`, which copies one block.
fn dd(files: &[(&str, &Path)], flag: &str) -> Command {
    let mut command = Command::new("dd");
    command.args(["bs=4096", "count=1", "status=none"]);
    for (role, file) in files {
        command.arg(format!("{role}={}", file.to_str().unwrap()));
    }
    if !flag.is_empty() {
        command.arg(flag);
    }
    command
}

#[track_caller]
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "not: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A mount for whose direct reads the kernel waits without looking for signals: only other processes
/// may make any, as this one could not end before them.
fn mount(wanted: Wanted) -> Option<Mounted> {
    Mounted::with(wanted, Capabilities::ASYNC_DIO)
}

/// Does `test` with mounts of all kinds, as far as there are.
fn with_each(test: impl Fn(&Mounted)) {
    for wanted in [Wanted::Device, Wanted::Fair, Wanted::IoUring] {
        if let Some(mounted) = mount(wanted) {
            for name in [SLOW, SLOW_UNCACHED] {
                fs::write(mounted.path(name), "content").unwrap();
            }
            test(&mounted);
            mounted.unmount();
        }
    }
}

#[test]
fn whatever_it_waits_for() {
    for wanted in [Wanted::Device, Wanted::Fair, Wanted::IoUring] {
        let Some(mounted) = mount(wanted) else {
            continue;
        };
        let fs = mounted.fs.clone();
        let file = |parent, name| fs.make(parent, name, FileType::RegularFile);
        for name in [SLOW, SLOW_UNCACHED] {
            fs::write(mounted.path(name), "content").unwrap();
        }
        file(NodeId::ROOT, SLOW_OPEN);
        let folder = fs.make(NodeId::ROOT, SLOW_DIRECTORY, FileType::Directory);
        let unknown = [file(NodeId::ROOT, SLOW_LOOKUP), file(folder, "listed")];
        let command = |program: &str, name: &str| {
            let mut command = Command::new(program);
            command.arg(mounted.path(name));
            command
        };
        for mut command in [
            // The kernel waits for the first without looking for signals, and not for the second.
            dd(&[("if", &mounted.path(SLOW))], "iflag=direct"),
            dd(&[("if", &mounted.path(SLOW_UNCACHED))], ""),
            command("stat", SLOW_LOOKUP),
            command("cat", SLOW_OPEN),
            command("ls", SLOW_DIRECTORY),
        ] {
            let caller = Caller::new(&mut command);
            fs.await_slow(1);
            caller.killed();
            assert_eq!(fs.slow_count(), 1, "{wanted:?}: {command:?}");
            fs.let_go_and_hold();
        }
        eventually("all is closed", || fs.opens() == 0);
        mounted.unmount();
        // What the kernel was not told is taken back.
        assert_eq!(fs.opens(), 0);
        assert_eq!(unknown.map(|node| fs.lookups(node)), [0, 0]);
    }
}

#[test]
fn while_all_threads_wait() {
    with_each(|mounted| {
        let fs = &mounted.fs;
        fs::write(mounted.path("file"), "content").unwrap();
        let threads = 2 * thread::available_parallelism().unwrap().get();
        let waiting = |name, flag| {
            let callers = (0..threads + 3).map(|_| Caller::reading(&mounted.path(name), flag));
            let callers: Vec<_> = callers.collect();
            fs.await_slow(2);
            callers
        };
        for caller in waiting(SLOW_UNCACHED, "") {
            caller.killed();
        }
        fs.let_go_and_hold();
        // The kernel does not let go of those whose direct read no thread has begun.
        let mut direct = waiting(SLOW, "iflag=direct");
        for caller in &mut direct {
            caller.0.kill().unwrap();
        }
        for caller in direct {
            caller.killed();
        }
        // Others are served before that.
        assert_eq!(fs::read(mounted.path("file")).unwrap(), b"content");
        fs.let_go();
        for name in ["file", SLOW] {
            assert_eq!(fs::read(mounted.path(name)).unwrap(), b"content");
        }
    });
}

#[test]
fn while_its_request_waits_for_its_turn() {
    let Some(mounted) = mount(Wanted::Fair) else {
        return;
    };
    let fs = &mounted.fs;
    let slow = mounted.path(SLOW);
    fs::write(&slow, "content").unwrap();
    let reading = || Caller::new(dd(&[("if", &slow)], "iflag=direct").uid(USERS[0]));
    let callers: Vec<_> = (0..SHARE).map(|_| reading()).collect();
    fs.await_slow(SHARE);
    let last = reading();
    eventually("it waits", || last.is_asleep());
    // Requests are read in order.
    assert_eq!(fs::metadata(&slow).unwrap().len(), 7);
    last.killed();
    for caller in callers {
        caller.killed();
    }
    assert_eq!(fs.slow_count(), SHARE);
    fs.let_go();
    mounted.unmount();
}

#[test]
fn who_gets_a_signal_and_lives_sees_nothing_of_it() {
    with_each(|mounted| {
        let fs = &mounted.fs;
        let slow = mounted.path(SLOW_UNCACHED);
        // `dd` has a handler for this signal by then.
        let mut signalled = Caller::reading(&slow, "");
        fs.await_slow(1);
        signalled.signal(Signal::USR1);
        killed_reader(mounted);
        // Whoever is let go has been looked for behind the other, which did not read again.
        assert!(!signalled.is_gone());
        assert_eq!(fs.slow_count(), 2);
        fs.let_go();
        assert!(signalled.0.wait().unwrap().success());
        assert_eq!(fs.slow_count(), 2);

        fs.let_go_and_hold();
        let caller = Caller::reading(&slow, "");
        fs.await_slow(1);
        caller.signal(Signal::USR1);
        // The kernel tells of one signal only.
        caller.killed();
        fs.let_go();
    });
}

#[test]
fn not_before_a_change_is_made() {
    with_each(|mounted| {
        let fs = &mounted.fs;
        fs.make(NodeId::ROOT, SLOW_WRITE, FileType::RegularFile);
        let (from, to) = (Path::new("/dev/zero"), mounted.path(SLOW_WRITE));
        let mut writer = Caller::new(&mut dd(&[("if", from), ("of", &to)], "conv=notrunc"));
        fs.await_slow(1);
        writer.0.kill().unwrap();
        killed_reader(mounted);
        assert!(!writer.is_gone());
        fs.let_go();
        eventually("it is gone", || writer.is_gone());
        assert_eq!(fs::metadata(&to).unwrap().len(), 4096);
    });
}

/// Has a second reader wait and be killed.
#[track_caller]
fn killed_reader(mounted: &Mounted) {
    let reader = Caller::reading(&mounted.path(SLOW_UNCACHED), "");
    mounted.fs.await_slow(2);
    reader.killed();
}
