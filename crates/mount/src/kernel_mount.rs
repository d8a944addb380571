//! Mounting with the system call, which only root may use.

use std::{
    ffi::CString,
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
};

use rustix::{
    mount::{MountFlags, mount as mount2},
    process::{getegid, geteuid},
};

use crate::mount::{MountOptions, SUBTYPE};

/// Mounts on `mount_point`; returns the open FUSE device.
///
/// # Errors
/// The system's error.
pub(crate) fn mount(mount_point: &Path, options: &MountOptions) -> io::Result<OwnedFd> {
    let device = open_device()?;
    let allow_other = if options.allow_other {
        ",allow_other"
    } else {
        ""
    };
    let data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions{allow_other}",
        device.as_raw_fd(),
        geteuid().as_raw(),
        getegid().as_raw(),
    );
    mount2(
        &*options.source_name,
        mount_point,
        format!("fuse.{SUBTYPE}"),
        flags(options),
        &*CString::new(data)?,
    )?;
    Ok(device.into())
}

/// What the kernel refuses in the mount.
pub(crate) fn flags(options: &MountOptions) -> MountFlags {
    let mut flags = MountFlags::empty();
    flags.set(MountFlags::RDONLY, options.read_only);
    flags.set(MountFlags::NOEXEC, options.no_exec);
    flags.set(MountFlags::NOSYMFOLLOW, options.no_symfollow);
    flags.set(MountFlags::NOSUID, !options.suid);
    flags.set(MountFlags::NODEV, !options.dev);
    flags
}

/// Opens the FUSE device. An error names it, so that it does not seem to be about the mount point.
pub(crate) fn open_device() -> io::Result<File> {
    const DEVICE: &str = "/dev/fuse";
    let device = File::options().read(true).write(true).open(DEVICE);
    device.map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => {
                "; load the kernel module fuse, or give the container this device"
            }
            _ => "",
        };
        io::Error::new(error.kind(), format!("{DEVICE}: {error}{advice}"))
    })
}
