//! One user of a shared bridge cannot keep others from using it.

use std::sync::mpsc::channel;

use rustix::{
    fs::{copy_file_range, minor},
    mount::mount as mount_system,
};

use super::{Mirrored, Shown, WAYS, for_all, mount, mount_in, world_on_ext4};
use crate::prelude::*;

/// The kernel's file with the number of requests of a mount in flight.
fn requests_of(world: &World, mounted: &Mirrored) -> PathBuf {
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
        let world = needs!(World::shared_source());
        let (src, mnt) = (world.path("src"), world.path("mnt"));
        let mounted = mount(&world, for_all(way));
        let requests = requests_of(&world, &mounted);
        let count = WAITING.to_string();
        let arguments = [src.to_str().unwrap(), mnt.to_str().unwrap(), &count];
        let mut hog = needs!(Hog::start(script, &arguments));
        assert_eq!(hog.says(), "begun");
        await_all(&requests);
        others_can_work(mounted.directory());
        hog.tell();
        // The kernel ends leases by itself after a while, but the others had not to wait for that.
        assert_eq!(hog.says(), "0");
        assert_eq!(hog.says(), count);
        hog.ends_well();
        mounted.unmount();
    }
}

/// One request does not keep a thread for long.
#[test]
fn a_long_copy_takes_several_requests() {
    let world = needs!(World::with_source());
    let len = 40 << 20;
    let source = File::create(world.path("src/from")).unwrap();
    source.set_len(len).unwrap();
    let mounted = mount_in(&world, "auto");
    let from = File::open(mounted.path("from")).unwrap();
    let to = File::create(mounted.path("to")).unwrap();
    let copy = || copy_file_range(&from, None, &to, None, len as usize).unwrap();
    let copied = [(); 3].map(|()| copy());
    assert_eq!(copied, [16 << 20, 16 << 20, 8 << 20]);
    assert_eq!(copy(), 0);
    drop((from, to));
    mounted.unmount();
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
    let world = needs!(World::shared_source());
    let policy = "[[rule]]\naction = \"deny\"\nmagic = { text = \"MZ\" }\n";
    let (src, mnt) = (world.path("src"), world.path("mnt"));
    let mounted = mount(
        &world,
        Shown {
            policy,
            ..for_all("auto")
        },
    );
    let arguments = [src.to_str().unwrap(), mnt.to_str().unwrap()];
    let mut hog = needs!(Hog::start(REMOVE, &arguments));
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

/// Thaws a file system that was frozen, so that nothing waits for it for ever.
struct Frozen(PathBuf);

impl Frozen {
    fn new(path: PathBuf) -> Self {
        fsfreeze("--freeze", &path);
        Self(path)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        fsfreeze("--unfreeze", &self.0);
    }
}

fn fsfreeze(action: &str, path: &Path) {
    let mut fsfreeze = Command::new("fsfreeze");
    fsfreeze.arg(action).arg(path);
    assert!(fsfreeze.status().unwrap().success());
}

/// Also with a policy that could deny it. In a frozen file system, changes wait and all else does not.
#[test]
fn a_rename_that_waits_for_the_source_delays_nobody() {
    let world = needs!(world_on_ext4(&[]));
    needs!(tools::find("fsfreeze"));
    let source = world.path("src");
    fs::set_permissions(&source, PermissionsExt::from_mode(0o777)).unwrap();
    // Of its own: the kernel locks the directory in which it renames.
    let own = world.directory("src/own");
    fs::set_permissions(&own, PermissionsExt::from_mode(0o777)).unwrap();
    for name in ["file", "own/moved"] {
        fs::write(source.join(name), "content").unwrap();
    }
    let policy = "[[rule]]\naction = \"deny\"\npath = \"secrets/**\"\n";
    let mounted = mount(
        &world,
        Shown {
            policy,
            ..for_all("auto")
        },
    );
    let mnt = mounted.directory().to_owned();
    let frozen = Frozen::new(source);
    let rename = {
        let mnt = mnt.clone();
        thread::spawn(move || shell_as(4321, 4321, &[], &mnt, "mv own/moved own/elsewhere"))
    };
    eventually("the rename waits for the source", || {
        let tasks = fs::read_dir("/proc/self/task").unwrap();
        let stats =
            tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
        stats.into_iter().any(|stat| stat.contains(") D "))
    });
    let (tell, told) = channel();
    let other = thread::spawn(move || {
        let script = "cat file; ls | grep file; test ! -e missing";
        let ended = shell_as(4322, 4322, &[], &mnt, script);
        tell.send(()).unwrap();
        ended
    });
    let in_time = told.recv_timeout(PATIENCE / 2);
    // Before anything can fail: those who wait could not even be killed.
    drop(frozen);
    let ended = other.join().unwrap();
    in_time.unwrap();
    assert_eq!(ended.succeeds().text(), "contentfile\n");
    rename.join().unwrap().succeeds();
    mounted.unmount();
}
