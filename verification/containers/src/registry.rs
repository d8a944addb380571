//! A registry on this machine, from which podman pulls: it looks into stores of layers only for images of registries.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use verimount_support::command;

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// docker-registry, which ends when this is dropped.
pub(crate) struct Registry {
    process: Child,
    /// `HOST:PORT`.
    pub(crate) address: String,
}

impl Registry {
    /// Starts it, with its files in a folder.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let folder = folder.join("registry");
        fs::create_dir(&folder)?;
        // Free now; another program could take it meanwhile.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = format!("localhost:{port}");
        let config = folder.join("config.yml");
        let storage = folder.join("storage");
        fs::write(
            &config,
            format!(
                "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '127.0.0.1:{port}'}}\n",
                storage.display()
            ),
        )?;
        let log = fs::File::create(folder.join("log"))?;
        let mut program = Command::new("docker-registry");
        program.arg("serve").arg(&config);
        let process = program
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let registry = Self { process, address };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(start.elapsed() < PATIENCE, "the registry does not start");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(registry)
    }

    /// Stores the image in an archive under this name.
    pub(crate) fn push(&self, archive: &Path, name: &str) -> Result<()> {
        let mut copy = Command::new("skopeo");
        copy.args(["copy", "--quiet", "--dest-tls-verify=false"]);
        copy.arg(format!("oci-archive:{}", archive.display()));
        command::run(copy.arg(format!("docker://{}/{name}", self.address)))
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
