//! Gives up the rights that a process does not need which serves a mount or an export.
//!
//! What it does need is put together before, by what the process is asked to do. For what a sandboxed process cannot do, a
//! helper process is started that can do nothing else.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf, absolute},
};

use rustix::fs::{Mode, OFlags};
use verimount::Location;
use verimount_content::{BESIDE, FarLocation, SIDECAR_SUFFIX, path_with};
use verimount_mount::{Awake, MountOptions as AttachOptions, MountTasks};
use verimount_remote::{helper_tasks, own_files};
use verimount_sandbox::{FileRights, Sandbox as Rights};
use verimount_sys::GuardedPath;

use crate::{ResidentFiles, doctor::uring_is_on, namer};

pub use verimount_helper::{Answer, Task, ask, ask_for_file, detach as detach_helper, removing};
pub use verimount_sandbox::{Held, Kind};

/// The rights that this process keeps, and what its helper does.
#[derive(Debug)]
#[must_use]
pub struct Sandbox {
    kind: Kind,
    rights: Rights,
    tasks: Vec<Task>,
    /// What is opened again while it serves.
    replaceable: Vec<PathBuf>,
    /// Whether it reaches servers.
    is_remote: bool,
    /// The registries among them.
    registries: Vec<String>,
    /// Whether the kernel reads an image itself, and this process no file system.
    is_native: bool,
}

impl Sandbox {
    /// Only what every process needs that serves this.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            rights: Rights::new(kind),
            tasks: Vec::new(),
            replaceable: Vec::new(),
            is_remote: false,
            registries: Vec::new(),
            is_native: false,
        }
    }

    /// Keeps a file, or a directory with all below it, to be read.
    pub fn read(&mut self, path: impl AsRef<Path>) {
        self.rights.allow(path, FileRights::Read);
    }

    /// Keeps a file to be read and written.
    pub fn write(&mut self, path: impl AsRef<Path>) {
        self.rights.allow(path, FileRights::Write);
    }

    /// Keeps a directory, to change anything below it.
    pub fn change(&mut self, path: impl AsRef<Path>) {
        self.rights.allow(path, FileRights::Change);
    }

    /// Keeps what reading content takes: its file and those beside it with what verifies it, or the network.
    pub fn read_content(&mut self, location: &Location) {
        if let Some(path) = location.path() {
            self.read(path);
            for suffix in BESIDE {
                self.read(path_with(path, suffix));
            }
        }
        if let Some(far) = FarLocation::of(location) {
            self.is_remote = true;
            self.registries.extend(far.registry().map(str::to_owned));
        }
    }

    /// Keeps what replacing wrong bytes of content takes: writing its file and the one with its Merkle tree.
    pub fn repair_content(&mut self, location: &Location) {
        if let Some(path) = location.path() {
            self.repair_file(path);
            self.repair_file(&path_with(path, SIDECAR_SUFFIX));
            self.rights.allow_files_of_others();
        }
    }

    /// Keeps what replacing wrong bytes in one file of content takes, unless [others can lead its path
    /// elsewhere](GuardedPath): it is not repaired then.
    pub fn repair_file(&mut self, path: &Path) {
        let file = GuardedPath::new(path).and_then(|file| file.open(OFlags::PATH, Mode::empty()));
        if file.is_ok() {
            self.write(path);
        }
    }

    /// Keeps the source of a bridge, whose programs the kernel runs for the bridge's users.
    pub fn mirror(&mut self, path: impl AsRef<Path>) {
        self.rights.allow(path, FileRights::Mirror);
    }

    /// Keeps what resident files take.
    ///
    /// # Errors
    /// Those of the system.
    pub fn resident(&mut self, files: &ResidentFiles) -> io::Result<()> {
        self.rights.allow_resident(files.path());
        self.tasks.push(files.task()?);
        Ok(())
    }

    /// Keeps the mount on `mount_point`, with options that allow no more than `most`.
    pub fn mount(&mut self, mount_point: &Path, most: AttachOptions) {
        self.read(mount_point);
        if self.kind == Kind::Bridge && uring_is_on().unwrap_or(false) {
            self.rights.allow_io_uring();
        }
        if most.awake {
            self.keep_awake();
        }
        if most.native {
            self.rights.allow_native();
            self.is_native = true;
        }
        self.tasks
            .extend(MountTasks::new(mount_point, most).tasks());
    }

    /// Keeps that processors are kept out of idle states.
    pub fn keep_awake(&mut self) {
        self.write(Awake::PATH);
    }

    /// Keeps that [`open_again`] opens a file, also another one that was put in its place. Landlock would keep the one that is
    /// there now, or all that is beside it.
    ///
    /// # Errors
    /// Those of the working directory.
    pub fn open_again(&mut self, path: &Path) -> io::Result<()> {
        self.replaceable.push(absolute(path)?);
        Ok(())
    }

    /// Keeps that the helper does this.
    pub fn task(&mut self, task: Task) {
        self.tasks.push(task);
    }

    /// Starts the helper, and gives up all other rights of this thread and of those that it starts from now on, as far as the
    /// kernel can. Returns what does not hold, with the reasons.
    ///
    /// # Errors
    /// If no helper can be started, as this process has other threads or the system refuses; no right is given up then.
    pub fn enter(self) -> io::Result<Vec<String>> {
        let Self {
            mut rights,
            mut tasks,
            replaceable,
            is_remote,
            registries,
            is_native,
            ..
        } = self;
        if is_remote {
            rights.allow_network();
            for file in own_files() {
                rights.allow(file, FileRights::Read);
            }
            tasks.extend(helper_tasks(registries));
        }
        tasks.push(opening(replaceable));
        if is_native {
            // Before the helper, which is not for it.
            namer::start()?;
        }
        verimount_helper::start(tasks)?;
        Ok(rights.enter())
    }
}

/// The name of the task of opening a file that may have been replaced.
const OPEN: &str = "open";

fn opening(files: Vec<PathBuf>) -> Task {
    Task::new(OPEN, move |given| {
        let asked = Path::new(OsStr::from_bytes(given));
        let file = files.iter().find(|file| *file == asked);
        let file = File::open(file.ok_or(io::ErrorKind::PermissionDenied)?)?;
        Ok(Answer::of_file(file.into()))
    })
}

/// Opens a file that may have been replaced, for reading: by the helper, if this process has one.
///
/// # Errors
/// Those of the system; `PermissionDenied` for what the [sandbox](Sandbox::open_again) does not keep.
pub fn open_again(path: &Path) -> io::Result<File> {
    let path = absolute(path)?;
    match ask_for_file(OPEN, path.as_os_str().as_bytes()) {
        Some(file) => Ok(file?.into()),
        None => File::open(path),
    }
}
