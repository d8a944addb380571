//! An attacker with full access to the source and its mirror cannot use the bridge's privileges to get
//! anywhere else.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::fs::{RenameFlags, renameat_with};

use super::{CachePolicy, Shown, for_all, mount, mount_in};
use crate::prelude::*;

/// Environment variable with the directories for the attacker, a process of this program.
const ATTACKED: &str = "VERIMOUNT_TEST_ATTACKED";

/// The contents of files in the source, and of files that only root may read.
const INSIDE: &[u8] = b"inside";
const OUTSIDE: &[u8] = b"outside";

/// Pairs of names that are constantly exchanged: one is a directory, the other leads outside.
const PAIRS: [(&str, &str); 4] = [
    ("direct", "direct link"),
    ("relative", "relative link"),
    ("deep/er", "deep/er link"),
    ("file", "file link"),
];

/// Gives it to `nobody`.
fn own(path: &Path) {
    let id = NOBODY.parse().ok();
    chown(path, id, id).unwrap();
}

fn lay_out(world: &World) -> PathBuf {
    let outside = world.directory("outside");
    for name in ["secret", "other"] {
        fs::write(outside.join(name), OUTSIDE).unwrap();
        fs::set_permissions(outside.join(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
    fs::set_permissions(&outside, PermissionsExt::from_mode(0o700)).unwrap();
    let src = world.path("src");
    own(&src);
    for directory in ["direct", "relative", "deep", "deep/er"] {
        fs::create_dir(src.join(directory)).unwrap();
        own(&src.join(directory));
        let secret = src.join(directory).join("secret");
        fs::write(&secret, INSIDE).unwrap();
        own(&secret);
    }
    fs::write(src.join("file"), INSIDE).unwrap();
    own(&src.join("file"));
    symlink(&outside, src.join("direct link")).unwrap();
    symlink("../outside", src.join("relative link")).unwrap();
    symlink(&outside, src.join("deep/er link")).unwrap();
    symlink(outside.join("secret"), src.join("file link")).unwrap();
    outside
}

/// The attacker: does nothing unless started as such.
#[test]
#[ignore = "is started by another test"]
fn attack() {
    let attacked = needs!(env::var_os(ATTACKED));
    let directories: Vec<_> = env::split_paths(&attacked).collect();
    let attack = Attack {
        begun: Instant::now(),
        without: AtomicUsize::new(2 * PAIRS.len()),
    };
    let attack = &attack;
    thread::scope(|scope| {
        for at in &directories {
            for pair in PAIRS {
                scope.spawn(move || exchange(at, pair, attack));
            }
        }
        // All is tried by the mirror, whichever way names are exchanged.
        for _ in 0..2 {
            for (name, _) in PAIRS {
                let path = directories[0].join(name);
                scope.spawn(move || reach_out(&path, attack));
            }
        }
    });
}

/// What the attacker's threads share.
struct Attack {
    begun: Instant,
    /// How many of those that try to read have not read anything yet.
    without: AtomicUsize,
}

impl Attack {
    /// Whether it goes on: for a while, and until all have read something.
    fn goes_on(&self) -> bool {
        let elapsed = self.begun.elapsed();
        elapsed < Duration::from_secs(random_cases(4).into())
            || self.without.load(Relaxed) > 0 && elapsed < PATIENCE / 2
    }
}

fn exchange(at: &Path, (one, other): (&str, &str), attack: &Attack) {
    while attack.goes_on() {
        let (one, other) = (at.join(one), at.join(other));
        // Where another thread was in between, it is tried again.
        let _ = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
    }
}

/// Tries everything that would do harm if the path led outside.
fn reach_out(path: &Path, attack: &Attack) {
    let mut has_read = false;
    while attack.goes_on() {
        let (secret, other) = (path.join("secret"), path.join("other"));
        for file in [path, &secret, &other] {
            if let Ok(found) = fs::read(file) {
                assert_ne!(found, OUTSIDE, "{file:?}");
                if !has_read {
                    attack.without.fetch_sub(1, Relaxed);
                }
                has_read = true;
            }
        }
        let names = fs::read_dir(path).into_iter().flatten().flatten();
        for name in names {
            assert_ne!(name.file_name(), OsStr::new("other"), "{path:?}");
        }
        // Nobody may do any of these outside.
        for file in [path, &secret] {
            if let Ok(file) = OpenOptions::new().append(true).open(file) {
                let _ = file.set_permissions(PermissionsExt::from_mode(0o600));
            }
        }
        let new = path.join("new");
        let _ = File::create(&new);
        let _ = fs::hard_link(&secret, path.join("hard"));
        let _ = fs::remove_file(path.join("hard"));
        let _ = fs::remove_file(&new);
        let _ = fs::create_dir(&new);
        let _ = fs::remove_dir(&new);
        let _ = fs::set_permissions(&secret, PermissionsExt::from_mode(0o644));
        let _ = symlink("/etc/passwd", &new);
        let _ = fs::remove_file(&new);
    }
    assert!(has_read, "{path:?}: nothing was ever read");
}

/// An ordinary user attacks a mirror of root's, and may change both the mirror and the source.
#[test]
fn nobody_gets_out_of_the_source() {
    needs!(root_or_skip());
    let strict = Shown {
        cache: CachePolicy::Strict,
        ..for_all("never")
    };
    for shown in [for_all("auto"), strict] {
        let world = needs!(World::with_source());
        let outside = lay_out(&world);
        let mounted = mount(&world, shown);
        let listing = |at: &Path| {
            let names = fs::read_dir(at).unwrap().map(|name| name.unwrap().path());
            let mut found: Vec<_> = names
                .map(|path| {
                    (
                        fs::metadata(&path).unwrap().permissions(),
                        fs::read(&path).unwrap(),
                        path,
                    )
                })
                .collect();
            found.sort_by(|one, other| one.2.cmp(&other.2));
            found
        };
        let before = listing(&outside);
        let program = reachable_copy(&env::current_exe().unwrap(), &world);
        let attacked = env::join_paths([mounted.directory(), &world.path("src")]).unwrap();
        let output = as_nobody(&program)
            .args(["--exact", "escape::attack", "--ignored", "--nocapture"])
            .env(ATTACKED, attacked)
            .current_dir(world.root())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("1 passed"),
            "{said}"
        );
        assert!(listing(&outside) == before, "something outside was changed");
        mounted.unmount();
    }
}

/// A link in the source is followed with the caller's own permissions.
#[test]
fn links_are_followed_with_the_callers_rights() {
    let world = needs!(World::with_source());
    let outside = world.write("outside", OUTSIDE);
    symlink(&outside, world.path("src/link")).unwrap();
    symlink("/proc/self/status", world.path("src/own")).unwrap();
    let mounted = mount_in(&world, "auto");
    assert_eq!(fs::read(mounted.path("link")).unwrap(), OUTSIDE);
    let status = fs::read_to_string(mounted.path("own")).unwrap();
    let name = fs::read_to_string("/proc/self/comm").unwrap();
    assert!(status.starts_with(&format!("Name:\t{name}")), "{status}");
    let above = File::open(mounted.directory().join("../outside")).is_ok();
    assert!(above, "the directory above the mount point is what it was");
    let no_name = fs::metadata(mounted.path("link/..")).map_err(|error| error.raw_os_error());
    assert_eq!(no_name.err(), Some(Some(Errno::NOTDIR.raw_os_error())));
    mounted.unmount();
}
