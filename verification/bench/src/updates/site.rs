//! Servers with the newer images: nginx, and a daemon of rsync.

use std::{
    fs,
    marker::PhantomData,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::Result;

use crate::{
    lab::Lab,
    remote::{
        FAR, free_port,
        link::{Delay, Link},
        server::Server,
        wait_for,
    },
};

/// Both servers on one machine.
pub(super) struct Site<'a> {
    pub(super) name: &'static str,
    pub(super) server: Server,
    /// Where nginx is reached, and rsync.
    http: SocketAddr,
    rsync: SocketAddr,
    _rsync: Rsync,
    _delays: Vec<Delay>,
    _link: PhantomData<&'a Link>,
}

impl<'a> Site<'a> {
    /// On this machine.
    pub(super) fn near(lab: &Lab, files: &Path) -> Result<Self> {
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let server = Server::start(lab, files, here, Command::new("nginx"))?;
        let rsync = Rsync::start(lab, files, here, Command::new("rsync"))?;
        Ok(Self {
            name: "loopback",
            http: server.http,
            rsync: rsync.address,
            server,
            _rsync: rsync,
            _delays: Vec::new(),
            _link: PhantomData,
        })
    }

    /// At the end of a link.
    pub(super) fn far(lab: &Lab, files: &Path, link: &'a Link) -> Result<Self> {
        let server = Server::start(lab, files, Link::THERE, link.inside("nginx"))?;
        let rsync = Rsync::start(lab, files, Link::THERE, link.inside("rsync"))?;
        let delays = [server.http, rsync.address].map(|to| Delay::start(link, to, FAR));
        let delays = delays.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(Self {
            name: "1 Gbit/s, 40 ms",
            http: delays[0].address,
            rsync: delays[1].address,
            server,
            _rsync: rsync,
            _delays: delays,
            _link: PhantomData,
        })
    }

    /// The URL of a file by HTTP.
    pub(super) fn url(&self, file: &str) -> String {
        format!("http://{}/{file}", self.http)
    }

    /// Its name for rsync.
    pub(super) fn rsync_url(&self, file: &str) -> String {
        format!("rsync://{}/{}/{file}", self.rsync, Rsync::MODULE)
    }
}

/// A daemon of rsync. It is ended when this is dropped.
struct Rsync {
    process: Child,
    address: SocketAddr,
}

impl Rsync {
    /// The name of the files it has.
    const MODULE: &str = "files";

    /// Has `files` at an address; `rsync` is the command that starts it on the machine with this address.
    fn start(lab: &Lab, files: &Path, at: IpAddr, mut rsync: Command) -> Result<Self> {
        let address = SocketAddr::new(at, free_port()?);
        let config = lab.path(&format!("rsyncd-{}.conf", address.port()));
        let text = format!(
            "use chroot = no\nuid = root\n[{}]\npath = {}\nread only = yes\n",
            Self::MODULE,
            files.display()
        );
        fs::write(&config, text)?;
        rsync
            .args(["--daemon", "--no-detach", "--config"])
            .arg(config);
        rsync.arg(format!("--address={at}"));
        rsync.arg(format!("--port={}", address.port()));
        let process = rsync.stdin(Stdio::null()).spawn()?;
        let mut daemon = Self { process, address };
        wait_for("rsync", &mut daemon.process, || {
            TcpStream::connect(address).is_ok()
        })?;
        Ok(daemon)
    }
}

impl Drop for Rsync {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
