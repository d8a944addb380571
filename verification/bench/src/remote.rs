//! Images on a web server, compared with other programs that read files over HTTP.

pub(crate) mod delay;
mod everything;
mod in_order;
pub(crate) mod link;
mod memory;
mod processor_time;
mod python;
mod random;
mod round_trips;
pub(crate) mod server;
mod shared;
mod subjects;
mod walk;
mod warm;

use std::{
    fs::{self, File},
    io::Read,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use self::{
    link::{Delay, Link},
    server::Server,
};
use crate::{
    data,
    lab::{Format, Lab, has, seconds},
    mounts::Sealed,
    report::Report,
};

/// How long a server may take to begin or to end something.
const PATIENCE: Duration = Duration::from_secs(20);

/// The time to the far server and back.
pub(crate) const FAR: Duration = Duration::from_millis(40);

/// How long a file is read. What takes longer is not read to its end.
const LONGEST_READ: Duration = Duration::from_secs(30);

/// A `read` of cat.
const READ: usize = 128 << 10;

pub(crate) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    const ALL: &str = "everything about remote images";
    if !lab.is_root() {
        report.leave_out(ALL, Lab::NEEDS_ROOT);
        return Ok(());
    }
    for program in ["nginx", "curl", "openssl"] {
        if !has(program) {
            report.leave_out(ALL, &format!("{program} is not installed"));
            return Ok(());
        }
    }
    let files = lab.path("www");
    fs::create_dir(&files)?;
    let large = Large::make(lab)?;
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let server = Server::start(lab, &files, here, Command::new("nginx"))?;
    let near = Way::new("loopback", &server, server.http);
    let subjects = subjects::subjects(lab, report, &near, &large);

    in_order::near(lab, report, &large, &near, &subjects)?;
    processor_time::run(lab, report, &large, &near)?;
    random::bytes(lab, report, &large, &near, &subjects)?;
    everything::run(lab, report, &large, &near)?;
    memory::run(lab, report, &near)?;
    walk::run(lab, report, &near)?;
    shared::run(lab, report, &server)?;
    drop(server);
    warm::run(lab, report, &large)?;

    let link = match Link::new() {
        Ok(link) => link,
        Err(error) => {
            report.leave_out("a far server", &format!("{error:#}"));
            return Ok(());
        }
    };
    let server = Server::start(lab, &files, Link::THERE, link.inside("nginx"))?;
    let delay = Delay::start(&link, server.http, FAR)?;
    let far = Way::new("1 Gbit/s, 40 ms", &server, delay.address);
    in_order::far(lab, report, &large, &far, &subjects)?;
    random::readers(lab, report, &large, &far)?;
    everything::run(lab, report, &large, &far)?;
    python::run(lab, report, &far)?;
    round_trips::run(lab, report, &large, &link, &server)
}

/// A way to a server.
struct Way<'a> {
    name: &'static str,
    server: &'a Server,
    base: String,
}

impl<'a> Way<'a> {
    fn new(name: &'static str, server: &'a Server, address: SocketAddr) -> Self {
        Self {
            name,
            server,
            base: format!("http://{address}/"),
        }
    }

    fn url(&self, file: &str) -> String {
        format!("{}{file}", self.base)
    }

    /// What to mount.
    fn sealed(&self, image: &Image) -> Sealed {
        Sealed {
            source: self.url(&image.name).into(),
            digest: image.digest.clone(),
        }
    }

    /// curl, which writes a file on the server to `to`.
    fn curl(&self, file: &str, to: &Path) -> Command {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--output"]);
        curl.arg(to).arg(self.url(file));
        curl
    }
}

/// An image on the servers.
struct Image {
    name: String,
    digest: String,
}

impl Image {
    /// Makes an image of a folder.
    fn make(lab: &Lab, folder: &Path, name: &str) -> Result<Self> {
        let name = format!("{name}.img");
        let sealed = lab.image(Format::Erofs, folder, on_server(lab, &name))?;
        Ok(Self {
            name,
            digest: sealed.digest,
        })
    }

    /// Puts it into the page cache, from which servers send it.
    fn read_into_memory(&self, lab: &Lab) -> Result<()> {
        seconds(Command::new("cat").arg(on_server(lab, &self.name)))?;
        Ok(())
    }
}

/// The place of a file on the servers in the lab.
fn on_server(lab: &Lab, name: &str) -> PathBuf {
    lab.path("www").join(name)
}

/// The large file: on the servers by itself, and in an image.
struct Large {
    plain: PathBuf,
    bytes: u64,
    image: Image,
}

impl Large {
    /// The name of the file, on the servers and in mounts.
    const FILE: &str = "large.bin";

    fn make(lab: &Lab) -> Result<Self> {
        let folder = lab.path("large");
        fs::create_dir(&folder)?;
        let inside = folder.join(Self::FILE);
        data::write_file(&inside, lab.sizes.file)?;
        let plain = on_server(lab, Self::FILE);
        fs::hard_link(&inside, &plain)?;
        Ok(Self {
            image: Image::make(lab, &folder, "large")?,
            plain,
            bytes: lab.sizes.file,
        })
    }

    /// Its size, for output.
    fn size(&self) -> String {
        data::bytes_label(self.bytes)
    }

    /// Drops all caches, but for what the servers read.
    fn make_cold(&self, lab: &Lab) -> Result<()> {
        lab.make_cold(2 * self.bytes)?;
        seconds(Command::new("cat").arg(&self.plain))?;
        self.image.read_into_memory(lab)
    }
}

/// A file that was read in order, as far as time allowed.
#[derive(Debug, Clone, Copy)]
struct Reading {
    bytes: u64,
    seconds: f64,
}

impl Reading {
    /// Reads a file as `cat` does, for [`LONGEST_READ`] at most.
    fn of(file: &Path) -> Result<Self> {
        let start = Instant::now();
        let mut file = File::open(file)?;
        let mut buffer = vec![0; READ];
        let mut bytes = 0;
        while start.elapsed() < LONGEST_READ {
            match file.read(&mut buffer)? {
                0 => break,
                read => bytes += read as u64,
            }
        }
        Ok(Self {
            bytes,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    /// The seconds that `bytes` take at this speed.
    fn seconds_for(self, bytes: u64) -> f64 {
        self.seconds * bytes as f64 / self.bytes as f64
    }
}

/// Waits until a process is ready.
pub(crate) fn wait_for(what: &str, process: &mut Child, is_ready: impl Fn() -> bool) -> Result<()> {
    let start = Instant::now();
    while !is_ready() {
        if let Some(status) = process.try_wait()? {
            bail!("{what} ended: {status}");
        }
        if start.elapsed() > PATIENCE {
            bail!("{what} is not ready after {PATIENCE:?}");
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// A port that nobody uses now.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("0.0.0.0:0")?.local_addr()?.port())
}
