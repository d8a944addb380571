//! `fusermount3`, which mounts and unmounts FUSE file systems for ordinary users.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{self, Read},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use rustix::io::{FdFlags, fcntl_setfd};
use signal_hook::consts::{SIGHUP, SIGINT};
use verimount_helper::receive_file;
use verimount_names::one_line;
use verimount_sys::HeldSignals;

use crate::mount::{MountOptions, SUBTYPE};

const PROGRAM: &str = "fusermount3";

/// The environment variable that tells `fusermount3` on which descriptor to send the device.
const COMMUNICATION: &str = "_FUSE_COMMFD";

/// The mount option that only some versions know.
const NO_SYMFOLLOW: &str = "nosymfollow";

/// Mounts on `mount_point`; returns the open FUSE device.
///
/// # Errors
/// Why the program could not be run, or its message.
pub(crate) fn mount(mount_point: &Path, options: &MountOptions) -> io::Result<OwnedFd> {
    let (ours, its) = UnixStream::pair()?;
    // The only descriptor that the program inherits.
    fcntl_setfd(&its, FdFlags::empty())?;
    let mut program = Command::new(PROGRAM);
    program
        .arg("-o")
        .arg(option_list(options))
        .arg("--")
        .arg(mount_point)
        .env(COMMUNICATION, its.as_raw_fd().to_string());
    let mut program = start(program)?;
    drop(its);
    let device = receive_file(&ours);
    let mut said = String::new();
    if let Some(mut stderr) = program.stderr.take() {
        stderr.read_to_string(&mut said)?;
    }
    let status = program.wait()?;
    match device? {
        Some(device) if status.success() => Ok(device),
        _ if options.no_symfollow && said.contains(NO_SYMFOLLOW) => Err(io::Error::other(
            "the source is mounted with nosymfollow, which this fusermount3 cannot give the mount: let root \
             mount, or use a mount of the source without nosymfollow",
        )),
        _ => Err(io::Error::other(one_line(said.trim()).to_string())),
    }
}

fn option_list(options: &MountOptions) -> String {
    // A comma ends an option unless a backslash precedes it.
    let source_name = options
        .source_name
        .replace('\\', "\\\\")
        .replace(',', "\\,");
    let either = |condition, one, other| if condition { one } else { other };
    let mut list = vec![
        "default_permissions",
        either(options.read_only, "ro", "rw"),
        either(options.no_exec, "noexec", "exec"),
        // For root of a container; the program ignores the others' wish.
        either(options.suid, "suid", "nosuid"),
        either(options.dev, "dev", "nodev"),
    ];
    list.extend(options.no_symfollow.then_some(NO_SYMFOLLOW));
    list.extend(options.allow_other.then_some("allow_other"));
    format!("{},fsname={source_name},subtype={SUBTYPE}", list.join(","))
}

/// Unmounts `mount_point`; with `lazy`, even if it is in use.
///
/// # Errors
/// Why the program could not be run.
pub(crate) fn unmount(mount_point: &Path, lazy: bool) -> io::Result<Output> {
    let mut program = Command::new(PROGRAM);
    program.arg("-u");
    if lazy {
        program.arg("-z");
    }
    program.arg("--").arg(mount_point);
    start(program)?.wait_with_output()
}

/// Starts the program, whose standard error is read. It is in the process group of this process, and so among those that autofs
/// lets mount and that a terminal signals; ended between mounting and sending the device, it would leave a dead mount.
fn start(mut program: Command) -> io::Result<Child> {
    let _held = HeldSignals::hold(&[SIGHUP, SIGINT])?;
    program
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| not_run(error, &search_path()))
}

/// Why the program could not be run, which was looked for in these directories.
fn not_run(error: io::Error, directories: &OsStr) -> io::Error {
    let is_missing = match error.kind() {
        io::ErrorKind::NotFound => true,
        // That of a directory in which it was looked for, perhaps.
        io::ErrorKind::PermissionDenied => found_in(directories).is_none(),
        _ => false,
    };
    if is_missing {
        io::Error::other(
            "fusermount3, which mounts for ordinary users, is not installed (Debian package fuse3)",
        )
    } else {
        error
    }
}

fn search_path() -> OsString {
    env::var_os("PATH").unwrap_or_default()
}

/// Where the program is, as far as directories can be looked into; `None` if it is not installed.
pub fn find_fusermount() -> Option<PathBuf> {
    found_in(&search_path())
}

fn found_in(directories: &OsStr) -> Option<PathBuf> {
    let mut places = env::split_paths(directories).map(|directory| directory.join(PROGRAM));
    places.find(|place| place.exists())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_terminal_does_not_end_it() {
        let mut sleep = Command::new("sleep");
        sleep.arg("1000");
        let mut program = start(sleep).unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap();
        program.kill().unwrap();
        program.wait().unwrap();
        let held = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let held = u64::from_str_radix(held.unwrap().trim(), 16).unwrap();
        for signal in [SIGHUP, SIGINT] {
            assert_eq!(held >> (signal - 1) & 1, 1, "{signal}: {status}");
        }
    }

    #[test]
    fn a_directory_that_cannot_be_searched_is_not_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let [empty, full] = ["empty", "full"].map(|name| folder.path().join(name));
        fs::create_dir(&empty).unwrap();
        fs::create_dir(&full).unwrap();
        fs::write(full.join(PROGRAM), "").unwrap();
        assert_eq!(found_in(empty.as_os_str()), None);
        let found = found_in(&env::join_paths([&empty, &full]).unwrap());
        assert_eq!(found, Some(full.join(PROGRAM)));
        // What the system says of the directory says nothing of the program.
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let said = |directories: &OsStr| not_run(denied(), directories).to_string();
        assert!(said(empty.as_os_str()).contains("not installed"));
        assert!(!said(full.as_os_str()).contains("not installed"));
    }
}
