//! One user of a shared bridge cannot keep others from using it.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use rustix::{
    fs::minor,
    mount::{MountFlags, mount as mount_system},
};
use verimount_testkit::tools;

use super::{WAYS, limits::limited, ownership::shell_as, world};
use crate::common::{
    daemon::{Daemon, eventually},
    user::root_or_skip,
    world::World,
};

/// The users who must not be affected: an ordinary user, and root.
const OTHERS: [u32; 2] = [4321, 0];

/// A world with a source that everybody may change, with a file of root's. Only root can share a bridge.
fn shared_world() -> Option<World> {
    if !root_or_skip() {
        return None;
    }
    let world = world()?;
    fs::set_permissions(world.path("src"), PermissionsExt::from_mode(0o777)).unwrap();
    fs::write(world.path("src/file"), "content").unwrap();
    Some(world)
}

/// Reads, lists and creates a file, as each of the other users.
#[track_caller]
fn others_can_work(mounted: &Daemon) {
    for uid in OTHERS {
        let script = "cat file; ls | grep file; echo new > new$(id -u); cat new$(id -u)";
        let ended = shell_as(uid, uid, &[], mounted.directory(), script);
        assert_eq!(ended.succeeds().text(), "contentfile\nnew\n");
        fs::remove_file(mounted.path(&format!("new{uid}"))).unwrap();
    }
}

/// Python code that changes the user from root to `nobody`, after all modules are loaded: other users may
/// be unable to run Python or to load them.
const BECOME_NOBODY: &str = "
import os
def become_nobody():
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
";

/// A Python script of `nobody`'s. It prints a line when it has reached a point, and continues on request.
struct Hog {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Hog {
    /// `None` without Python.
    fn start(script: &str, arguments: &[&str]) -> Option<Self> {
        let mut python = Command::new(tools::find("python3")?);
        python
            .args(["-c", &[BECOME_NOBODY, script].concat()])
            .args(arguments);
        python.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Some(Self { child, said })
    }

    /// The next line that it prints.
    #[track_caller]
    fn says(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "it has ended");
        line.trim_end().to_owned()
    }

    fn tell(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    #[track_caller]
    fn ends_well(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens a file the given number of times; prints the number of successes and the errors.
const OPEN: &str = r"
import errno, resource, sys
become_nobody()
path, count = sys.argv[1], int(sys.argv[2])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
opened, errors = 0, set()
for _ in range(count):
    try:
        os.open(path, os.O_RDWR)
        opened += 1
    except OSError as error:
        errors.add(errno.errorcode[error.errno])
print(opened, *errors, flush=True)
sys.stdin.readline()
";

/// How many files the daemon may have open; as many are opened through the mount. In full,
/// `VERIMOUNT_OPENS` says 20000.
const OPENS: usize = 3000;

#[test]
fn one_user_opens_as_many_files_as_possible() {
    let opens = std::env::var("VERIMOUNT_OPENS").map_or(OPENS, |text| text.parse().unwrap());
    for way in WAYS {
        let Some(world) = shared_world() else { return };
        let (src, mnt) = (world.path("src"), world.path("mnt"));
        let own = src.join("own");
        fs::write(&own, "").unwrap();
        chown(&own, Some(65534), Some(65534)).unwrap();
        let limit = limited(&format!("{opens}:{opens}"));
        let mounted =
            Daemon::bridge_as(limit, &src, &mnt, &["--allow-other", "--passthrough", way]);
        let own = mounted.path("own");
        // Three processes, none of which reaches its own limit.
        let count = opens.div_ceil(3).to_string();
        let arguments = [own.to_str().unwrap(), &count];
        let Some(mut hogs) = (0..3)
            .map(|_| Hog::start(OPEN, &arguments))
            .collect::<Option<Vec<_>>>()
        else {
            return;
        };
        let mut opened = 0;
        for hog in &mut hogs {
            let said = hog.says();
            let mut words = said.split(' ');
            opened += words.next().unwrap().parse::<usize>().unwrap();
            assert!(words.all(|error| error == "EMFILE"), "{said}");
        }
        assert!(opened > opens / 20, "{opened} is hardly any");
        others_can_work(&mounted);
        for mut hog in hogs {
            hog.tell();
            hog.ends_well();
        }
        // What is closed can be opened again, once the kernel has told that it is closed.
        eventually("there is room again", || {
            Hog::start(OPEN, &[own.to_str().unwrap(), "1"])
                .unwrap()
                .says()
                == "1"
        });
        mounted.unmount();
    }
}

/// The kernel's file with the number of requests of a mount in flight.
fn requests_of(world: &World, mounted: &Daemon) -> PathBuf {
    let connections = world.path("connections");
    if !connections.exists() {
        fs::create_dir(&connections).unwrap();
        let kind = "fusectl";
        mount_system(kind, &connections, kind, MountFlags::empty(), None).unwrap();
    }
    let device = minor(fs::metadata(mounted.directory()).unwrap().dev());
    connections.join(format!("{device}/waiting"))
}

/// How many of one user's opens wait.
const WAITING: usize = 64;

/// Takes a lease on each of its own files in the source, and opens or truncates all of them through the
/// mount. Prints when it has begun, how many were opened before it was told to continue, and how many in
/// the end.
const LEASES: &str = r"
import fcntl, signal, sys, threading
become_nobody()
source, mount, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
signal.signal(signal.SIGIO, signal.SIG_IGN)
leased, opened = [], []
for number in range(count):
    leased.append(os.open(f'{source}/own{number}', os.O_RDWR | os.O_CREAT))
    fcntl.fcntl(leased[-1], fcntl.F_SETLEASE, fcntl.F_WRLCK)
def work(number):
    path = f'{mount}/own{number}'
    opened.append(os.open(path, os.O_RDWR) if number % 2 else os.truncate(path, 1))
threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
for thread in threads:
    thread.start()
print('begun', flush=True)
sys.stdin.readline()
print(len(opened), flush=True)
for file in leased:
    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
for thread in threads:
    thread.join()
print(len(opened), flush=True)
";

#[test]
fn opens_of_one_user_wait_for_leases() {
    waits_alone(LEASES, |requests| {
        eventually("all are under way", || {
            let requests = fs::read_to_string(requests).unwrap();
            requests.trim_end().parse::<usize>().unwrap() >= WAITING
        });
    });
}

/// Other users can work while a user's opens wait because of one of these scripts.
#[track_caller]
fn waits_alone(script: &str, await_all: impl Fn(&Path)) {
    for way in WAYS {
        let Some(world) = shared_world() else { return };
        let (src, mnt) = (world.path("src"), world.path("mnt"));
        let options = ["--allow-other", "--passthrough", way];
        let mounted = Daemon::bridge(&src, &mnt, &options);
        let requests = requests_of(&world, &mounted);
        let count = WAITING.to_string();
        let arguments = [src.to_str().unwrap(), mnt.to_str().unwrap(), &count];
        let Some(mut hog) = Hog::start(script, &arguments) else {
            return;
        };
        assert_eq!(hog.says(), "begun");
        await_all(&requests);
        others_can_work(&mounted);
        hog.tell();
        // The kernel ends leases by itself after a while, but the others had not to wait for that.
        assert_eq!(hog.says(), "0");
        assert_eq!(hog.says(), count);
        hog.ends_well();
        mounted.unmount();
    }
}

/// Takes a lease on its own file in the source, and removes the file through the mount. Prints the result
/// with the lease, and without.
const REMOVE: &str = r"
import errno, fcntl, signal, sys
become_nobody()
source, mount = sys.argv[1], sys.argv[2]
signal.signal(signal.SIGIO, signal.SIG_IGN)
leased = os.open(f'{source}/own', os.O_RDWR | os.O_CREAT)
def remove():
    try:
        os.remove(f'{mount}/own')
        print('removed', flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
fcntl.fcntl(leased, fcntl.F_SETLEASE, fcntl.F_WRLCK)
remove()
fcntl.fcntl(leased, fcntl.F_SETLEASE, fcntl.F_UNLCK)
remove()
";

/// Operations on names may wait for each other, also for other users.
#[test]
fn a_policy_does_not_wait_for_leases_to_remove_a_file() {
    let Some(world) = shared_world() else { return };
    let policy = "[[rule]]\naction = \"deny\"\nmagic = { text = \"MZ\" }\n";
    let policy = world.write("policy.toml", policy);
    let (src, mnt) = (world.path("src"), world.path("mnt"));
    let options = ["--allow-other", "--policy", policy.to_str().unwrap()];
    let mounted = Daemon::bridge(&src, &mnt, &options);
    let arguments = [src.to_str().unwrap(), mnt.to_str().unwrap()];
    let Some(mut hog) = Hog::start(REMOVE, &arguments) else {
        return;
    };
    assert_eq!(hog.says(), "EBUSY");
    assert_eq!(hog.says(), "removed");
    hog.ends_well();
    mounted.unmount();
}

/// Opens named pipes, created in the source, through the mount. Prints when it has begun, how many were
/// opened before it was told to continue, and how many in the end.
const PIPES: &str = r"
import sys, threading
become_nobody()
source, mount, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
opened = []
for number in range(count):
    os.mkfifo(f'{source}/own{number}')
def work(number):
    opened.append(os.open(f'{mount}/own{number}', os.O_RDONLY))
threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
for thread in threads:
    thread.start()
print('begun', flush=True)
sys.stdin.readline()
print(len(opened), flush=True)
for number in range(count):
    os.open(f'{mount}/own{number}', os.O_WRONLY)
for thread in threads:
    thread.join()
print(len(opened), flush=True)
";

/// The kernel itself waits for their other end.
#[test]
fn opens_of_one_user_wait_for_pipes() {
    waits_alone(PIPES, |_| {});
}
