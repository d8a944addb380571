//! A directory mirrored through a policy, in real mounts that this process serves.

mod appending;
mod caching;
mod changes;
mod denials;
mod escape;
mod fairness;
mod names;
mod namespaces;
mod ownership;
mod prelude;
mod race;
mod read_only;
mod remembered;
mod restrictions;
mod storage;
mod three_users;
mod xattrs;

use std::num::NonZeroUsize;

use verimount_bridge::{Mirror, MirrorOptions, Passthrough, policy::Policy};
use verimount_mount::{EndSignals, MountOptions, attach, our_mount_on, unmount, unmount_lazily};
use verimount_serve::{BridgeFs, BridgeOptions, CachePolicy, Served};

use crate::prelude::*;

/// The serving modes: passed through if the kernel can, and relayed.
const WAYS: [&str; 2] = ["auto", "never"];

/// A world whose source is an ext4 of 64 MiB made with these options. Only root can make one.
fn world_on_ext4(options: &[&str]) -> Option<World> {
    let (mkfs, mount) = (tools::find("mkfs.ext4")?, tools::find("mount")?);
    if !root_or_skip() {
        return None;
    }
    let world = World::with_source()?;
    let image = world.unlisted("image");
    File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let mut mkfs = Command::new(mkfs);
    mkfs.arg("-q").args(options).arg(&image);
    finish(mkfs).succeeds();
    let mut mount = Command::new(mount);
    mount
        .args(["-o", "loop"])
        .arg(&image)
        .arg(world.path("src"));
    let mounted = finish(mount);
    if !mounted.status.success() {
        skip(format_args!(
            "there are no loop devices here: {}",
            mounted.stderr
        ));
        return None;
    }
    Some(world)
}

/// How `src` is mirrored.
#[derive(Clone, Copy)]
struct Shown<'a> {
    /// One of [`WAYS`].
    way: &'a str,
    cache: CachePolicy,
    policy: &'a str,
    /// Whether other users may use the mount.
    for_all: bool,
    read_only: bool,
    no_xattr: bool,
}

impl Default for Shown<'_> {
    fn default() -> Self {
        Self {
            way: "auto",
            cache: CachePolicy::default(),
            policy: "",
            for_all: false,
            read_only: false,
            no_xattr: false,
        }
    }
}

/// For all users, in this one of the [`WAYS`].
fn for_all(way: &str) -> Shown<'_> {
    Shown {
        way,
        for_all: true,
        ..Shown::default()
    }
}

/// Read-only.
fn read_only(way: &str) -> Shown<'_> {
    Shown {
        way,
        read_only: true,
        ..Shown::default()
    }
}

/// A mount, unmounted at last.
struct Mirrored {
    directory: PathBuf,
    serving: Option<thread::JoinHandle<io::Result<()>>>,
}

impl Mirrored {
    /// Mirrors `source` on `directory`.
    #[track_caller]
    fn new(source: &Path, directory: &Path, shown: Shown<'_>) -> Self {
        let mirror = MirrorOptions {
            read_only: shown.read_only,
        };
        let mirror = Mirror::open(source, mirror).unwrap();
        let restrictions = mirror.restrictions();
        let options = MountOptions {
            source_name: "mirrored".to_owned(),
            read_only: shown.read_only || restrictions.read_only,
            allow_other: shown.for_all,
            threads: NonZeroUsize::new(2).unwrap(),
            awake: false,
            no_exec: restrictions.no_exec,
            no_symfollow: restrictions.no_symfollow,
            suid: false,
            dev: false,
            native: false,
        };
        let bridge = BridgeOptions {
            cache: shown.cache,
            passthrough: match shown.way {
                "auto" => Passthrough::Auto,
                _ => Passthrough::Never,
            },
            is_shared: shown.for_all,
            no_xattr: shown.no_xattr,
            audit: None,
        };
        let policy = Policy::parse(shown.policy, "policy.toml".as_ref()).unwrap();
        let fs = BridgeFs::new(mirror, policy, None, bridge, Served::default());
        let mounted = attach(Arc::new(fs), directory, &options).unwrap();
        let signals = EndSignals::new(None).unwrap();
        Self {
            directory: directory.to_owned(),
            serving: Some(thread::spawn(move || mounted.wait(signals))),
        }
    }

    fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Unmounts it, and waits for its end. It can be busy although its files are closed: a process that
    /// another test starts has copies of all open descriptors for a moment.
    fn unmount(mut self) {
        eventually("it is not busy", || unmount(&self.directory).is_ok());
        self.serving.take().unwrap().join().unwrap().unwrap();
    }
}

impl Drop for Mirrored {
    fn drop(&mut self) {
        if self.serving.is_some() {
            // The test has failed, and may still have files open.
            let _ = unmount_lazily(&self.directory, None);
        }
    }
}

/// Mirrors `src` on `mnt`.
#[track_caller]
fn mount(world: &World, shown: Shown<'_>) -> Mirrored {
    Mirrored::new(&world.path("src"), &world.path("mnt"), shown)
}

/// Mirrors `src` on `mnt`, with files read and written in this one of the [`WAYS`].
#[track_caller]
fn mount_in(world: &World, way: &str) -> Mirrored {
    mount(
        world,
        Shown {
            way,
            ..Shown::default()
        },
    )
}

/// Mirrors `src` on `mnt` in this one of the [`WAYS`], with this cache.
#[track_caller]
fn mount_cached(world: &World, way: &str, cache: CachePolicy) -> Mirrored {
    let shown = Shown {
        way,
        cache,
        ..Shown::default()
    };
    mount(world, shown)
}

/// Mirrors `src` on `mnt` by a policy with this text.
#[track_caller]
fn mount_by(world: &World, policy: &str) -> Mirrored {
    mount(
        world,
        Shown {
            policy,
            ..Shown::default()
        },
    )
}

/// The status of a mount.
#[track_caller]
fn status(directory: &Path) -> Value {
    serde_json::from_slice(&our_mount_on(directory).unwrap().unwrap().ask().unwrap()).unwrap()
}

/// Does this in all [`WAYS`] at the same time, since it waits.
fn in_all_ways(work: impl Fn(&str) + Sync) {
    thread::scope(|scope| {
        for way in WAYS {
            let work = &work;
            scope.spawn(move || work(way));
        }
    });
}

/// Whether the kernel passes files of this bridge through; prints a note that work is skipped if not.
fn passes_through_or_skip(directory: &Path) -> bool {
    let passes = status(directory)["passthrough"]["refusal"].is_null();
    if !passes {
        skip("the kernel passes no files through here");
    }
    passes
}

/// Truncates a file to length 7 without opening it; returns Python's output.
fn truncate(path: &Path) -> Option<Ended> {
    python("import os, sys; os.truncate(sys.argv[1], 7)", &[path])
}

/// All tests again, by an ordinary user.
#[test]
fn by_nobody() {
    pass_again_as_nobody(&["--skip", "by_nobody", "--skip", "three_users"]);
}
