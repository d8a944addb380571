//! A killed caller ends at once, even if the file system still works on its request.

use std::{
    fs,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

use rustix::{
    fs::FileType,
    process::{Pid, Signal, kill_process},
};
use verimount_fuse::{Capabilities, NodeId};
use verimount_testkit::eventually;

use crate::{
    fairness::{LONG_SHARE, SHARE, USERS},
    memory_fs::{
        SLOW, SLOW_DIRECTORY, SLOW_LOOKUP, SLOW_OPEN, SLOW_STORAGE, SLOW_UNCACHED, SLOW_WRITE,
    },
    mounted::{Mounted, Wanted},
};

/// A process that uses a mount.
struct Caller(Child);

impl Caller {
    fn new(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stderr(Stdio::null());
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }

    /// `dd` that reads `file`: through the page cache, unless `flag` says otherwise.
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

    /// Whether it sleeps: `D` without interruption, `S` otherwise.
    fn is_asleep(&self, state: char) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        stat.contains(&format!(") {state} "))
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

/// A mount with asynchronous direct I/O: the kernel waits for direct reads without checking for signals.
/// Only other processes may make such reads, as this one could not end before they do.
fn mount(wanted: Wanted) -> Option<Mounted> {
    Mounted::with(wanted, Capabilities::ASYNC_DIO)
}

/// Runs `test` with a mount of each available kind: with all at the same time, since mostly they wait.
fn with_each(test: impl Fn(Mounted) + Sync) {
    thread::scope(|scope| {
        for wanted in [Wanted::Device, Wanted::Fair, Wanted::IoUring] {
            let test = &test;
            scope.spawn(move || {
                let Some(mounted) = mount(wanted) else { return };
                for name in [SLOW, SLOW_UNCACHED] {
                    fs::write(mounted.path(name), "content").unwrap();
                }
                test(mounted);
            });
        }
    });
}

#[test]
fn a_killed_caller_ends_whatever_its_request() {
    with_each(|mounted| {
        let fs = mounted.fs.clone();
        let file = |parent, name| fs.make(parent, name, FileType::RegularFile);
        file(NodeId::ROOT, SLOW_OPEN);
        let folder = fs.make(NodeId::ROOT, SLOW_DIRECTORY, FileType::Directory);
        let unknown = [file(NodeId::ROOT, SLOW_LOOKUP), file(folder, "listed")];
        let command = |program: &str, name: &str| {
            let mut command = Command::new(program);
            command.arg(mounted.path(name));
            command
        };
        for mut command in [
            // The kernel checks for signals while it waits for the second, but not for the first.
            dd(&[("if", &mounted.path(SLOW))], "iflag=direct"),
            dd(&[("if", &mounted.path(SLOW_UNCACHED))], ""),
            command("stat", SLOW_LOOKUP),
            command("cat", SLOW_OPEN),
            command("ls", SLOW_DIRECTORY),
        ] {
            let caller = Caller::new(&mut command);
            fs.await_slow(1);
            caller.killed();
            assert_eq!(fs.slow_count(), 1, "{command:?}");
            fs.let_go_and_hold();
        }
        eventually("all is closed", || fs.opens() == 0);
        mounted.unmount();
        // Opens and lookups whose answer the kernel did not get are undone.
        assert_eq!(fs.opens(), 0);
        assert_eq!(unknown.map(|node| fs.lookups(node)), [0, 0]);
    });
}

#[test]
fn a_killed_caller_ends_while_all_threads_wait() {
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
        // Not one after the other: the kernel keeps those whose direct read no thread has begun.
        all_killed(waiting(SLOW, "iflag=direct"));
        // Other requests are served meanwhile.
        assert_eq!(fs::read(mounted.path("file")).unwrap(), b"content");
        fs.let_go();
        for name in ["file", SLOW] {
            assert_eq!(fs::read(mounted.path(name)).unwrap(), b"content");
        }
        mounted.unmount();
    });
}

#[test]
fn a_killed_caller_ends_while_its_request_is_queued() {
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
    eventually("it waits", || last.is_asleep('D'));
    // Requests are read in order, so the last read has been queued when this is answered.
    assert_eq!(fs::metadata(&slow).unwrap().len(), 7);
    last.killed();
    all_killed(callers);
    assert_eq!(fs.slow_count(), SHARE);
    fs.let_go();
    mounted.unmount();
}

/// Although it could not be given up if it had begun.
#[test]
fn a_killed_caller_ends_while_its_change_is_queued() {
    let Some(mounted) = mount(Wanted::Fair) else {
        return;
    };
    let fs = &mounted.fs;
    let allocating = |number: usize| {
        let mut command = Command::new("fallocate");
        let file = mounted.path(&format!("{SLOW_STORAGE} {number}"));
        Caller::new(command.args(["--length", "4096"]).arg(file).uid(USERS[0]))
    };
    let callers: Vec<_> = (0..LONG_SHARE).map(allocating).collect();
    fs.await_slow(LONG_SHARE);
    let last = allocating(LONG_SHARE);
    eventually("it waits", || {
        fs.opens() > LONG_SHARE && last.is_asleep('S')
    });
    // Requests are read in order, so the last one has been queued when this is answered.
    fs::metadata(mounted.root()).unwrap();
    last.killed();
    assert_eq!(fs.slow_count(), LONG_SHARE);
    fs.let_go();
    for mut caller in callers {
        assert!(caller.0.wait().unwrap().success());
    }
    // The others have gone on to make their files durable.
    assert_eq!(fs.slow_count(), 2 * LONG_SHARE);
    mounted.unmount();
}

#[test]
fn a_caller_that_survives_a_signal_gets_its_answer() {
    with_each(|mounted| {
        let fs = &mounted.fs;
        let slow = mounted.path(SLOW_UNCACHED);
        // `dd` has installed a handler for this signal before it reads.
        let mut signalled = Caller::reading(&slow, "");
        fs.await_slow(1);
        signalled.signal(Signal::USR1);
        killed_reader(&mounted);
        // The killed reader was found after the signalled one was checked, which did not read again.
        assert!(!signalled.is_gone());
        assert_eq!(fs.slow_count(), 2);
        fs.let_go();
        assert!(signalled.0.wait().unwrap().success());
        assert_eq!(fs.slow_count(), 2);

        fs.let_go_and_hold();
        let caller = Caller::reading(&slow, "");
        fs.await_slow(1);
        caller.signal(Signal::USR1);
        // The kernel would send INTERRUPT only for the first signal.
        caller.killed();
        fs.let_go();
        mounted.unmount();
    });
}

#[test]
fn a_killed_writer_waits_for_its_write() {
    with_each(|mounted| {
        let fs = &mounted.fs;
        fs.make(NodeId::ROOT, SLOW_WRITE, FileType::RegularFile);
        let (from, to) = (Path::new("/dev/zero"), mounted.path(SLOW_WRITE));
        let mut writer = Caller::new(&mut dd(&[("if", from), ("of", &to)], "conv=notrunc"));
        fs.await_slow(1);
        writer.0.kill().unwrap();
        killed_reader(&mounted);
        assert!(!writer.is_gone());
        fs.let_go();
        eventually("it is gone", || writer.is_gone());
        assert_eq!(fs::metadata(&to).unwrap().len(), 4096);
        mounted.unmount();
    });
}

/// Kills all of these, and waits until they are gone.
#[track_caller]
fn all_killed(mut callers: Vec<Caller>) {
    for caller in &mut callers {
        caller.0.kill().unwrap();
    }
    for caller in callers {
        caller.killed();
    }
}

/// Starts a second reader, and kills it while it waits.
#[track_caller]
fn killed_reader(mounted: &Mounted) {
    let reader = Caller::reading(&mounted.path(SLOW_UNCACHED), "");
    mounted.fs.await_slow(2);
    reader.killed();
}
