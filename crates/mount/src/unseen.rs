//! A FUSE mount that is attached nowhere.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

use rustix::{
    fs::{Mode, OFlags, openat},
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
        fsopen,
    },
    process::{getegid, geteuid},
};

use crate::{kernel_mount::open_device, mount::SUBTYPE, native::IMAGE};

/// A FUSE mount that nobody sees. It ends when this is dropped and no file in it is open.
#[derive(Debug)]
pub(crate) struct Unseen {
    /// Its root directory.
    root: OwnedFd,
}

impl Unseen {
    /// Makes one; returns the open FUSE device, too.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn new() -> io::Result<(OwnedFd, Self)> {
        let device = open_device()?;
        let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
        let numbers = [
            device.as_raw_fd().to_string(),
            geteuid().as_raw().to_string(),
            getegid().as_raw().to_string(),
        ];
        for (option, value) in [
            ("source", SUBTYPE),
            ("subtype", SUBTYPE),
            ("rootmode", "40000"),
            ("fd", &numbers[0]),
            ("user_id", &numbers[1]),
            ("group_id", &numbers[2]),
        ] {
            fsconfig_set_string(&context, option, value)?;
        }
        fsconfig_create(&context)?;
        let restrictions = MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let root = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, restrictions)?;
        Ok((device.into(), Self { root }))
    }

    /// The [image](IMAGE) in it. The process that serves it must answer.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn image(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(openat(&self.root, IMAGE, flags, Mode::empty())?)
    }
}
