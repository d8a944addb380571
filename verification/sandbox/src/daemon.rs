//! Daemons of each kind.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;
use verimount_command_tests::binary;
use verimount_testkit::{HttpServer, eventually, root_passes_through_or_skip};

use crate::kernel::Kernel;

/// The user `nobody`.
pub(crate) const NOBODY: u32 = 65_534;

/// What a daemon serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An image on this machine.
    Image,
    /// An image on this machine whose files are kept in memory, which only root can.
    Resident,
    /// An image on a web server, without a cache.
    Remote,
    /// A mirrored directory.
    Bridge,
    /// A mounted volume.
    Volume,
    /// A volume for clients of a socket.
    Export,
}

impl Kind {
    /// Each of them that a user can serve.
    pub fn all(user: User) -> Vec<Self> {
        let everyones = [
            Self::Image,
            Self::Remote,
            Self::Bridge,
            Self::Volume,
            Self::Export,
        ];
        let is_resident = user == User::Root && root_passes_through_or_skip();
        let roots = is_resident.then_some(Self::Resident);
        everyones.into_iter().chain(roots).collect()
    }
}

/// What daemons serve, in a folder that every user reaches.
pub struct World {
    folder: TempDir,
    program: PathBuf,
    server: HttpServer,
}

/// A running daemon. It ends when this is dropped.
pub struct Daemon {
    child: Child,
    said: Arc<Mutex<String>>,
}

impl World {
    /// An image, a directory and a volume, which belong to `user`.
    ///
    /// # Panics
    /// If they cannot be made.
    pub fn new(user: User) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("verimount");
        // By another process: one that a thread here starts meanwhile would keep the copy open for writing, and it could not
        // be run.
        let copied = Command::new("cp").arg(binary()).arg(&program).status();
        assert!(copied.unwrap().success());
        for name in ["source", "mnt"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("source/file"), "text").unwrap();
        fs::copy("/bin/true", folder.path().join("source/program")).unwrap();
        let world = Self {
            folder,
            program,
            server: HttpServer::honest([]),
        };
        for arguments in [
            &["build", "source", "image"][..],
            &["volume", "format", "--size", "16M", "volume"],
        ] {
            let mut command = world.command();
            let made = command.args(arguments).output().unwrap();
            assert!(made.status.success(), "{made:?}");
        }
        if user == User::Nobody {
            for name in [
                "",
                "source",
                "source/file",
                "source/program",
                "mnt",
                "image",
                "volume",
            ] {
                let path = world.folder.path().join(name);
                std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let server = HttpServer::honest(fs::read(world.path("image")).unwrap());
        Self { server, ..world }
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(self.folder.path())
            .env_remove("VERIMOUNT_UNKNOWN_CALLS");
        command
    }

    /// The arguments by which a kind is served.
    fn arguments(&self, kind: Kind) -> Vec<String> {
        let url = self.server.url("/image");
        let words = match kind {
            Kind::Image => "mount --unpinned image mnt",
            Kind::Resident => "mount --unpinned --resident all --resident-limit 1M image mnt",
            Kind::Remote => &format!("mount --unpinned --no-cache {url} mnt"),
            Kind::Bridge => "bridge source mnt --audit audit.log",
            Kind::Volume => "volume mount volume mnt",
            Kind::Export => "volume serve volume --socket socket",
        };
        words.split(' ').map(str::to_owned).collect()
    }

    /// Starts a daemon of this kind, by `user` and below `kernel` if that is not the machine's.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(
        &self,
        kind: Kind,
        user: User,
        options: &[&str],
        kernel: Option<Kernel>,
    ) -> Daemon {
        let mut command = self.command();
        if kernel.is_some() {
            // It waits until it is traced.
            command = Command::new("sh");
            command.current_dir(self.folder.path());
            command.args(["-c", "kill -STOP $$; exec ./verimount \"$@\"", "sh"]);
        }
        command.args(self.arguments(kind)).arg("--foreground");
        command.args(options).stderr(Stdio::piped());
        user.becomes(&mut command);
        let mut child = command.spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let stderr = child.stderr.take().unwrap();
        let heard = said.clone();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                *heard.lock().unwrap() += &format!("{line}\n");
            }
        });
        if let Some(kernel) = kernel {
            kernel.run(&child);
        }
        let mut daemon = Daemon { child, said };
        eventually("it is served, or has ended", || {
            daemon.said().contains(" on ") || daemon.child.try_wait().unwrap().is_some()
        });
        assert!(
            daemon.said().contains(" on "),
            "{kind:?}: {}",
            daemon.said()
        );
        // All threads wait then.
        thread::sleep(Duration::from_millis(200));
        daemon
    }

    /// Runs the program in a mount.
    ///
    /// # Panics
    /// If it does not run.
    pub fn run(&self, user: User) {
        let mut command = Command::new(self.path("mnt/program"));
        user.becomes(&mut command);
        let status = command.status();
        assert!(status.is_ok_and(|status| status.success()), "{user:?}");
    }

    /// Uses what a daemon serves, as the user who has started it.
    ///
    /// # Panics
    /// If the answer is wrong.
    pub fn use_it(&self, kind: Kind, user: User) {
        let (mut command, expected) = match kind {
            Kind::Image | Kind::Resident | Kind::Remote | Kind::Bridge => {
                (Command::new("cat"), "text")
            }
            Kind::Volume => (Command::new("head"), "\0"),
            Kind::Export => (self.command(), "volume"),
        };
        command.args(match kind {
            Kind::Image | Kind::Resident | Kind::Remote | Kind::Bridge => &["mnt/file"][..],
            Kind::Volume => &["-c", "1", "mnt/disk"],
            Kind::Export => &["status", "socket"],
        });
        user.becomes(command.current_dir(self.folder.path()));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(expected), "{kind:?} {user:?}: {output:?}");
    }
}

/// Who starts a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// The superuser.
    Root,
    /// An ordinary user.
    Nobody,
}

impl User {
    /// Makes a command run as this user.
    pub(crate) fn becomes(self, command: &mut Command) {
        if self == Self::Nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
    }
}

impl Daemon {
    /// Its process id.
    pub fn id(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// What it has said so far.
    ///
    /// # Panics
    /// If the thread that listens has panicked.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Ends it, and waits for that.
    ///
    /// # Panics
    /// If it fails.
    pub fn end(mut self, world: &World) {
        kill(Pid::from_raw(self.id()), Signal::SIGTERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status:?}: {}", self.said());
        assert!(is_unmounted(&world.path("mnt")));
    }
}

impl World {
    /// Removes the mount that a daemon has left which was killed.
    ///
    /// # Panics
    /// If it remains.
    pub fn unmount(&self) {
        let mount_point = self.path("mnt");
        if !is_unmounted(&mount_point) {
            let unmounted = Command::new("umount").arg(&mount_point).status();
            assert!(unmounted.unwrap().success());
        }
    }
}

fn is_unmounted(directory: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    !table.contains(directory.to_str().unwrap())
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = kill(Pid::from_raw(self.id()), Signal::SIGTERM);
            let _ = self.child.wait();
        }
    }
}
