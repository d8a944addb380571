//! Mount points of automounters: of autofs, and of systemd, which uses the kernel's autofs, too.

use std::{
    os::unix::process::CommandExt,
    process::{ChildStdin, ChildStdout},
};

use rustix::mount::unmount;

use super::opening::SlowServer;
use crate::prelude::*;

/// How often each is mounted and expires.
const ROUNDS: usize = 20;

/// An automounter, and a directory that it mounts on when somebody looks at it.
struct Automounter {
    child: Child,
    orders: Option<ChildStdin>,
    said: BufReader<ChildStdout>,
    directory: PathBuf,
}

impl Automounter {
    /// One that mounts by this command on `mnt`. `None`, after a note, where that is impossible.
    fn start(world: &World, command: &Command) -> Option<Self> {
        if !root_or_skip() {
            return None;
        }
        let file_systems = fs::read_to_string("/proc/filesystems").unwrap();
        if !file_systems.contains("\tautofs\n") {
            skip("this kernel has no autofs");
            return None;
        }
        let directory = world.path("mnt");
        let mut python = Command::new(tools::find("python3")?);
        python.args(["-c", include_str!("automounter.py")]);
        python.arg(&directory);
        python.arg(command.get_program()).args(command.get_args());
        python.envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        // The kernel lets its whole group mount, and this process is none of it.
        python.process_group(0);
        python.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        let mut automounter = Self {
            orders: child.stdin.take(),
            said: BufReader::new(child.stdout.take().unwrap()),
            child,
            directory,
        };
        automounter.says("ready");
        Some(automounter)
    }

    /// Waits for its next line.
    #[track_caller]
    fn says(&mut self, expected: &str) {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), expected);
    }

    fn order(&mut self, what: &str) {
        writeln!(self.orders.as_mut().unwrap(), "{what}").unwrap();
    }

    /// Somebody looks, for whom it is mounted.
    #[track_caller]
    fn mounts_for_who_looks(&mut self, names: &[&str]) {
        let looked = look(&self.directory);
        let shown: Vec<_> = looked.succeeds().text().lines().collect();
        assert_eq!(shown, names);
        self.says("mounting");
        self.says("mounted 0");
    }

    /// The mount expires, and the automounter is about to unmount it.
    #[track_caller]
    fn expires(&mut self) {
        self.order("expire");
        self.says("expiring");
    }

    /// It unmounts what has expired.
    #[track_caller]
    fn unmounts(&mut self) {
        self.order("umount");
        self.says("unmounted 0");
    }

    /// Waits until the processes that have mounted are gone.
    #[track_caller]
    fn is_left(&self) {
        eventually("they end", || processes_of(&self.directory).is_empty());
    }
}

impl Drop for Automounter {
    fn drop(&mut self) {
        // It lets everybody go who waits, and ends.
        drop(self.orders.take());
        let _ = self.child.wait();
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        while unmount(&self.directory, flags).is_ok() {}
    }
}

/// Lists a directory in a process that an automounter does not know.
fn look(directory: &Path) -> Ended {
    let mut list = Command::new("ls");
    list.arg(directory);
    finish(list)
}

/// The command under test with these arguments.
fn command(arguments: Vec<OsString>) -> Command {
    let mut command = User::Current.command();
    command.args(arguments).arg("--quiet");
    command
}

fn mount_of_image(world: &World) -> Command {
    let image = world.sealed_image("image");
    command(args!["mount", image, world.path("mnt"), "--unpinned"])
}

const IN_IMAGE: [&str; 2] = ["folder", "hello"];

/// Mounts for who looks, and lets it expire, again and again.
#[track_caller]
fn comes_and_goes(world: &World, command: &Command, names: &[&str]) {
    let mut automounter = needs!(Automounter::start(world, command));
    for _ in 0..ROUNDS {
        automounter.mounts_for_who_looks(names);
        automounter.expires();
        automounter.unmounts();
    }
    automounter.is_left();
}

#[test]
fn an_image_comes_and_goes() {
    let world = needs!(World::with_mount_point());
    comes_and_goes(&world, &mount_of_image(&world), &IN_IMAGE);
}

#[test]
fn a_native_mount_comes_and_goes() {
    needs!(native_or_skip());
    let world = needs!(World::with_mount_point());
    let (image, mnt) = (world.sealed_image("image"), world.path("mnt"));
    let digest = verimount(args!["info --json", &image]).json();
    let digest = digest["digest"].as_str().unwrap();
    let options = ["--native", "--allow-other", "--digest", digest];
    let mount = command(args!["mount", image, mnt; options]);
    comes_and_goes(&world, &mount, &IN_IMAGE);
}

#[test]
fn a_bridge_comes_and_goes() {
    let world = needs!(World::with_mount_point());
    let source = world.directory("src");
    fs::write(source.join("file"), "content").unwrap();
    let bridge = command(args!["bridge", source, world.path("mnt")]);
    comes_and_goes(&world, &bridge, &["file"]);
}

#[test]
fn a_volume_comes_and_goes() {
    let world = needs!(World::with_mount_point());
    let volume = world.path("volume");
    verimount(args!["volume format", &volume, "--size", "4M"]).succeeds();
    let mount = command(args!["volume mount", volume, world.path("mnt")]);
    comes_and_goes(&world, &mount, &["disk"]);
}

/// As mount(8) runs it, whom automounters run.
#[test]
fn the_mount_helper_comes_and_goes() {
    let world = needs!(World::with_mount_point());
    let image = world.sealed_image("image");
    let helper = world.path("mount.fuse.verimount");
    symlink(binary(), &helper).unwrap();
    let mut mount = Command::new(helper);
    mount.args(args![image, world.path("mnt"), "-o", "unpinned"]);
    comes_and_goes(&world, &mount, &IN_IMAGE);
}

/// Those who wait are told, if it fails after mounting as well: the kernel does not stack so many file systems.
#[test]
fn nobody_waits_for_a_mount_that_fails_at_last() {
    needs!(root_passes_through_or_skip());
    let world = needs!(World::with_mount_point());
    let [source, one, two] = ["src", "one", "two"].map(|name| world.directory(name));
    fs::write(source.join("file"), "content").unwrap();
    let all = ["--passthrough", "require"];
    let below = [(&source, &one), (&one, &two)];
    let below = below.map(|(source, directory)| Daemon::bridge(source, directory, &all));
    let bridge = command(args!["bridge", two, world.path("mnt"); all]);
    let mut automounter = needs!(Automounter::start(&world, &bridge));
    assert!(!look(&automounter.directory).status.success());
    automounter.says("mounting");
    automounter.says("mounted 3");
    automounter.is_left();
    drop(automounter);
    for bridge in below.into_iter().rev() {
        bridge.unmount();
    }
}

/// As systemd ends all processes of a mount unit.
#[test]
fn a_mount_that_takes_too_long_leaves_nothing() {
    let world = needs!(World::with_mount_point());
    let server = SlowServer::new(&world);
    let mount = args![
        "mount --unpinned --no-cache",
        server.url(),
        world.path("mnt")
    ];
    let mut automounter = needs!(Automounter::start(&world, &command(mount)));
    let directory = automounter.directory.clone();
    let looking = thread::spawn(move || look(&directory));
    server.is_asked();
    for process in processes_of(&automounter.directory) {
        let _ = kill_process(process, Signal::TERM);
    }
    assert!(!looking.join().unwrap().status.success());
    automounter.says("mounting");
    automounter.says(&format!("mounted -{}", Signal::TERM.as_raw()));
    server.answers();
    automounter.is_left();
    automounter.mounts_for_who_looks(&IN_IMAGE);
}

/// To unmount, its helper looks up the mount point as well. It waits like all others, and then finds another mount.
#[test]
fn a_signal_while_it_expires_ends_it_and_nothing_else() {
    let world = needs!(World::with_mount_point());
    let log = world.path("log");
    let mut mount = mount_of_image(&world);
    mount.arg("--log").arg(&log);
    let mut automounter = needs!(Automounter::start(&world, &mount));
    automounter.mounts_for_who_looks(&IN_IMAGE);
    automounter.expires();
    let processes = processes_of(&automounter.directory);
    for process in &processes {
        kill_process(*process, Signal::TERM).unwrap();
    }
    eventually("one of them waits", || processes.iter().any(waits));
    automounter.unmounts();
    automounter.is_left();
    assert_eq!(fs::read_to_string(log).unwrap(), "");
    automounter.mounts_for_who_looks(&IN_IMAGE);
}

/// Whether a thread of a process waits in the kernel.
fn waits(process: &Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
    let mut threads = threads.into_iter().flatten().flatten();
    threads.any(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('D'))
    })
}

#[test]
fn nothing_is_mounted_to_be_unmounted() {
    let world = needs!(World::with_mount_point());
    let mut automounter = needs!(Automounter::start(&world, &mount_of_image(&world)));
    let mnt = world.path("mnt");
    for lazy in [&[][..], &["--lazy"]] {
        verimount(args!["umount", &mnt; lazy]).fails_saying("has type autofs");
    }
    verimount(args!["status", &mnt]).fails_saying("is not a verimount mount");
    automounter.mounts_for_who_looks(&IN_IMAGE);
}
