//! Disks over NBD.

use std::{
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    fio,
    lab::{Lab, User},
    mounts::Log,
};

/// How long a server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// A process that serves a disk. It is ended when this is dropped.
pub(super) struct Server {
    process: Child,
    socket: PathBuf,
}

impl Server {
    /// Serves `file` directly, with nbdkit's file plugin.
    pub(super) fn nbdkit(lab: &Lab, file: &Path) -> Result<Self> {
        let mut nbdkit = Command::new("nbdkit");
        nbdkit.arg("--foreground").arg("file").arg(file);
        Self::start(lab, nbdkit, "--unix")
    }

    /// Serves the volume in `file` with further `options`.
    pub(super) fn volume(lab: &Lab, file: &Path, options: &[&str]) -> Result<Self> {
        let mut serve = lab.verimount(User::Caller);
        serve.args(["volume", "serve", "--foreground"]);
        serve.args(options).arg(file);
        Self::start(lab, serve, "--socket")
    }

    /// fio with one job on the disk.
    pub(super) fn fio(&self) -> Command {
        fio::nbd(&self.socket)
    }

    /// Starts `server`, which takes the socket's path as `option`.
    fn start(lab: &Lab, mut server: Command, option: &str) -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let socket = lab.path(&format!("nbd-{}", COUNT.fetch_add(1, Relaxed)));
        let log = Log::of(lab);
        let process = log.record(server.arg(option).arg(&socket))?.spawn()?;
        let mut server = Self { process, socket };
        server.wait_until_ready().with_context(|| log.last_line())?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let start = Instant::now();
        while UnixStream::connect(&self.socket).is_err() {
            if let Some(status) = self.process.try_wait()? {
                bail!("the server ended: {status}");
            }
            if start.elapsed() > PATIENCE {
                bail!("nothing to connect to after {PATIENCE:?}");
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // If this fails, it has ended already.
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        if let Err(error) = self.process.wait() {
            eprintln!("an NBD server does not end: {error}");
        }
    }
}
