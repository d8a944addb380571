//! Denied files stay denied, whatever operations on names go through the mount.

use rustix::fs::FileType;

use super::{Mirrored, Shown, for_all, mount_by};
use crate::prelude::*;

fn mount_for_all(world: &World, policy: &str) -> Mirrored {
    super::mount(
        world,
        Shown {
            policy,
            ..for_all("auto")
        },
    )
}

/// The content of all files of a directory, by their paths.
fn contents(directory: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            let text = fs::read_to_string(&path).unwrap();
            found.insert(path.to_str().unwrap().to_owned(), text);
        }
    }
    found
}

/// Neither for an ordinary user nor for root, who can do it in the source.
#[test]
fn links_and_moves_do_not_undo_denials() {
    needs!(root_or_skip());
    let world = needs!(World::open_source());
    let mounted = mount_for_all(&world, DENYING_POLICY);
    let before = contents(&world.path("src"));
    let commands = [
        "cat secrets/key",
        "ln secrets/key pub/link",
        "mv -f secrets/key key",
        "mv -f secrets/key pub/file",
        "mv secrets pub/secrets",
        "mv secrets other",
        "rm -f secrets/key",
        "mv -f pub/file secrets/key",
        "ln pub/file fixed/link",
        "mv pub/file fixed/new",
        "mv -f pub/file fixed/file",
        "mv -f fixed/file pub/file",
        "mv fixed/file fixed/other",
        "mv fixed other",
        "mv pub/dir fixed/dir",
        "ln fixed/file pub/link",
        "rm -f fixed/file",
        "touch fixed/new",
        "sh -c 'echo x >> fixed/file'",
    ];
    for uid in [65534, 0] {
        for command in commands {
            let ended = shell_as(uid, uid, &[], mounted.directory(), command);
            let said = ended.stderr.contains("Permission denied");
            assert!(
                !ended.status.success() && said,
                "{uid}: {command}: {ended:?}"
            );
            assert_eq!(contents(&world.path("src")), before, "{uid}: {command}");
        }
        let free =
            "mv pub/file file; ln file link; rm file; mv pub other; mv other pub; mv link pub/file
            cat fixed/file";
        let ended = shell_as(uid, uid, &[], mounted.directory(), free);
        assert_eq!(ended.text(), "file");
    }
    mounted.unmount();
}

/// `mknod` makes regular files, too.
#[test]
fn mknod_counts_as_creating_a_file() {
    let world = needs!(World::open_source());
    let mounted = mount_by(&world, DENYING_POLICY);
    let make = |name: &str, file_type| {
        mknodat(
            CWD,
            mounted.path(name),
            file_type,
            Mode::RUSR | Mode::WUSR,
            0,
        )
    };
    let made = make("fixed/new", FileType::RegularFile);
    assert_eq!(made, Err(Errno::ACCESS));
    make("pub/new", FileType::RegularFile).unwrap();
    // It is not opened through the bridge.
    make("fixed/pipe", FileType::Fifo).unwrap();
    let names = fs::read_dir(world.path("src/fixed")).unwrap();
    assert_eq!(names.count(), 2);
    mounted.unmount();
}

/// How many operations each of two users does; `VERIMOUNT_POLICY_OPERATIONS` says otherwise.
const OPERATIONS: &str = "400";

/// Does random operations on names and files. Prints those that succeeded and must never succeed.
const AT_RANDOM: &str = r#"
import ctypes, os, random, stat, sys
random.seed(sys.argv[1]); libc = ctypes.CDLL(None, use_errno=True)
directories = ['.', 'pub', 'pub/dir', 'pub/other', 'secrets', 'secrets/dir', 'fixed', 'fixed/dir']
def path(): return os.path.join(random.choice(directories), random.choice(['a', 'b', 'x.key']))
def rename(flags): libc.renameat2(-100, path().encode(), -100, path().encode(), flags)
def move():
    os.rename(random.choice(directories), os.path.join(random.choice(directories), random.choice(['dir', 'other'])))
def look(flags, denied):
    fd = os.open(path(), flags)
    try: content = os.pread(fd, 100, 0)
    finally: os.close(fd)
    if content.startswith(denied): print('had', content)
def write():
    look(os.O_RDWR, (b'secret', b'fixed'))
    with open(path(), 'wb') as file: file.write(b'mine')
done = [lambda: os.link(path(), path()), lambda: rename(0), lambda: rename(1), lambda: rename(2), move,
    lambda: os.mknod(path(), stat.S_IFREG | 0o666), lambda: look(os.O_RDONLY, b'secret'), write,
    lambda: os.truncate(path(), 0), lambda: os.unlink(path()), lambda: os.mkdir(random.choice(directories))]
count = 0
for _ in range(int(sys.argv[2])):
    try: random.choice(done)(); count += 1
    except OSError: pass
if count == 0: print('nothing could be done')
"#;

/// Two users at once link, move, exchange, make, open, shorten and remove at random.
#[test]
fn races_of_two_users_do_not_undo_denials() {
    needs!(root_or_skip());
    let (Some(world), true) = (World::with_source(), tools::find("python3").is_some()) else {
        return;
    };
    let setpriv = tools::find("setpriv").expect("util-linux is part of every system");
    let src = world.path("src");
    for directory in [
        "",
        "pub",
        "pub/dir",
        "secrets",
        "secrets/dir",
        "fixed",
        "fixed/dir",
    ] {
        let directory = src.join(directory);
        fs::create_dir_all(&directory).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
    }
    for (directory, content) in [
        ("secrets", "secret"),
        ("secrets/dir", "secret"),
        ("fixed", "fixed"),
        ("fixed/dir", "fixed"),
        ("pub", "free"),
        ("pub/dir", "free"),
    ] {
        for name in ["a", "x.key"] {
            let is_key = name == "x.key";
            let file = src.join(directory).join(name);
            let content = if is_key { "secret" } else { content };
            fs::write(&file, format!("{content} {directory}/{name}")).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        }
    }
    // By their names alone: a key can be moved with its directory.
    let denied = || {
        let (mut denied, mut free) = (Vec::new(), Vec::new());
        for (path, text) in contents(&src) {
            let name = path.rsplit('/').next().unwrap().to_owned();
            if text.starts_with("secret") || text.starts_with("fixed") {
                denied.push((name, text));
            } else {
                free.push(path);
            }
        }
        denied.sort();
        let is_denied = |path: &String| {
            let parts = ["src/secrets/", "src/fixed/", ".key"];
            parts.iter().any(|part| path.contains(part))
        };
        assert!(!free.iter().any(is_denied), "{free:?}");
        denied
    };
    let before = denied();
    let keys = "[[rule]]\naction = \"deny\"\npath = \"**/*.key\"\n";
    let mounted = mount_for_all(&world, &format!("{DENYING_POLICY}{keys}"));
    let seed = seed();
    let count = std::env::var("VERIMOUNT_POLICY_OPERATIONS").unwrap_or_else(|_| OPERATIONS.into());
    let users = [4321, 4322].map(|uid| {
        let mut command = Command::new(&setpriv);
        command.args([format!("--reuid={uid}"), format!("--regid={uid}")]);
        command.args(["--clear-groups", "--", "python3"]);
        // Where everybody finds it.
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.args(["-c", AT_RANDOM, &format!("{seed} {uid}"), &count]);
        command
            .current_dir(mounted.directory())
            .stdout(Stdio::piped());
        command.spawn().unwrap()
    });
    for user in users {
        let output = user.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && said.is_empty(), "{said}");
    }
    assert_eq!(denied(), before);
    mounted.unmount();
}
