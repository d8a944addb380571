//! The kernel's own EROFS over a file that this process serves by FUSE, in a [mount that nobody sees](Unseen).
//!
//! That FUSE mount is there as long as the EROFS mount has its file open, and ends with it. The source of the EROFS mount is a
//! name below `/run/verimount/native`: while it is mounted, a link to the file; then the socket at which the process that serves
//! it tells its status. So whoever sees the mount table knows whose mount it is, and where to ask.

use std::{
    collections::HashSet,
    ffi::OsString,
    fs,
    io::{self, Write},
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, net::UnixListener},
    },
    path::Path,
    process,
    sync::Arc,
    thread,
    time::Duration,
};

use rustix::{
    mount::mount as mount2,
    net::{Shutdown, shutdown},
};
use verimount_fuse::NodeId;

use crate::{
    Mode, MountError, MountOptions, Mountable, Mounted, STATUS_XATTR, helping,
    kernel_mount::flags,
    mount::{Engine, ready_for, start},
    mount_table::path_of,
    native_name::Name,
    own_mount::{HeldMount, OwnMount},
    unseen::Unseen,
};

/// The name of the image's file in the mount that nobody sees.
pub const IMAGE: &str = "image";

/// How long nobody is told who asks when that fails.
const PAUSE: Duration = Duration::from_millis(100);

/// Where the kernel shows the settings of read-ahead.
const BACKING_DEVICES: &str = "/sys/class/bdi";

/// The kernel's read-ahead in EROFS, in KiB: as large as keeps the two steps of a read in order beside each other; mappings get
/// larger folios than by the kernel's 128.
const READ_AHEAD_KB: &str = "256";

/// The type of the kernel's file system.
pub(crate) const TYPE: &str = "erofs";

/// Mounts the image that is the only file of `fs` on the empty directory `mount_point`, by the kernel's EROFS.
///
/// # Errors
/// Any [`MountError`].
pub fn attach_native<F: Mountable>(
    fs: Arc<F>,
    mount_point: &Path,
    options: &MountOptions,
) -> Result<Mounted, MountError> {
    let (mount_point, awake) = ready_for(mount_point, options)?;
    let refused = |reason| MountError::Refused {
        path: mount_point.clone(),
        reason,
    };
    let (device, unseen) = begin().map_err(refused)?;
    let agreed = |granted, connection| fs.agreed(granted, connection);
    let serving = start(&fs, device, options, awake, agreed).map_err(refused)?;
    let mode = Mode {
        engine: Engine::Native,
        transport: serving.transport(),
    };
    let mounted = mount(unseen, &mount_point, options);
    let (socket, name) = mounted.map_err(|reason| MountError::Native {
        path: mount_point.clone(),
        reason,
    })?;
    let held = HeldMount {
        own: OwnMount::new(mount_point.clone()),
        ended: false,
    };
    let status = StatusSocket::answer(fs, socket, name).map_err(refused)?;
    Ok(Mounted {
        serving,
        held,
        mode,
        _status: Some(status),
    })
}

/// Makes the mount that nobody sees, in this process or in its helper, which keeps it.
fn begin() -> io::Result<(OwnedFd, Option<Unseen>)> {
    if let Some(device) = helping::unseen() {
        return Ok((device?, None));
    }
    let (device, unseen) = Unseen::new()?;
    Ok((device, Some(unseen)))
}

/// Mounts EROFS, in this process or in its helper, which keeps the name.
fn mount(
    unseen: Option<Unseen>,
    mount_point: &Path,
    options: &MountOptions,
) -> io::Result<(UnixListener, Option<Name>)> {
    match unseen {
        None => {
            let socket = helping::mount_native(options);
            let none = || io::Error::other("this process has no helper");
            Ok((socket.ok_or_else(none)??.into(), None))
        }
        Some(unseen) => {
            let (socket, name) = mount_here(&unseen, mount_point, options, process::id())?;
            Ok((socket, Some(name)))
        }
    }
}

/// Mounts EROFS over the only file of a mount, which `process` serves.
pub(crate) fn mount_here(
    unseen: &Unseen,
    mount_point: &Path,
    options: &MountOptions,
    process: u32,
) -> io::Result<(UnixListener, Name)> {
    let image = unseen.image()?;
    let name = Name::leading_to(&path_of(&image), options, process)?;
    let before = backing_devices();
    mount2(name.path(), mount_point, TYPE, flags(options), None)?;
    raise_read_ahead(&before);
    let socket = name.listen()?;
    Ok((socket, name))
}

/// Sets the kernel's read-ahead in the EROFS that was mounted since `before`. Nothing else tells which backing device is its own, so
/// it keeps the kernel's where others were mounted meanwhile. No name is used twice.
fn raise_read_ahead(before: &HashSet<OsString>) {
    let after = backing_devices();
    let mut new = after.difference(before);
    if let (Some(device), None) = (new.next(), new.next()) {
        let setting = Path::new(BACKING_DEVICES).join(device);
        // Without it, reads in order are as the kernel's own.
        let _ = fs::write(setting.join("read_ahead_kb"), READ_AHEAD_KB);
    }
}

/// Those of all mounts of EROFS over files.
fn backing_devices() -> HashSet<OsString> {
    let listed = fs::read_dir(BACKING_DEVICES)
        .into_iter()
        .flatten()
        .flatten();
    let names = listed.map(|device| device.file_name());
    let is_of_erofs = |name: &OsString| name.as_bytes().starts_with(b"erofs-");
    names.filter(is_of_erofs).collect()
}

/// Where the status of a native mount is told, until this is dropped.
pub(crate) struct StatusSocket {
    socket: Arc<UnixListener>,
    _name: Option<Name>,
}

impl StatusSocket {
    /// Tells it in a thread.
    fn answer<F: Mountable>(
        fs: Arc<F>,
        socket: UnixListener,
        name: Option<Name>,
    ) -> io::Result<Self> {
        let socket = Arc::new(socket);
        let own = Self {
            socket: socket.clone(),
            _name: name,
        };
        thread::Builder::new()
            .name("status".to_owned())
            .spawn(move || tell(&*fs, &socket))?;
        Ok(own)
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

/// Tells everybody who connects. Who does not take it gets none of it: it fits into the socket's buffer.
fn tell<F: Mountable>(fs: &F, socket: &UnixListener) {
    for asking in socket.incoming() {
        let mut asking = match asking {
            Ok(asking) => asking,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
            // There are too many open files.
            Err(_) => {
                thread::sleep(PAUSE);
                continue;
            }
        };
        let status = fs.getxattr(NodeId::ROOT, STATUS_XATTR.as_ref());
        let _ = asking.set_nonblocking(true);
        let _ = asking.write_all(&status.unwrap_or_default());
    }
}
