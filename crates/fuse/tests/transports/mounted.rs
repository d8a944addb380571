//! A [`MemoryFs`], mounted by root.

use std::{
    ffi::CString,
    fs::{self, File},
    io,
    num::NonZeroUsize,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    io::Errno,
    mount::{MountFlags, UnmountFlags, mount, unmount},
    process::geteuid,
};
use verimount_fuse::{Answering, Capabilities, Serving, SessionOptions, Transport};
use verimount_testkit::{eventually, skip};

use crate::memory_fs::MemoryFs;

/// Whether the kernel offers io_uring for FUSE; there since Linux 6.14.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// The largest request, in bytes.
const MAX_REQUEST: u32 = 1 << 20;

/// The transport and the kind of threads that a mount is to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// `/dev/fuse`.
    Device,
    /// `/dev/fuse` with fair sharing among users.
    Fair,
    /// io_uring.
    IoUring,
    /// io_uring requested where the kernel does not offer it.
    IoUringInVain,
}

/// A directory, which is unmounted when this is dropped.
pub(crate) struct MountPoint(tempfile::TempDir);

impl MountPoint {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        // Usually it is unmounted already, unless the test failed.
        let _ = unmount(self.path(), UnmountFlags::DETACH);
    }
}

/// A mount with its daemon, which is this process.
pub(crate) struct Mounted {
    pub(crate) fs: Arc<MemoryFs>,
    pub(crate) transport: Transport,
    serving: Option<Serving>,
    folder: MountPoint,
}

/// Runs `test` with a mount of each available kind.
pub(crate) fn with_each(test: impl Fn(&Mounted)) {
    for wanted in [Wanted::Device, Wanted::Fair, Wanted::IoUring] {
        if let Some(mounted) = Mounted::new(wanted) {
            test(&mounted);
            mounted.unmount();
        }
    }
}

impl Mounted {
    /// A new mount. `None`, after a note, if the test must be skipped.
    pub(crate) fn new(wanted: Wanted) -> Option<Self> {
        Self::with(wanted, Capabilities::empty())
    }

    /// A new mount with `more` capabilities. `None`, after a note, if the test must be skipped.
    pub(crate) fn with(wanted: Wanted, more: Capabilities) -> Option<Self> {
        if !geteuid().is_root() {
            skip("only root mounts without a helper");
            return None;
        }
        let folder = MountPoint::new();
        let fs = Arc::<MemoryFs>::default();
        let serving = serve(fs.clone(), folder.path(), wanted, more)?;
        let transport = serving.transport();
        assert_eq!(
            wanted == Wanted::IoUring,
            transport == Transport::IoUring,
            "{transport:?}"
        );
        Some(Self {
            fs,
            transport,
            serving: Some(serving),
            folder,
        })
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Unmounts and waits for the end of all threads.
    pub(crate) fn unmount(mut self) {
        // It can be busy although its files are closed: a process that another test starts has copies of all open
        // descriptors for a moment.
        eventually("it is not busy", || {
            let unmounted = unmount(self.root(), UnmountFlags::empty());
            assert!(
                matches!(unmounted, Ok(()) | Err(Errno::BUSY)),
                "{unmounted:?}"
            );
            unmounted.is_ok()
        });
        self.join();
    }

    /// Aborts the connection, even if requests are in flight.
    pub(crate) fn abort(&self) {
        // Open files keep the mount, but not the connection.
        let _ = unmount(self.root(), UnmountFlags::FORCE);
    }

    /// Waits for the end of all threads.
    pub(crate) fn join(&mut self) {
        self.serving.take().unwrap().join().unwrap();
    }
}

/// Mounts `fs` on `folder` and serves it with `more` capabilities. `None`, after a note, if it cannot.
pub(crate) fn serve(
    fs: Arc<MemoryFs>,
    folder: &Path,
    wanted: Wanted,
    more: Capabilities,
) -> Option<Serving> {
    let _offered = Offered::set(wanted)?;
    let device = File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .unwrap();
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other",
        device.as_raw_fd()
    );
    let options = CString::new(options).unwrap();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("test", folder, "fuse.test", flags, &*options).unwrap();
    let threads = NonZeroUsize::new(2).unwrap();
    let requested = SessionOptions {
        capabilities: Capabilities::DO_READDIRPLUS | Capabilities::PARALLEL_DIROPS | more,
        max_read: MAX_REQUEST,
        max_write: MAX_REQUEST,
        max_readahead: MAX_REQUEST,
        max_background: 256,
        max_stack_depth: 0,
        request_timeout: 0,
        answering: match wanted {
            Wanted::Device => Answering::ByThreads,
            Wanted::IoUring | Wanted::IoUringInVain => Answering::ByProcessor(threads),
            Wanted::Fair => Answering::Fairly,
        },
        holds: wanted == Wanted::Fair,
    };
    let agreed = |_, _| Ok(());
    let serving = verimount_fuse::serve(fs, device.into(), &requested, threads, None, agreed);
    Some(serving.unwrap())
}

/// The kernel's setting for io_uring, changed until this is dropped. It is global, but the kernel reads
/// it only when a file system is mounted.
struct Offered {
    /// The previous value, and the setting's file, locked against other tests and their daemons.
    before: Option<(String, File)>,
}

impl Offered {
    /// Sets it as `wanted` needs; `None`, after a note, if that is impossible.
    fn set(wanted: Wanted) -> Option<Self> {
        match Self::try_set(wanted == Wanted::IoUring) {
            Ok(offered) => Some(offered),
            // The kernel never offers it.
            Err(_) if wanted != Wanted::IoUring => Some(Self { before: None }),
            Err(error) => {
                skip(format_args!("{SWITCH}: {error}"));
                None
            }
        }
    }

    fn try_set(on: bool) -> io::Result<Self> {
        let switch = File::open(SWITCH)?;
        switch.lock()?;
        let before = fs::read_to_string(SWITCH)?;
        fs::write(SWITCH, if on { "Y" } else { "N" })?;
        Ok(Self {
            before: Some((before, switch)),
        })
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        if let Some((before, _)) = &self.before {
            fs::write(SWITCH, before.trim()).unwrap();
        }
    }
}

/// Whether an error means that the connection has ended.
pub(crate) fn is_disconnected(errno: Errno) -> bool {
    // The last one: io_uring was about to pass the request to a thread that was killed.
    matches!(errno, Errno::CONNABORTED | Errno::NOTCONN | Errno::CANCELED)
}
