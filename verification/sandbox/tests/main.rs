//! What daemons cannot do, tried from inside of them.

use std::{fs, io};

use libc::{RLIMIT_NOFILE, SIGKILL, SYS_prlimit64};
use nix::sys::{signal::Signal, wait::WaitStatus};
use rustix::{io::Errno, process::geteuid};
use verimount_sandbox_tests::{
    attempt::{Attempt, for_users, network, never},
    daemon::{Daemon, Kind, User, World},
    foreign::{Names, attempts as foreign},
    kernel::Kernel,
    tally::{Tally, is_refused},
    thread::{
        Argument::{Bytes, Number},
        Stopped, threads_of,
    },
    victim::Victim,
};

/// Whether the tests can trace daemons of other users.
fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        eprintln!("skipped: only root can trace daemons");
    }
    is_root
}

/// Tries something in a thread, and fails unless it is refused.
fn refused(attempt: &Attempt<'_>, thread: &Stopped, kind: Kind) {
    let result = attempt.make(thread);
    assert!(
        is_refused(&result),
        "{kind:?} can {}: {result:?}",
        attempt.name
    );
}

/// What must be refused to a kind of daemon.
fn attempts(kind: Kind) -> Vec<Attempt<'static>> {
    let mut all = never();
    if kind != Kind::Remote {
        all.extend(network());
    }
    if kind != Kind::Bridge {
        all.extend(for_users());
    }
    all
}

fn try_all(daemon: &Daemon, kind: Kind) {
    let threads = threads_of(daemon.id());
    assert!(threads.len() > 2, "{kind:?}: {threads:?}");
    for thread in threads {
        let thread = Stopped::new(thread);
        for attempt in attempts(kind) {
            refused(&attempt, &thread, kind);
        }
    }
}

/// The value of a line in a thread's `status`.
fn status(process: i32, thread: i32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/task/{thread}/status")).unwrap();
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(&format!("{name}:")));
    value.unwrap().trim().to_owned()
}

#[test]
fn no_thread_of_any_daemon_can_do_more_than_it_needs() {
    if !is_root() {
        return;
    }
    for user in [User::Root, User::Nobody] {
        let world = World::new(user);
        for kind in Kind::all(user) {
            let daemon = world.start(kind, user, &[], None);
            let id = daemon.id();
            for thread in threads_of(id) {
                assert_eq!(status(id, thread, "NoNewPrivs"), "1");
                assert_eq!(status(id, thread, "Seccomp"), "2");
                if user == User::Nobody {
                    assert_eq!(status(id, thread, "CapPrm"), "0000000000000000");
                }
            }
            try_all(&daemon, kind);
            // It serves as before.
            world.use_it(kind, user);
            daemon.end(&world);
        }
    }
}

#[test]
fn no_listed_call_reaches_what_is_not_the_daemons_own() {
    if !is_root() {
        return;
    }
    let mut tally = Tally::default();
    let mut impossible: &[&str] = &[];
    for user in [User::Root, User::Nobody] {
        let world = World::new(user);
        let victim = Victim::new(user);
        let names = Names::of(&victim);
        impossible = victim.untried();
        for kind in Kind::all(user) {
            let daemon = world.start(kind, user, &[], None);
            let (filtered, files) = foreign(&victim, &names, kind);
            // Old Landlocks do not hold those of a bridge, which is announced.
            let holds_files = !daemon.said().contains("files are open to it");
            let files = files.into_iter().filter(|_| holds_files);
            let attempts: Vec<_> = filtered.into_iter().chain(files).collect();
            let before = victim.state();
            for thread in threads_of(daemon.id()) {
                let thread = Stopped::new(thread);
                tally.try_all(&attempts, &thread, &format!("{kind:?} of {user:?}"));
            }
            tally.compare(&before, &victim.state());
            limits_of_its_own_can_change(&daemon);
            world.use_it(kind, user);
            daemon.end(&world);
        }
    }
    println!("{tally}");
    assert_eq!(tally.reached(), Vec::<String>::new());
    assert_eq!(tally.untried(), impossible);
}

/// A process takes more descriptors as it needs them, by 0 and by its own id.
fn limits_of_its_own_can_change(daemon: &Daemon) {
    let limits = || fs::read_to_string(format!("/proc/{}/limits", daemon.id())).unwrap();
    let open_files = |limits: &str| {
        let mut lines = limits.lines();
        let line = lines.find_map(|line| line.strip_prefix("Max open files"));
        let mut values = line.unwrap().split_whitespace().map(str::to_owned);
        [values.next().unwrap(), values.next().unwrap()]
    };
    let [_, most] = open_files(&limits());
    let most: u64 = most.parse().unwrap_or(u64::MAX);
    let thread = Stopped::new(daemon.id());
    for id in [0, daemon.id().into()] {
        for now in [most / 2, most] {
            let limit = [now, most].map(u64::to_ne_bytes).concat();
            let none = Number(0);
            let which = Number(RLIMIT_NOFILE.into());
            let arguments = [Number(id), which, Bytes(&limit), none, none, none];
            thread.call(SYS_prlimit64, arguments).unwrap();
            let [shown, _] = open_files(&limits());
            assert_eq!(shown.parse().unwrap_or(u64::MAX), now);
        }
    }
}

/// `kill` by its number for programs of 32 bits, which is another call's for those of 64.
#[test]
fn calls_of_another_architecture_end_the_daemon() {
    const KILL: i64 = 37;
    if !is_root() {
        return;
    }
    for user in [User::Root, User::Nobody] {
        let world = World::new(user);
        let victim = Victim::new(user);
        let arguments = [victim.id(), SIGKILL].map(i64::from);
        let before = victim.state();
        let free = world.start(Kind::Image, user, &["--no-sandbox"], None);
        let harmless = Stopped::new(free.id()).call_by_int_80(KILL, [victim.id().into(), 0]);
        if harmless.is_err() {
            eprintln!("skipped: this kernel has no calls of 32 bits: {harmless:?}");
            return world.unmount();
        }
        free.end(&world);
        for kind in Kind::all(user) {
            let daemon = world.start(kind, user, &[], None);
            let ended = Stopped::new(daemon.id()).call_by_int_80(KILL, arguments);
            assert!(
                matches!(ended, Err(WaitStatus::Signaled(_, Signal::SIGSYS, _))),
                "{kind:?}: {ended:?}"
            );
            drop(daemon);
            world.unmount();
        }
        assert_eq!(victim.state(), before);
    }
}

/// The kernel opens the programs of a bridge that passes files through with the rights of the daemon.
#[test]
fn programs_run_for_the_users_of_a_mount() {
    if !is_root() {
        return;
    }
    for user in [User::Root, User::Nobody] {
        let world = World::new(user);
        for kind in Kind::all(user) {
            if matches!(kind, Kind::Volume | Kind::Export) {
                continue;
            }
            let daemon = world.start(kind, user, &[], None);
            world.run(user);
            daemon.end(&world);
        }
    }
}

#[test]
fn remote_images_reach_servers_and_bridges_act_for_users() {
    if !is_root() {
        return;
    }
    let world = World::new(User::Root);
    for (kind, kept) in [(Kind::Remote, network()), (Kind::Bridge, for_users())] {
        let daemon = world.start(kind, User::Root, &[], None);
        let thread = Stopped::new(daemon.id());
        for attempt in kept {
            let result = attempt.make(&thread);
            let errno = result.as_ref().err().and_then(Errno::from_io_error);
            // It is the kernel that answers.
            assert!(
                matches!(errno, None | Some(Errno::BADF)),
                "{kind:?}: {result:?}"
            );
        }
        drop(thread);
        daemon.end(&world);
    }
}

#[test]
fn without_a_sandbox_all_is_possible_and_said() {
    if !is_root() {
        return;
    }
    let world = World::new(User::Root);
    let daemon = world.start(Kind::Image, User::Root, &["--no-sandbox"], None);
    assert!(
        daemon.said().contains("note: not sandboxed"),
        "{}",
        daemon.said()
    );
    let thread = Stopped::new(daemon.id());
    // Those that change nothing.
    for attempt in never().iter().chain(&network()) {
        let is_harmless = attempt.name.starts_with("read /etc")
            || [
                "list /",
                "write a setting",
                "map memory that can be executed",
            ]
            .contains(&attempt.name)
            || attempt.is_socket();
        if is_harmless {
            let done: io::Result<i64> = attempt.make(&thread);
            assert!(done.is_ok(), "{}: {done:?}", attempt.name);
        }
    }
    drop(thread);
    daemon.end(&world);
}

#[test]
fn older_kernels_hold_what_they_can_and_that_is_said() {
    if !is_root() {
        return;
    }
    for (landlock, seccomp, missing) in [
        (Some(1), true, ""),
        (Some(4), true, ""),
        (None, true, "files are open to it"),
        (Some(4), false, "all system calls"),
        (None, false, "all system calls"),
    ] {
        let kernel = Kernel { landlock, seccomp };
        for user in [User::Root, User::Nobody] {
            let world = World::new(user);
            let victim = Victim::new(user);
            let names = Names::of(&victim);
            for kind in Kind::all(user) {
                let daemon = world.start(kind, user, &[], Some(kernel));
                let said = daemon.said();
                let is_noted = said.contains("note: the sandbox is incomplete");
                // Old ones cannot hold the files of bridges.
                let is_less = !missing.is_empty() || kind == Kind::Bridge;
                assert_eq!(is_noted, is_less, "{kernel:?} {kind:?}: {said}");
                assert!(said.contains(missing), "{kernel:?} {kind:?}: {said}");
                world.use_it(kind, user);
                let thread = Stopped::new(daemon.id());
                // The filter needs no Landlock to hold them.
                let (filtered, _) = foreign(&victim, &names, kind);
                for attempt in filtered.iter().filter(|_| seccomp) {
                    refused(attempt, &thread, kind);
                }
                let holds_files = landlock.is_some() && kind != Kind::Bridge;
                for attempt in never() {
                    let is_held = match attempt.name {
                        "read /etc/passwd" => holds_files,
                        "run a program" => seccomp,
                        _ => false,
                    };
                    if is_held {
                        refused(&attempt, &thread, kind);
                    }
                }
                drop(thread);
                daemon.end(&world);
            }
        }
    }
}
