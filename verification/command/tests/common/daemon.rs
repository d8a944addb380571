//! Real mounts, which always end.

use std::{
    process::{ChildStderr, ExitStatus},
    thread::JoinHandle,
};

use rustix::mount::unmount;

use crate::prelude::*;

/// A mount that lasts longer than this hangs. Its daemon is then killed, which ends everything that waits
/// for it. This is far more than any test needs.
const PATIENCE: Duration = Duration::from_secs(100);

/// A mount whose daemon is our child.
pub(crate) struct Daemon {
    child: Child,
    directory: PathBuf,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
    _watchdog: Watchdog,
}

impl Daemon {
    /// Mounts `source` on `directory`.
    #[track_caller]
    pub(crate) fn mount(source: &Path, directory: &Path, options: &[&str]) -> Self {
        Self::start(User::Current.command(), source, directory, options)
            .unwrap_or_else(|said| panic!("not mounted: {said}"))
    }

    /// Mirrors the directory `source` on `directory`.
    #[track_caller]
    pub(crate) fn bridge(source: &Path, directory: &Path, options: &[&str]) -> Self {
        Self::bridge_as(User::Current.command(), source, directory, options)
    }

    /// Mirrors with this command.
    #[track_caller]
    pub(crate) fn bridge_as(
        mut command: Command,
        source: &Path,
        directory: &Path,
        options: &[&str],
    ) -> Self {
        command
            .arg("bridge")
            .arg(source)
            .arg(directory)
            .args(options);
        Self::spawn(command, directory).unwrap_or_else(|said| panic!("not mounted: {said}"))
    }

    /// Mounts the volume `volume` on `directory`.
    #[track_caller]
    pub(crate) fn volume(volume: &Path, directory: &Path, options: &[&str]) -> Self {
        let mut command = User::Current.command();
        command.args(["volume", "mount"]).arg(volume).arg(directory);
        command.args(options);
        Self::spawn(command, directory).unwrap_or_else(|said| panic!("not mounted: {said}"))
    }

    /// Serves the volume `volume` to NBD clients at `socket`, which stands for the directory.
    #[track_caller]
    pub(crate) fn nbd(volume: &Path, socket: &Path, options: &[&str]) -> Self {
        Self::nbd_by(User::Current.command(), volume, socket, options)
    }

    /// Serves with this command.
    #[track_caller]
    pub(crate) fn nbd_by(
        mut command: Command,
        volume: &Path,
        socket: &Path,
        options: &[&str],
    ) -> Self {
        command.args(["volume", "serve"]).arg(volume);
        command.arg("--socket").arg(socket).args(options);
        Self::spawn(command, socket).unwrap_or_else(|said| panic!("not served: {said}"))
    }

    /// Mounts with this command; its output, if it ended without a mount.
    pub(crate) fn start(
        mut command: Command,
        source: &Path,
        directory: &Path,
        options: &[&str],
    ) -> Result<Self, String> {
        command
            .arg("mount")
            .arg(source)
            .arg(directory)
            .args(options);
        Self::spawn(command, directory)
    }

    fn spawn(mut command: Command, directory: &Path) -> Result<Self, String> {
        command.arg("--foreground");
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let watchdog = Watchdog::new(&child, PATIENCE);
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        // What is logged before, is ours, too.
        while !is_ready(&said) {
            if stderr.read_line(&mut said).unwrap() == 0 {
                let _ = child.wait();
                return Err(said);
            }
        }
        let log = Arc::new(Mutex::new(said));
        let reader = keep_reading(stderr, log.clone());
        Ok(Self {
            child,
            directory: directory.to_owned(),
            log,
            reader: Some(reader),
            _watchdog: watchdog,
        })
    }

    /// Kills it if it still runs after this time.
    pub(crate) fn bites_after(&mut self, patience: Duration) {
        self._watchdog = Watchdog::new(&self.child, patience);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its output so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Unmounts, and waits for the daemon to end with success.
    #[track_caller]
    pub(crate) fn unmount(self) -> String {
        if is_root() {
            eventually("it is not busy", || {
                let unmounted = unmount(&self.directory, UnmountFlags::empty());
                assert!(matches!(unmounted, Ok(()) | Err(Errno::BUSY)));
                unmounted.is_ok()
            });
        } else {
            umount(&self.directory);
        }
        self.ends_well()
    }

    /// Waits for the end of the daemon, which was told to end; returns its whole output.
    #[track_caller]
    pub(crate) fn ends_well(mut self) -> String {
        let log = self.exits_well();
        let left = fs::read_dir(&self.directory).unwrap().count();
        assert_eq!(left, 0, "the mount point is not empty again");
        log
    }

    /// Waits for the end of the daemon, which was told to end, but whose directory may have another mount by now;
    /// returns its whole output.
    #[track_caller]
    pub(crate) fn exits_well(&mut self) -> String {
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "{}", self.log());
        let log = self.log();
        assert!(!log.contains("panicked"), "{log}");
        log
    }

    /// Waits for the end of the daemon, with or without success.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let status = self.child.wait().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        status
    }
}

/// Whether the daemon has printed that it is ready.
fn is_ready(said: &str) -> bool {
    let modes = [" (read-ahead ", " (native, ", " (NBD, "];
    said.contains(" on ") && modes.iter().any(|mode| said.contains(mode))
}

/// Reads the daemon's output, so that it never waits for a reader.
fn keep_reading(mut stderr: BufReader<ChildStderr>, log: Arc<Mutex<String>>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(len @ 1..) = stderr.read(&mut bytes) {
            log.lock()
                .unwrap()
                .push_str(&String::from_utf8_lossy(&bytes[..len]));
        }
    })
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{:?} said: {}", self.directory, self.log());
        }
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        unmount_lazily(&self.directory);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A mount whose daemon is in the background.
pub(crate) struct Background {
    directory: PathBuf,
}

impl Background {
    #[track_caller]
    pub(crate) fn mount(source: &Path, directory: &Path, options: &[&str]) -> Self {
        // First, so that it is unmounted whatever happens.
        let background = Self::adopt(directory);
        verimount(args!["mount", source, directory; options.iter()]).succeeds();
        background
    }

    /// Takes over an existing mount.
    pub(crate) fn adopt(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }

    /// The daemon's process, as it says: the helper of an earlier one may have the same arguments and be about to end.
    #[track_caller]
    pub(crate) fn daemon(&self) -> Pid {
        // It may have found bad data.
        let status = verimount(args!["status --json", &self.directory]).json();
        let pid = status["daemon"]["pid"].as_i64();
        let pid = pid.and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        pid.expect("there is no daemon")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        unmount_lazily(&self.directory);
    }
}

/// The status of a mount, which has found no bad data.
#[track_caller]
pub(crate) fn status(directory: &Path) -> Value {
    let status = verimount(args!["status --json", directory]);
    status.succeeds_quietly().json()
}

/// A number of the status of a mount, by its name for Prometheus without the prefix.
#[track_caller]
pub(crate) fn metric(directory: &Path, field: &str) -> u64 {
    let status = verimount(args!["status", directory, "--prometheus"]);
    let text = status.text();
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("verimount_{field}{{")));
    let line = line.unwrap_or_else(|| panic!("no {field} in {text}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

/// Unmounts with the command under test.
#[track_caller]
pub(crate) fn umount(directory: &Path) {
    unless_busy(|| verimount(args!["umount --", directory])).succeeds_quietly();
}

/// Repeats an unmount while the mount is busy. It can be busy although its files are closed: a process that
/// another test starts has copies of all open descriptors for a moment.
pub(crate) fn unless_busy(mut run: impl FnMut() -> Ended) -> Ended {
    let mut ended = run();
    eventually("it is not busy", || {
        let busy = ["busy", "in use"]
            .iter()
            .any(|word| ended.stderr.contains(word));
        if busy {
            ended = run();
        }
        !busy
    });
    ended
}

/// Whether `ps` would show this letter for a process.
pub(crate) fn is_in_state(process: &Child, state: char) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    rest.starts_with(state)
}

/// The processes of the command that have the path of a mount point as an argument: the daemon and its helper, once they are
/// on their own.
pub(crate) fn processes_of(directory: &Path) -> Vec<Pid> {
    let wanted = directory.as_os_str().as_encoded_bytes();
    let command = binary().canonicalize().unwrap();
    let is_one = |process: &Path| {
        let is_the_command = fs::read_link(process.join("exe")).is_ok_and(|exe| exe == command);
        let arguments = fs::read(process.join("cmdline")).unwrap_or_default();
        let mut arguments = arguments.split(|&byte| byte == 0);
        is_the_command && arguments.any(|argument| argument == wanted)
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let processes = processes.filter(|process| is_one(&process.path()));
    let numbers = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw).collect()
}
