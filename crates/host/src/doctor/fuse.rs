//! Mounting.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    time::{Duration, Instant},
};

use rustix::{process::geteuid, system::uname};
use verimount_mount::{MountEntry, find_fusermount, in_time, mounts};
use verimount_names::printable;

use super::Diagnosis;

/// The first Linux that passes files of FUSE through.
const PASSTHROUGH: (u32, u32) = (6, 9);

/// The first Linux with FUSE over io_uring.
const URING: (u32, u32) = (6, 14);

/// How long mounts may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Where the kernel is told to use it.
const URING_SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

pub(super) fn examine() -> Vec<Diagnosis> {
    let mut all = vec![device(), helper()];
    all.extend(mount_table());
    if geteuid().is_root() {
        all.push(passthrough());
        all.extend(huge_pages());
        all.extend(uring());
    } else {
        all.extend([allow_other(), read_ahead()]);
    }
    all.extend(dead_mounts());
    all
}

fn device() -> Diagnosis {
    const DEVICE: &str = "/dev/fuse";
    match File::options().read(true).write(true).open(DEVICE) {
        Ok(_) => Diagnosis::good(DEVICE, "it can be opened"),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Diagnosis::missing(DEVICE, error.to_string(), "chmod 666 /dev/fuse")
        }
        Err(error) => Diagnosis::missing(
            DEVICE,
            error.to_string(),
            "modprobe fuse; or give the container this device (podman run --device /dev/fuse)",
        ),
    }
}

/// The program that mounts for ordinary users.
fn helper() -> Diagnosis {
    const ABOUT: &str = "fusermount3";
    const INSTALL: &str = "apt install fuse3";
    let Some(program) = find_fusermount() else {
        let found = "not installed: only root can mount";
        return if geteuid().is_root() {
            Diagnosis::limited(ABOUT, found, INSTALL)
        } else {
            Diagnosis::missing(ABOUT, found, INSTALL)
        };
    };
    let shown = printable(&program).to_string();
    let is_root =
        fs::metadata(&program).is_ok_and(|file| file.uid() == 0 && file.mode() & 0o4000 != 0);
    let other = (
        format!("{shown} does not run as root: it mounts for nobody else"),
        format!("chown root {shown} && chmod u+s {shown}"),
    );
    Diagnosis::judged(ABOUT, is_root, shown, other)
}

/// Where `fusermount3` looks for the mounts that a user may unmount. Minimal systems and containers may lack it.
fn mount_table() -> Option<Diagnosis> {
    const TABLE: &str = "/etc/mtab";
    let is_missing = fs::metadata(TABLE).is_err();
    is_missing.then(|| {
        Diagnosis::limited(
            TABLE,
            "it is missing: ordinary users cannot unmount",
            "ln -s ../proc/self/mounts /etc/mtab",
        )
    })
}

fn allow_other() -> Diagnosis {
    let settings = fs::read_to_string("/etc/fuse.conf").unwrap_or_default();
    let mut settings = settings.lines().map(str::trim);
    let is_allowed = settings.any(|line| line == "user_allow_other");
    let refused = (
        "only root may let other users into a mount",
        "as root: echo user_allow_other >> /etc/fuse.conf",
    );
    let allowed = "allowed to ordinary users";
    Diagnosis::judged("--allow-other", is_allowed, allowed, refused)
}

fn read_ahead() -> Diagnosis {
    Diagnosis::limited(
        "read-ahead",
        "the kernel reads 128 KiB ahead in mounts of ordinary users, and 1 MiB in those of root",
        "let root mount, with --allow-other or by fstab",
    )
}

fn passthrough() -> Diagnosis {
    let relayed = format!(
        "Linux {}: bridges relay all reads and writes, and no files are kept resident",
        release()
    );
    let cure = format!("Linux {}.{} or later", PASSTHROUGH.0, PASSTHROUGH.1);
    let good = "bridges can pass files through, and images can keep files resident";
    let can = since(PASSTHROUGH);
    Diagnosis::judged("passthrough", can, good, (relayed, cure))
}

/// Those of resident files, if the kernel has any.
fn huge_pages() -> Option<Diagnosis> {
    const SWITCH: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let setting = fs::read_to_string(SWITCH).ok()?;
    let denied = (
        "denied to files in memory: resident files are mapped more slowly",
        format!("echo never > {SWITCH}, which leaves it to each mount"),
    );
    let (is_good, good) = (!setting.contains("[deny]"), "resident files have them");
    Some(Diagnosis::judged("huge pages", is_good, good, denied))
}

/// Whether requests of bridges arrive by `io_uring`.
///
/// # Errors
/// The system's error if the kernel has no such switch.
pub(crate) fn uring_is_on() -> io::Result<bool> {
    fs::read_to_string(URING_SWITCH).map(|value| value.trim() == "Y")
}

/// If the kernel tells anything of its modules.
fn uring() -> Option<Diagnosis> {
    const ABOUT: &str = "io_uring";
    fs::metadata("/sys/module").ok()?;
    let is_on = uring_is_on();
    Some(match is_on {
        Ok(true) => Diagnosis::good(ABOUT, "requests of bridges for one user arrive by io_uring"),
        Ok(false) => Diagnosis::limited(
            ABOUT,
            "the kernel has it, switched off: requests of bridges cost a system call more",
            format!("echo Y > {URING_SWITCH}"),
        ),
        Err(_) => Diagnosis::limited(
            ABOUT,
            format!("Linux {} has none for FUSE", release()),
            format!("Linux {}.{} or later", URING.0, URING.1),
        ),
    })
}

/// Mounts whose process was killed: whoever uses them gets errors.
fn dead_mounts() -> Vec<Diagnosis> {
    const ABOUT: &str = "dead mount";
    let mounts = mounts().unwrap_or_default();
    let believed = mounts.into_iter().filter(MountEntry::is_believed);
    let dead = in_time(believed, Instant::now() + PATIENCE, |mount| {
        mount.is_dead().then_some(mount)
    });
    let dead = dead.into_iter().flatten().flatten();
    dead.map(|mount| {
        let directory = printable(&mount.mount_point);
        Diagnosis::limited(
            ABOUT,
            format!("the process of {directory} has ended without unmounting it"),
            format!("verimount umount {directory}"),
        )
    })
    .collect()
}

fn since(version: (u32, u32)) -> bool {
    parsed(&release()).is_some_and(|found| found >= version)
}

fn release() -> String {
    uname().release().to_string_lossy().into_owned()
}

/// The first two numbers of a kernel's release.
fn parsed(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_kernels_are_compared_by_number() {
        assert_eq!(parsed("6.1.0-56-amd64"), Some((6, 1)));
        assert_eq!(parsed("6.18-rc1"), Some((6, 18)));
        assert!(parsed("6.18.0") > Some(PASSTHROUGH));
        assert_eq!(parsed("unknown"), None);
    }
}
