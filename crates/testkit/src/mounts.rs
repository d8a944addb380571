//! What tests mount: FUSE, and the kernel's own file systems on loop devices.

use std::{
    env,
    ffi::CString,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::{
    io::Errno,
    mount::{MountFlags, UnmountFlags, mount, unmount},
};
use verimount_testenv::{skip, tools};

use crate::{Ended, eventually, finish, is_root, root_or_skip};

/// Whether FUSE is available; prints a note that work is skipped if not.
///
/// # Panics
/// If it is missing although all tools are required.
pub fn fuse_or_skip() -> bool {
    let there = Path::new("/dev/fuse").exists();
    if !there {
        assert!(
            env::var_os(tools::REQUIRE_TOOLS).is_none(),
            "/dev/fuse is missing"
        );
        skip("there is no /dev/fuse");
    }
    there && (is_root() || tools::find("fusermount3").is_some())
}

/// Whether the tests run as root on a kernel with EROFS; prints a note that work is skipped if not.
pub fn native_or_skip() -> bool {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let has_erofs = known.lines().any(|line| line.ends_with("\terofs"));
    if !has_erofs {
        skip("this kernel has no EROFS");
    }
    has_erofs && root_or_skip()
}

/// Unmounts if anything is mounted, in use or not.
pub fn unmount_lazily(directory: &Path) {
    if is_root() {
        let _ = unmount(directory, UnmountFlags::DETACH);
    } else {
        let mut fusermount = Command::new("fusermount3");
        fusermount.args(["-u", "-z"]).arg(directory);
        let _ = fusermount.stderr(Stdio::null()).status();
    }
}

/// A loop device, detached in the end.
pub struct Loop(PathBuf);

impl Loop {
    /// A loop device for a file; `None`, after a note, if that is impossible.
    pub fn new(file: &Path, direct: bool) -> Option<Self> {
        let losetup = tools::find("losetup")?;
        let direct = if direct { "on" } else { "off" };
        let direct = format!("--direct-io={direct}");
        let mut attach = Command::new(losetup);
        attach.args(["--find", "--show", &direct]).arg(file);
        let attached = finish(attach);
        if attached
            .stderr
            .contains("cannot find an unused loop device")
        {
            skip("there are no loop devices here");
            return None;
        }
        Some(Self(attached.succeeds().text().trim().into()))
    }

    /// Opens the device for reading.
    pub fn open(&self) -> File {
        File::open(&self.0).unwrap()
    }

    /// Runs a program with the device as its last argument.
    pub fn run(&self, program: &str, options: &[&str]) -> Option<Ended> {
        let mut command = Command::new(tools::find(program)?);
        command.args(options).arg(&self.0);
        Some(finish(command))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let losetup = tools::find("losetup").unwrap();
        let _ = Command::new(losetup).arg("--detach").arg(&self.0).status();
    }
}

/// A mount on a directory, unmounted in the end, and then its device detached.
pub struct KernelMount {
    directory: PathBuf,
    _device: Option<Loop>,
}

impl KernelMount {
    /// A file system on a device that stays.
    pub fn ext4(device: &Loop, directory: &Path) -> Self {
        mount(&device.0, directory, "ext4", MountFlags::empty(), None).unwrap();
        Self {
            directory: directory.to_owned(),
            _device: None,
        }
    }

    /// An EROFS image, without a loop device. `None`, after a note, if the kernel cannot do that.
    pub fn erofs(image: &Path, directory: &Path, flags: MountFlags) -> Option<Self> {
        let flags = flags | MountFlags::RDONLY;
        match mount(image, directory, "erofs", flags, Some(c"directio")) {
            Ok(()) => Some(Self {
                directory: directory.to_owned(),
                _device: None,
            }),
            Err(errno @ (Errno::NODEV | Errno::NOTBLK | Errno::INVAL)) => {
                skip(format_args!(
                    "this kernel does not mount EROFS images: {errno}"
                ));
                None
            }
            Err(errno) => panic!("{errno}"),
        }
    }

    /// An EROFS image, with a loop device. `None`, after a note, if the kernel cannot do that.
    pub fn erofs_on_loop(image: &Path, directory: &Path, direct: bool) -> Option<Self> {
        let device = Loop::new(image, direct)?;
        match mount(&device.0, directory, "erofs", MountFlags::RDONLY, None) {
            Ok(()) => Some(Self {
                directory: directory.to_owned(),
                _device: Some(device),
            }),
            Err(Errno::NODEV) => {
                skip("this kernel does not have EROFS");
                None
            }
            Err(errno) => panic!("{errno}"),
        }
    }

    /// An empty file system in memory.
    pub fn memory(directory: &Path) -> Self {
        mount("memory", directory, "tmpfs", MountFlags::empty(), None).unwrap();
        Self {
            directory: directory.to_owned(),
            _device: None,
        }
    }

    /// An overlay that shows `lower` with changes, which are kept in `changes`, also from one overlay to the next. `options` are further
    /// ones, each behind a comma. `None`, after a note, if the kernel cannot do that.
    pub fn overlay(lower: &Path, changes: &Self, directory: &Path, options: &str) -> Option<Self> {
        let [upper, work] = ["upper", "work"].map(|name| changes.directory.join(name));
        for part in [&upper, &work] {
            fs::create_dir_all(part).unwrap();
        }
        let [lower, upper, work] = [lower, &upper, &work].map(|path| path.to_str().unwrap());
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}{options}");
        let options = CString::new(options).unwrap();
        match mount(
            "overlay",
            directory,
            "overlay",
            MountFlags::empty(),
            &*options,
        ) {
            Ok(()) => Some(Self {
                directory: directory.to_owned(),
                _device: None,
            }),
            Err(Errno::NODEV) => {
                skip("this kernel does not have overlays");
                None
            }
            Err(errno) => panic!("{errno}"),
        }
    }
}

impl Drop for KernelMount {
    fn drop(&mut self) {
        eventually("it is not busy", || {
            unmount(&self.directory, UnmountFlags::empty()).is_ok()
        });
    }
}
