//! Volumes: formatted, mounted, served to NBD clients, checked. Nearly all of this also runs as an ordinary
//! user, by `ordinary_user`.

mod activation;
mod bad_input;
mod checking;
mod clients;
mod commit_time;
mod disk;
mod ends;
mod exports;
mod formatting;
mod growing;
mod header;
mod one_bad_block;
mod online;
mod read_only;
mod synchronous;

use crate::prelude::*;

/// The modes that allow writing.
const MODES: [&str; 3] = ["journal", "bitmap", "direct"];

/// Makes a new volume `vol.img` of 16 MiB.
#[track_caller]
fn format(world: &World, options: &[&str]) -> PathBuf {
    let path = world.path("vol.img");
    verimount(args!["volume format", &path, "--size", "16M"; options.iter()]).succeeds();
    path
}

/// Mounts `vol.img`.
#[track_caller]
fn mount(world: &World, options: &[&str]) -> Daemon {
    Daemon::volume(&world.path("vol.img"), &world.path("mnt"), options)
}

/// Waits for a mount's daemon to die of SIGKILL, and removes the dead mount.
#[track_caller]
fn dies(mut killed: Daemon) {
    assert_eq!(killed.wait().signal(), Some(Signal::KILL.as_raw()));
    unmount_lazily(killed.directory());
}

/// The disk of a mount, opened for reading and writing.
#[track_caller]
fn open_disk(mounted: &Daemon) -> File {
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).open(mounted.path("disk"));
    opened.unwrap()
}

/// The JSON that a command prints, which ends with this exit code.
#[track_caller]
fn json(arguments: Vec<std::ffi::OsString>, code: i32) -> Value {
    let ended = verimount(arguments);
    assert_eq!(ended.status.code(), Some(code), "{ended:?}");
    ended.json()
}
