//! What daemons cannot do, tried from inside of them.

use std::{fs, io};

use rustix::{io::Errno, process::geteuid};
use verimount_sandbox_tests::{
    attempt::{Attempt, for_users, network, never},
    daemon::{Daemon, Kind, User, World},
    kernel::Kernel,
    thread::{Stopped, threads_of},
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
fn refused(attempt: &Attempt, thread: &Stopped, kind: Kind) {
    let result = attempt.make(thread);
    let errno = result.as_ref().err().and_then(Errno::from_io_error);
    assert!(
        matches!(errno, Some(Errno::ACCESS | Errno::PERM | Errno::NOSYS)),
        "{kind:?} can {}: {result:?}",
        attempt.name
    );
}

/// What must be refused to a kind of daemon.
fn attempts(kind: Kind) -> Vec<Attempt> {
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
