//! Volumes whose disks this process serves, through FUSE and NBD.

mod disk;
mod full;
mod looped;
mod one_bad_block;
mod prelude;

use std::num::{NonZeroU64, NonZeroUsize};

use verimount_host::{
    mounts::{AttachOptions, EndSignals, ask_mount, attach, our_mount_on, served, unmount},
    volume::{
        CommitTimer, Disk, DiskAccess, Mode, NewVolume, OpenOptions, Server, Volume, VolumeExport,
        VolumeFiles, VolumeFs,
    },
};

use crate::prelude::*;

/// The modes that allow writing.
const MODES: [Mode; 3] = [Mode::Journal, Mode::Bitmap, Mode::Direct];

fn files(volume: &Path) -> VolumeFiles {
    VolumeFiles {
        volume: volume.to_owned(),
        data_device: None,
        header: None,
    }
}

/// Makes a new volume of this size.
#[track_caller]
fn format(path: &Path, mib: u64) {
    let new = NewVolume {
        file_size: NonZeroU64::new(mib << 20),
        ..NewVolume::default()
    };
    verimount_host::volume::format(&files(path), &new).unwrap();
}

/// A volume in use.
struct Served {
    /// The mount point or the socket.
    place: PathBuf,
    volume: Arc<Volume>,
    timer: CommitTimer,
    /// The server of clients, if it is no mount.
    server: Option<Arc<Server>>,
    serving: thread::JoinHandle<()>,
}

impl Served {
    fn open(path: &Path, mode: Mode) -> (Arc<Volume>, CommitTimer, Disk) {
        let options = OpenOptions {
            mode,
            ..OpenOptions::default()
        };
        // It can be locked although it was closed: a process that another test starts has copies of all open
        // descriptors for a moment.
        let mut opened = None;
        eventually("it is not in use", || {
            let tried = verimount_host::volume::open(&files(path), &options);
            let is_in_use = matches!(&tried, Err(error) if error.to_string().contains("in use"));
            opened = (!is_in_use).then_some(tried);
            !is_in_use
        });
        let (volume, _) = opened.unwrap().unwrap();
        let volume = Arc::new(volume);
        let timer = CommitTimer::start(&volume, Duration::from_secs(10)).unwrap();
        let disk = Disk::new(volume.clone(), Vec::new(), served(path, None));
        (volume, timer, disk)
    }

    /// Mounts it on a directory.
    #[track_caller]
    fn mount(path: &Path, directory: &Path, mode: Mode) -> Self {
        let (volume, timer, disk) = Self::open(path, mode);
        let metadata = fs::metadata(path).unwrap();
        let access = DiskAccess {
            uid: metadata.uid(),
            gid: metadata.gid(),
            mode: metadata.mode(),
        };
        let options = AttachOptions {
            source_name: "volume".to_owned(),
            read_only: mode.is_read_only(),
            allow_other: false,
            threads: NonZeroUsize::new(2).unwrap(),
            awake: false,
            no_exec: false,
            no_symfollow: false,
            native: false,
            suid: false,
            dev: false,
        };
        let fs = Arc::new(VolumeFs::new(disk, access));
        let mounted = attach(fs, directory, &options).unwrap();
        let signals = EndSignals::new(None).unwrap();
        Self {
            place: directory.to_owned(),
            volume,
            timer,
            server: None,
            serving: thread::spawn(move || mounted.wait(signals).unwrap()),
        }
    }

    /// Serves it to NBD clients at a socket.
    #[track_caller]
    fn export(path: &Path, socket: &Path, mode: Mode) -> Self {
        let (volume, timer, disk) = Self::open(path, mode);
        let server = Arc::new(Server::bind(socket, Default::default()).unwrap());
        let export = VolumeExport::new(disk, false);
        let serving = server.clone();
        Self {
            place: socket.to_owned(),
            volume,
            timer,
            server: Some(server),
            serving: thread::spawn(move || serving.serve(&export, NonZeroUsize::new(2).unwrap())),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// Its status, as JSON.
    fn status(&self) -> Value {
        serde_json::to_value(ask_mount(&our_mount_on(&self.place).unwrap().unwrap()).unwrap())
            .unwrap()
    }

    /// Ends it as a daemon that is told to end; how its volume was closed.
    fn end(self) -> Result<(), impl std::fmt::Debug> {
        match &self.server {
            Some(server) => server.stop(),
            None => eventually("it is not busy", || unmount(&self.place).is_ok()),
        }
        self.serving.join().unwrap();
        drop(self.timer);
        eventually("nobody uses it", || Arc::strong_count(&self.volume) == 1);
        Arc::into_inner(self.volume).unwrap().close()
    }

    /// Ends it as a daemon that is told to end, which succeeds.
    #[track_caller]
    fn unmount(self) {
        self.end().unwrap();
    }
}

/// Mounts `vol.img`.
#[track_caller]
fn mount(world: &World, mode: Mode) -> Served {
    Served::mount(&world.path("vol.img"), &world.path("mnt"), mode)
}

/// The disk of a mount, opened for reading and writing.
#[track_caller]
fn open_disk(mounted: &Served) -> File {
    let mut options = FileOptions::new();
    let opened = options.read(true).write(true).open(mounted.path("disk"));
    opened.unwrap()
}

/// A file opened for direct I/O.
fn open_directly(path: &Path) -> File {
    let direct = OFlags::DIRECT.bits() as i32;
    let mut options = FileOptions::new();
    options.read(true).write(true).custom_flags(direct);
    options.open(path).unwrap()
}

/// All tests again, by an ordinary user.
#[test]
fn by_nobody() {
    pass_again_as_nobody(&["--skip", "by_nobody"]);
}
