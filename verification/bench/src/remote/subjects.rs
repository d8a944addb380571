//! Programs that show a file on a web server as a local file.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Result;
use tempfile::TempDir;

use super::{Large, Way};
use crate::{
    lab::{Lab, User, has},
    mounts::{self, Mount},
    report::Report,
};

/// A program that mounts the large file.
#[derive(Debug, Clone, Copy)]
pub(super) enum Subject {
    /// Verimount with a cache on disk, which is new.
    Ours,
    /// Verimount without one.
    Uncached,
    Peer(&'static Peer),
}

/// Another project's program, which verifies nothing.
#[derive(Debug)]
pub(super) struct Peer {
    name: &'static str,
    program: &'static str,
    /// The command for a way to the server, a folder for its cache and a mount point.
    command: fn(&Way<'_>, &Path, &Path) -> Command,
}

/// A mount with a folder for its cache.
pub(super) struct Mounted {
    pub(super) mount: Mount,
    _cache: TempDir,
}

pub(super) const OURS: &str = "verimount";

const PEERS: [Peer; 4] = [
    Peer {
        name: "rclone mount",
        program: "rclone",
        command: |way, cache, point| rclone(way, "", cache, point),
    },
    Peer {
        name: "httpdirfs",
        program: "httpdirfs",
        command: httpdirfs,
    },
    Peer {
        name: "nbdkit, nbdfuse",
        program: "nbdfuse",
        command: nbdfuse,
    },
    Peer {
        name: "s3fs",
        program: "s3fs",
        command: s3fs,
    },
];

impl Subject {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => OURS,
            Self::Uncached => "verimount, no cache",
            Self::Peer(peer) => peer.name,
        }
    }

    pub(super) fn mount(self, lab: &Lab, way: &Way<'_>, large: &Large) -> Result<Mounted> {
        let cache = lab.new_folder()?;
        let path = cache.path();
        let mount = match self {
            Self::Ours => {
                let path = path.display().to_string();
                let options = ["--cache", &path];
                way.sealed(&large.image)
                    .mount(lab, User::Caller, &options)?
            }
            Self::Uncached => {
                let options = ["--no-cache"];
                way.sealed(&large.image)
                    .mount(lab, User::Caller, &options)?
            }
            Self::Peer(peer) => served(lab, |point| (peer.command)(way, path, point))?,
        };
        Ok(Mounted {
            mount,
            _cache: cache,
        })
    }

    /// The reason why it cannot be measured, if any.
    fn obstacle(self, lab: &Lab, way: &Way<'_>, large: &Large) -> Option<String> {
        let Self::Peer(peer) = self else {
            return None;
        };
        if !has(peer.program) {
            return Some("not installed".to_owned());
        }
        let try_once = || -> Result<()> {
            let mounted = self.mount(lab, way, large)?;
            Ok(File::open(mounted.file())?.read_exact(&mut [0; 4096])?)
        };
        try_once().err().map(|error| format!("{error:#}"))
    }
}

impl Mounted {
    /// The large file in it.
    pub(super) fn file(&self) -> PathBuf {
        self.mount.path().join(Large::FILE)
    }
}

/// Verimount, and the peers that work here.
pub(super) fn subjects(
    lab: &Lab,
    report: &mut Report,
    way: &Way<'_>,
    large: &Large,
) -> Vec<Subject> {
    let mut subjects = vec![Subject::Ours, Subject::Uncached];
    for peer in PEERS.iter().map(Subject::Peer) {
        match peer.obstacle(lab, way, large) {
            None => subjects.push(peer),
            Some(obstacle) => report.leave_out(peer.name(), &obstacle),
        }
    }
    subjects
}

/// Mounts with a peer's command.
pub(super) fn served(lab: &Lab, command: impl FnOnce(&Path) -> Command) -> Result<Mount> {
    mounts::served(lab, User::Caller, |point| {
        let mut command = command(point);
        command.stdout(Stdio::null());
        command
    })
}

/// Mounts a folder on the server.
pub(super) fn rclone(way: &Way<'_>, folder: &str, cache: &Path, point: &Path) -> Command {
    let mut rclone = Command::new("rclone");
    rclone.args(["mount", "--config=", "--read-only", "--log-level=ERROR"]);
    // Programs can be started, as from our images.
    rclone.args(["--vfs-cache-mode=full", "--file-perms=0755"]);
    rclone.arg("--http-url").arg(way.url(""));
    rclone.arg("--cache-dir").arg(cache);
    rclone.arg(format!(":http:{folder}")).arg(point);
    rclone
}

fn httpdirfs(way: &Way<'_>, cache: &Path, point: &Path) -> Command {
    let mut httpdirfs = Command::new("httpdirfs");
    httpdirfs.args(["-f", "--single-file-mode", "--cache", "--cache-location"]);
    httpdirfs.arg(cache).arg(way.url(Large::FILE)).arg(point);
    httpdirfs
}

fn nbdfuse(way: &Way<'_>, cache: &Path, point: &Path) -> Command {
    let mut nbdfuse = Command::new("nbdfuse");
    nbdfuse.arg("-r").arg(point.join(Large::FILE));
    nbdfuse.args(["--command", "nbdkit", "-s", "-r"]);
    nbdfuse.args(["--filter=readahead", "--filter=cache", "curl"]);
    nbdfuse.arg(way.url(Large::FILE)).arg("cache-on-read=true");
    nbdfuse.env("TMPDIR", cache);
    nbdfuse
}

fn s3fs(way: &Way<'_>, cache: &Path, point: &Path) -> Command {
    let mut s3fs = Command::new("s3fs");
    s3fs.args(["-f", "-o", "ro,public_bucket=1,use_path_request_style"]);
    s3fs.args(["-o", "umask=0022", "-o"]);
    s3fs.arg(format!("url={}", way.url("").trim_end_matches('/')));
    s3fs.arg("-o").arg(format!("use_cache={}", cache.display()));
    s3fs.arg("bucket").arg(point);
    s3fs
}
