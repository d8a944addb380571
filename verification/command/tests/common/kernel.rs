//! The kernel's own mounts, of loop devices and of files.

use std::{
    ffi::CString,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use rustix::{
    io::Errno,
    mount::{MountFlags, UnmountFlags, mount, unmount},
};
use verimount_testkit::{eventually, skip, tools};

use super::run::{Ended, finish};

/// A loop device, detached in the end.
pub(crate) struct Loop(PathBuf);

impl Loop {
    /// A loop device for a file; `None`, after a note, if that is impossible.
    pub(crate) fn new(file: &Path, direct: bool) -> Option<Self> {
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

    pub(crate) fn open(&self) -> File {
        File::open(&self.0).unwrap()
    }

    /// Runs a program with the device as its last argument.
    pub(crate) fn run(&self, program: &str, options: &[&str]) -> Option<Ended> {
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
pub(crate) struct Mounted {
    directory: PathBuf,
    _device: Option<Loop>,
}

impl Mounted {
    /// A file system on a device that stays.
    pub(crate) fn ext4(device: &Loop, directory: &Path) -> Self {
        mount(&device.0, directory, "ext4", MountFlags::empty(), None).unwrap();
        Self {
            directory: directory.to_owned(),
            _device: None,
        }
    }

    /// An EROFS image, without a loop device. `None`, after a note, if the kernel cannot do that.
    pub(crate) fn erofs(image: &Path, directory: &Path, flags: MountFlags) -> Option<Self> {
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

    /// The same with a loop device.
    pub(crate) fn erofs_on_loop(image: &Path, directory: &Path, direct: bool) -> Option<Self> {
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

    /// An overlay that shows `lower` with changes, which are kept in a memory file system on `changes`. `None`, after a
    /// note, if the kernel cannot do that.
    pub(crate) fn overlay(lower: &Path, changes: &Path, directory: &Path) -> Option<Overlay> {
        mount("changes", changes, "tmpfs", MountFlags::empty(), None).unwrap();
        let changes = Self {
            directory: changes.to_owned(),
            _device: None,
        };
        let [upper, work] = ["upper", "work"].map(|name| changes.directory.join(name));
        for part in [&upper, &work] {
            fs::create_dir(part).unwrap();
        }
        let [lower, upper, work] = [lower, &upper, &work].map(|path| path.to_str().unwrap());
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let options = CString::new(options).unwrap();
        match mount(
            "overlay",
            directory,
            "overlay",
            MountFlags::empty(),
            &*options,
        ) {
            Ok(()) => Some(Overlay {
                _merged: Self {
                    directory: directory.to_owned(),
                    _device: None,
                },
                _changes: changes,
            }),
            Err(Errno::NODEV) => {
                skip("this kernel does not have overlays");
                None
            }
            Err(errno) => panic!("{errno}"),
        }
    }
}

/// A mounted overlay, unmounted in the end, and then its changes.
pub(crate) struct Overlay {
    _merged: Mounted,
    _changes: Mounted,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        eventually("it is not busy", || {
            unmount(&self.directory, UnmountFlags::empty()).is_ok()
        });
    }
}
