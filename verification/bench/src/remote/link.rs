//! Another machine at the end of a link: a network namespace.

use std::{
    env, fs,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    path::Path,
    process::{self, Child, Command},
    time::Duration,
};

use anyhow::Result;
use verimount_support::command;

use super::{free_port, wait_for};

/// The bits of a second on the link, with all headers.
pub(crate) const BITS_PER_SECOND: f64 = 1e9;

/// How the names of namespaces begin, before the id of the process.
const PREFIX: &str = "verimount-bench-";

/// Where `ip` has its namespaces.
const NAMESPACES: &str = "/run/netns";

/// A namespace behind a link of [`BITS_PER_SECOND`] towards here.
pub(crate) struct Link {
    name: String,
}

impl Link {
    /// The address of the other machine. Its network is reserved for benchmarks (RFC 2544).
    pub(crate) const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2));

    /// # Errors
    /// The kernel or the privileges for it are missing, or the addresses are in use.
    pub(crate) fn new() -> Result<Self> {
        remove_those_of_killed()?;
        let id = process::id();
        let link = Self {
            name: format!("{PREFIX}{id}"),
        };
        let (here, there) = (&format!("vmh{id}"), &format!("vmt{id}"));
        let ip = |command: String| run("ip", &command);
        let name = &link.name;
        ip(format!("netns add {name}"))?;
        ip(format!(
            "link add {here} type veth peer name {there} netns {name}"
        ))?;
        ip(format!("address add 198.18.0.1/30 dev {here}"))?;
        ip(format!("link set {here} up"))?;
        for inside in [
            "ip link set lo up".to_owned(),
            format!("ip address add {}/30 dev {there}", Self::THERE),
            format!("ip link set {there} up"),
            // The queue is short enough to be no delay of its own.
            format!("tc qdisc add dev {there} root tbf rate 1gbit burst 256kb latency 10ms"),
        ] {
            let (program, arguments) = inside.split_once(' ').unwrap_or((&inside, ""));
            command::run(link.inside(program).args(arguments.split(' ')))?;
        }
        Ok(link)
    }

    /// A command with a program on the other machine, which has the same files.
    pub(crate) fn inside(&self, program: &str) -> Command {
        let mut nsenter = Command::new("nsenter");
        nsenter.arg(format!("--net={NAMESPACES}/{}", self.name));
        nsenter.args(["--", program]);
        nsenter
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The interfaces end with it.
        if let Err(error) = run("ip", &format!("netns delete {}", self.name)) {
            eprintln!("{error:#}");
        }
    }
}

/// Removes the namespaces of benchmarks that were killed: the addresses would lead to theirs.
fn remove_those_of_killed() -> Result<()> {
    for entry in fs::read_dir(NAMESPACES).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        let id = name.strip_prefix(PREFIX);
        if id.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            run("ip", &format!("netns delete {name}"))?;
        }
    }
    Ok(())
}

fn run(program: &str, arguments: &str) -> Result<()> {
    command::run(Command::new(program).args(arguments.split(' ')))
}

/// A proxy on the other machine, through which everything takes its time. It is ended when this is dropped.
pub(crate) struct Delay {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Delay {
    /// Passes connections on to `to`, with a round trip of `time`.
    pub(crate) fn start(link: &Link, to: SocketAddr, time: Duration) -> Result<Self> {
        let address = SocketAddr::new(Link::THERE, free_port()?);
        let program = env::current_exe()?;
        let mut delay = link.inside(program.to_str().unwrap_or_default());
        delay.args([
            "delay",
            &address.to_string(),
            &to.to_string(),
            &time.as_millis().to_string(),
        ]);
        let mut delay = Self {
            process: delay.spawn()?,
            address,
        };
        wait_for("the delaying proxy", &mut delay.process, || {
            TcpStream::connect(address).is_ok()
        })?;
        Ok(delay)
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
