//! Every way to end a mount ends it completely: process gone, directory empty, exit code 0.

use rustix::{fs::minor, mount::mount, process::test_kill_process};

use super::is_empty;
use crate::prelude::*;
use crate::progress::OnTerminal;

const HELLO: &[u8] = b"Hello, world!\n";

/// The ways to unmount: programs as root and as other users, and signals to the daemon.
#[derive(Debug)]
enum End {
    Program(&'static [&'static str]),
    Ours(&'static [&'static str]),
    Signal(Signal),
}

fn ends() -> Vec<End> {
    let mut ends = vec![
        End::Ours(&["umount"]),
        End::Ours(&["umount", "--lazy"]),
        End::Signal(Signal::TERM),
        End::Signal(Signal::INT),
    ];
    if tools::find("fusermount3").is_some() {
        ends.push(End::Program(&["fusermount3", "-u"]));
        ends.push(End::Program(&["fusermount3", "-u", "-z"]));
    }
    if is_root() {
        ends.push(End::Program(&["umount"]));
        ends.push(End::Program(&["umount", "-l"]));
    }
    ends
}

impl End {
    fn run(&self, directory: &Path, signal: impl Fn(Signal)) {
        match self {
            Self::Ours(words) => {
                let run = || verimount(words.iter().map(OsStr::new).chain([directory.as_os_str()]));
                unless_busy(run).succeeds_quietly();
            }
            Self::Program(words) => {
                let run = || {
                    let mut command = Command::new(words[0]);
                    command.args(&words[1..]).arg(directory);
                    finish(command)
                };
                unless_busy(run).succeeds();
            }
            Self::Signal(which) => signal(*which),
        }
    }
}

#[test]
fn a_daemon_in_the_foreground_ends_with_its_mount() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    for end in ends() {
        let mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
        assert_eq!(fs::read(mnt.join("hello")).unwrap(), HELLO);
        end.run(&mnt, |signal| mounted.signal(signal));
        mounted.ends_well();
    }
}

#[test]
fn a_daemon_in_the_background_ends_with_its_mount() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    for end in ends() {
        let mounted = Background::mount(&image, &mnt, &["--unpinned"]);
        let daemon = mounted.daemon();
        assert_eq!(fs::read(mnt.join("hello")).unwrap(), HELLO);
        end.run(&mnt, |signal| kill_process(daemon, signal).unwrap());
        eventually("the daemon ends", || {
            test_kill_process(daemon).is_err() || is_zombie(daemon.as_raw_nonzero().get())
        });
        let left = fs::read_dir(&mnt).map(Iterator::count);
        assert!(matches!(left, Ok(0)), "{end:?}: {left:?}");
    }
}

/// As programs that rotate logs send it to daemons. A second signal that asks to end would end it at once.
#[test]
fn a_hangup_is_no_reason_to_end() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    let mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
    let mut opened = File::open(mnt.join("hello")).unwrap();
    mounted.signal(Signal::HUP);
    mounted.signal(Signal::TERM);
    eventually("it is out of sight", || is_empty(&mnt));
    let mut content = Vec::new();
    opened.read_to_end(&mut content).unwrap();
    assert_eq!(content, HELLO);
    drop(opened);
    mounted.ends_well();
}

#[test]
fn a_daemon_in_the_foreground_ends_with_its_terminal() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    let _unmounted_at_last = Background::adopt(&mnt);
    let arguments = format!(
        "mount --foreground --unpinned '{}' '{}'",
        image.to_str().unwrap(),
        mnt.to_str().unwrap()
    );
    let mut terminal = needs!(OnTerminal::start(&arguments));
    terminal.shows("read-ahead");
    assert_eq!(fs::read(mnt.join("hello")).unwrap(), HELLO);
    terminal.hang_up();
    eventually("it is unmounted", || is_empty(&mnt));
}

/// Whether a process is a zombie, as in a container without an init process.
fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_some_and(|rest| rest.starts_with('Z'))
}

/// A world with a file larger than the kernel's read-ahead, and its content.
fn world_with_large_file() -> Option<(World, Vec<u8>)> {
    let world = World::with_mount_point()?;
    let content = noise(24 << 20, 1);
    let file = world.write("large", &content);
    verimount(args!["seal", &file]).succeeds_quietly();
    Some((world, content))
}

/// An open file can be read to its end.
#[test]
fn an_open_file_outlives_the_mount() {
    let (world, content) = needs!(world_with_large_file());
    let mnt = world.path("mnt");
    for lazily in [
        End::Signal(Signal::TERM),
        End::Signal(Signal::INT),
        End::Ours(&["umount", "--lazy"]),
    ] {
        let mounted = Daemon::mount(&world.path("large"), &mnt, &["--unpinned"]);
        let mut opened = File::open(mnt.join("large")).unwrap();
        let mut bytes = vec![0; 4096];
        opened.read_exact(&mut bytes).unwrap();
        lazily.run(&mnt, |signal| mounted.signal(signal));
        eventually("it is out of sight", || is_empty(&mnt));
        opened.read_to_end(&mut bytes).unwrap();
        assert!(bytes == content, "other bytes");
        drop(opened);
        mounted.ends_well();
    }
}

/// A daemon whose mount was detached does not end a later one either.
#[test]
fn a_signal_does_not_end_a_later_mount() {
    let (world, content) = needs!(world_with_large_file());
    let (file, mnt) = (world.path("large"), world.path("mnt"));
    let mut earlier = Daemon::mount(&file, &mnt, &["--unpinned"]);
    let opened = File::open(mnt.join("large")).unwrap();
    unmount_lazily(&mnt);
    let later = Daemon::mount(&file, &mnt, &["--unpinned"]);
    earlier.signal(Signal::TERM);
    drop(opened);
    earlier.exits_well();
    assert!(fs::read(mnt.join("large")).unwrap() == content);
    later.unmount();
}

#[test]
fn a_second_signal_does_not_wait_for_open_files() {
    let (world, _) = needs!(world_with_large_file());
    let mnt = world.path("mnt");
    let mut mounted = Daemon::mount(&world.path("large"), &mnt, &["--unpinned"]);
    let mut opened = File::open(mnt.join("large")).unwrap();
    mounted.signal(Signal::TERM);
    eventually("it is out of sight", || is_empty(&mnt));
    mounted.signal(Signal::TERM);
    assert_eq!(mounted.wait().signal(), Some(Signal::TERM.as_raw()));
    assert_eq!(
        error_of(opened.read_to_end(&mut Vec::new())),
        Errno::NOTCONN
    );
}

#[test]
fn a_mount_in_use_is_not_unmounted() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    let mounted = Daemon::mount(&image, &mnt, &["--unpinned"]);
    let opened = File::open(mnt.join("hello")).unwrap();
    verimount(args!["umount", &mnt]).fails_saying("in use");
    assert_eq!(fs::read(mnt.join("hello")).unwrap(), HELLO);
    drop(opened);
    umount(&mnt);
    mounted.ends_well();
}

#[test]
fn an_unmounted_directory_cannot_be_unmounted() {
    let world = needs!(World::with_mount_point());
    let file = world.write("file", "");
    let missing = world.path("missing");
    for path in [&world.path("mnt"), &file, &missing] {
        for lazy in [false, true] {
            let mut umount = args!["umount", path];
            umount.extend(lazy.then(|| "--lazy".into()));
            verimount(umount).fails_saying(path.to_str().unwrap());
        }
    }
}

/// Aborts the connection of a mount, given by its device number; `false`, after a note, if that is
/// impossible.
fn abort(world: &World, device: u64) -> bool {
    let mut control = PathBuf::from("/sys/fs/fuse/connections");
    if is_root() {
        control = world.directory("control");
        mount("none", &control, "fusectl", MountFlags::empty(), None).unwrap();
    }
    let file = control.join(minor(device).to_string()).join("abort");
    let aborted = fs::write(file, "1");
    assert!(aborted.is_ok() || !is_root(), "{aborted:?}");
    if aborted.is_err() {
        skip("fusectl is not mounted");
    }
    aborted.is_ok()
}

/// The daemon ends, and removes the dead mount that the kernel leaves.
#[test]
fn an_aborted_connection_leaves_no_mount_behind() {
    let (world, _) = needs!(world_with_large_file());
    let (file, mnt) = (world.path("large"), world.path("mnt"));
    let mounted = Daemon::mount(&file, &mnt, &["--unpinned"]);
    let mut opened = File::open(mnt.join("large")).unwrap();
    if abort(&world, fs::metadata(&mnt).unwrap().dev()) {
        mounted.ends_well();
        assert_eq!(
            error_of(opened.read_to_end(&mut Vec::new())),
            Errno::NOTCONN
        );
    }
}

#[test]
fn an_aborted_connection_does_not_end_a_later_mount() {
    let (world, content) = needs!(world_with_large_file());
    let (file, mnt) = (world.path("large"), world.path("mnt"));
    let mut earlier = Daemon::mount(&file, &mnt, &["--unpinned"]);
    let _opened = File::open(mnt.join("large")).unwrap();
    let device = fs::metadata(&mnt).unwrap().dev();
    unmount_lazily(&mnt);
    let later = Daemon::mount(&file, &mnt, &["--unpinned"]);
    if abort(&world, device) {
        earlier.exits_well();
    }
    assert!(fs::read(mnt.join("large")).unwrap() == content);
    later.unmount();
}

/// Readers get an error, and the directory can be used again.
#[test]
fn a_killed_daemon_is_replaced() {
    let (world, content) = needs!(world_with_large_file());
    let (file, mnt) = (world.path("large"), world.path("mnt"));
    let mut killed = Daemon::mount(&file, &mnt, &["--unpinned"]);
    let mut opened = File::open(mnt.join("large")).unwrap();
    killed.signal(Signal::KILL);
    assert_eq!(killed.wait().signal(), Some(Signal::KILL.as_raw()));
    assert_eq!(
        error_of(opened.read_to_end(&mut Vec::new())),
        Errno::NOTCONN
    );
    assert_eq!(error_of(fs::metadata(mnt.join("large"))), Errno::NOTCONN);
    drop(opened);

    let mut killed = Daemon::mount(&file, &mnt, &["--unpinned"]);
    assert!(fs::read(mnt.join("large")).unwrap() == content);
    // What the kernel still knows of it does not make it look alive.
    fs::metadata(&mnt).unwrap();
    killed.signal(Signal::KILL);
    killed.wait();
    fs::metadata(&mnt).unwrap();

    let replaced = Daemon::mount(&file, &mnt, &["--unpinned"]);
    assert!(fs::read(mnt.join("large")).unwrap() == content);
    replaced.unmount();
    // A dead one can also be cleared away.
    let mut killed = Daemon::mount(&file, &mnt, &["--unpinned"]);
    killed.signal(Signal::KILL);
    killed.wait();
    umount(&mnt);
    assert!(is_empty(&mnt));
}

/// The command returns when the mount can be used, not before.
#[test]
fn a_mount_can_be_used_at_once() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    for _ in 0..20 {
        let _mounted = Background::mount(&image, &mnt, &["--unpinned"]);
        assert_eq!(fs::read(mnt.join("hello")).unwrap(), HELLO);
        umount(&mnt);
        assert!(is_empty(&mnt));
    }
}

/// A script in which `$0` is the command.
fn shell(script: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(binary());
    shell
}

/// The daemon keeps no pipe open that the command wrote to or inherited.
#[test]
fn a_pipe_from_the_command_ends() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    for redirection in ["| cat", "2>&1 | cat", "3>&1 | cat", "9>&1 | cat"] {
        let script = format!("\"$0\" mount \"$1\" \"$2\" --unpinned {redirection}");
        let mut shell = shell(&script);
        shell.arg(&image).arg(&mnt);
        let ended = finish(shell);
        let hello = fs::read(mnt.join("hello"));
        umount(&mnt);
        ended.succeeds();
        assert_eq!(hello.unwrap(), HELLO);
    }
}

/// Every path can be that of an open descriptor, such as a shell's `<(…)`.
#[test]
fn open_files_can_be_given_by_number() {
    let world = needs!(World::with_mount_point());
    let image = world.image_with_sidecar("image");
    let sidecar = world.path("image.verity");
    let (public, secret) = world.keys("signer");
    verimount(args!["sign", &image, "--key", &secret]).succeeds_quietly();
    let (log, mnt) = (world.write("log", ""), world.path("mnt"));
    let mut shell = shell(
        "cat \"$3\" | \"$0\" mount /dev/fd/7 \"$5\" --key /dev/fd/6 --sidecar /dev/fd/8 \
         --log /dev/fd/9 6<&0 7<\"$1\" 8<\"$2\" 9>>\"$4\"",
    );
    shell.args([&image, &sidecar, &public, &log, &mnt]);
    finish(shell).succeeds();
    let mounted = Background::adopt(&mnt);
    assert_eq!(fs::read(mnt.join("hello")).unwrap(), HELLO);
    let daemon = mounted.daemon();
    let logs_to = fs::read_link(format!("/proc/{}/fd/2", daemon.as_raw_nonzero()));
    assert_eq!(logs_to.unwrap(), log);
    umount(&mnt);
}

/// The daemon does not need its start environment: its directory can be removed, and its terminal and all
/// other files of its caller are closed.
#[test]
fn the_daemon_keeps_no_directory_or_descriptor() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    let started_in = world.directory("started in");
    let others = world.write("others", "");
    let mut shell = shell("exec \"$0\" mount \"$1\" \"$2\" --unpinned 3<\"$3\" 7<\"$3\"");
    shell.args([&image, &mnt, &others]).current_dir(&started_in);
    finish(shell).succeeds();
    let mounted = Background::adopt(&mnt);
    let daemon = mounted.daemon();
    let proc = format!("/proc/{}", daemon.as_raw_nonzero());
    assert_eq!(
        fs::read_link(format!("{proc}/cwd")).unwrap(),
        Path::new("/")
    );
    for descriptor in 0..3 {
        let target = fs::read_link(format!("{proc}/fd/{descriptor}")).unwrap();
        assert_eq!(target, Path::new("/dev/null"), "{descriptor}");
    }
    for entry in fs::read_dir(format!("{proc}/fd")).unwrap() {
        let path = entry.unwrap().path();
        assert_ne!(fs::read_link(&path).unwrap(), others, "{path:?}");
    }
    umount(&mnt);
}
