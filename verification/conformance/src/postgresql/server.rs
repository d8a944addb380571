//! A PostgreSQL server of its own, which runs as another user since it refuses to run as root.

use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::output;

/// `nobody`.
const USER: u32 = 65534;

/// Where Debian has a folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// Little memory, and frequent checkpoints: data are written during each round.
const SETTINGS: [&str; 5] = [
    "listen_addresses=",
    "shared_buffers=16MB",
    "max_wal_size=32MB",
    "min_wal_size=32MB",
    "checkpoint_timeout=30s",
];

/// How often a server's state is checked.
const PAUSE: Duration = Duration::from_millis(50);

/// For how long a server may take to start or to end: it reads its log again after a crash.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running server. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    process: Child,
    /// The folder of its socket.
    socket: PathBuf,
}

/// The newest installed version's command `name`, which runs as another user.
fn program(name: &str) -> Result<Command> {
    let versions = fs::read_dir(VERSIONS).with_context(|| format!("cannot list {VERSIONS}"))?;
    let newest = versions
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .max();
    let newest = newest.with_context(|| format!("no version is installed in {VERSIONS}"))?;
    let program = Path::new(VERSIONS).join(format!("{newest}/bin/{name}"));
    let mut command = Command::new(program);
    command.uid(USER).gid(USER).current_dir("/");
    Ok(command)
}

fn data(disk: &Path) -> PathBuf {
    disk.join("data")
}

/// Makes an empty database whose pages have checksums.
pub(super) fn make(disk: &Path) -> Result<()> {
    let mut make = program("initdb")?;
    make.args(["--data-checksums", "--username=test", "--auth=trust"]);
    output(make.args(["--no-locale", "--pgdata"]).arg(data(disk)))?;
    Ok(())
}

/// Verifies the checksums of all pages of a database that is not in use.
pub(super) fn check_pages(disk: &Path) -> Result<()> {
    let mut check = program("pg_checksums")?;
    output(check.args(["--check", "--pgdata"]).arg(data(disk)))?;
    Ok(())
}

impl Server {
    /// Starts it, and waits until it answers. Its socket is in `folder`.
    pub(super) fn start(disk: &Path, folder: &Path) -> Result<Self> {
        let socket = folder.join("socket");
        fs::create_dir_all(&socket)?;
        fs::set_permissions(&socket, Permissions::from_mode(0o777))?;
        let log = folder.join("postgresql.log");
        let mut start = program("postgres")?;
        start.arg("-D").arg(data(disk)).arg("-k").arg(&socket);
        for setting in SETTINGS {
            start.args(["-c", setting]);
        }
        start.stderr(fs::File::create(&log)?);
        let process = start.spawn()?;
        let mut server = Self { process, socket };
        let began = Instant::now();
        while !server.answers()? {
            if server.process.try_wait()?.is_some() || began.elapsed() > PATIENCE {
                bail!("it does not start:\n{}", fs::read_to_string(&log)?);
            }
            thread::sleep(PAUSE);
        }
        Ok(server)
    }

    fn answers(&self) -> Result<bool> {
        let mut ask = program("pg_isready")?;
        let answer = ask
            .arg("--quiet")
            .arg("--host")
            .arg(&self.socket)
            .status()?;
        Ok(answer.success())
    }

    /// A client that reads statements and prints rows, without decoration.
    pub(super) fn client(&self) -> Result<Command> {
        let mut client = program("psql")?;
        client.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        client.args(["--username=test", "--dbname=postgres", "--host"]);
        client.arg(&self.socket);
        Ok(client)
    }

    /// Ends it in order.
    pub(super) fn stop(mut self) -> Result<()> {
        self.signal(Signal::INT)?;
        let status = self.process.wait()?;
        ensure!(
            status.success(),
            "PostgreSQL did not end in order: {status}"
        );
        Ok(())
    }

    /// Ends it at once, if it has not ended by itself since its disk is gone.
    pub(super) fn end(mut self) -> Result<()> {
        self.signal(Signal::QUIT)?;
        let began = Instant::now();
        while self.process.try_wait()?.is_none() {
            ensure!(began.elapsed() < PATIENCE, "PostgreSQL does not end");
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        if self.process.try_wait()?.is_none() {
            kill_process(Pid::from_child(&self.process), signal)?;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let ended = self.process.kill().and_then(|()| self.process.wait());
        if let Err(error) = ended {
            eprintln!("the PostgreSQL server: {error}");
        }
    }
}
