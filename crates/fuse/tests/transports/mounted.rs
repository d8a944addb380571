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
use verimount_fuse::{Answering, Capabilities, Serving, Session, Transport, Wishes};

use crate::memory_fs::MemoryFs;

/// Whether the kernel offers io_uring for FUSE; there since Linux 6.14.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// The largest request, in bytes.
const MAX_REQUEST: u32 = 1 << 20;

/// What a mount is to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// `/dev/fuse`.
    Device,
    /// The same, fairly.
    Fair,
    /// io_uring.
    IoUring,
    /// io_uring, where the kernel does not offer it.
    IoUringInVain,
}

/// A directory; what is mounted there is taken away when it is dropped.
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
        // Often it is unmounted, unless the test failed.
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

/// Does `test` with mounts of all kinds, as far as there are.
pub(crate) fn with_each(test: impl Fn(&Mounted)) {
    for wanted in [Wanted::Device, Wanted::Fair, Wanted::IoUring] {
        if let Some(mounted) = Mounted::new(wanted) {
            test(&mounted);
            mounted.unmount();
        }
    }
}

impl Mounted {
    /// A new one, or `None` after a note, for the test to skip its work.
    pub(crate) fn new(wanted: Wanted) -> Option<Self> {
        Self::with(wanted, Capabilities::empty())
    }

    /// The same, with `more` than the usual capabilities.
    pub(crate) fn with(wanted: Wanted, more: Capabilities) -> Option<Self> {
        if !geteuid().is_root() {
            eprintln!("skipped: only root mounts without a helper");
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
        unmount(self.root(), UnmountFlags::empty()).unwrap();
        self.join();
    }

    /// Breaks the connection, whatever is under way.
    pub(crate) fn abort(&self) {
        // Whoever has a file open keeps the mount, but not the connection.
        let _ = unmount(self.root(), UnmountFlags::FORCE);
    }

    /// Waits for the end of all threads.
    pub(crate) fn join(&mut self) {
        self.serving.take().unwrap().join().unwrap();
    }
}

/// Mounts `fs` on `folder` and serves it, with `more` than the usual capabilities, or says why not.
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
    let wishes = Wishes {
        capabilities: Capabilities::DO_READDIRPLUS | Capabilities::PARALLEL_DIROPS | more,
        max_read: MAX_REQUEST,
        max_write: MAX_REQUEST,
        max_readahead: MAX_REQUEST,
        max_background: 256,
        max_stack_depth: 0,
        answering: match wanted {
            Wanted::Device => Answering::ByThreads,
            Wanted::IoUring | Wanted::IoUringInVain => Answering::ByProcessor(threads),
            Wanted::Fair => Answering::Fairly,
        },
    };
    let session = Session::new(fs, device.into(), wishes, threads).unwrap();
    Some(session.start(None).unwrap())
}

/// The kernel's switch for io_uring, set for as long as this lives. It is one for all mounts, but
/// only asked when one is made.
struct Offered {
    /// What it was, and the switch, locked against other tests and their daemons.
    before: Option<(String, File)>,
}

impl Offered {
    /// Sets it so that `wanted` can be had, or says why it cannot.
    fn set(wanted: Wanted) -> Option<Self> {
        match Self::try_set(wanted == Wanted::IoUring) {
            Ok(offered) => Some(offered),
            // The kernel never offers it.
            Err(_) if wanted != Wanted::IoUring => Some(Self { before: None }),
            Err(error) => {
                eprintln!("skipped: {SWITCH}: {error}");
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

/// Whether a request has ended because its connection has, or was never made for that reason.
pub(crate) fn is_disconnected(errno: Errno) -> bool {
    // The last: io_uring was about to hand it to a thread that was killed.
    matches!(errno, Errno::CONNABORTED | Errno::NOTCONN | Errno::CANCELED)
}

/// What an operation of the standard library failed with.
pub(crate) fn errno<T>(result: io::Result<T>) -> Errno {
    let error = result.err().expect("it must fail");
    Errno::from_io_error(&error).unwrap()
}
