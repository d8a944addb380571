//! The kernel's NFS server and its client, on the same machine and without programs of their own.

use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use rustix::mount::{UnmountFlags, unmount};
use verimount_support::{command, mount_point::MountPoint};

/// The server's settings.
const SETTINGS: &str = "/proc/fs/nfsd";

/// What `rpc.mountd` would answer: entries that never expire, each of which the kernel reads from a file of this name in
/// `/proc/net/rpc` (Documentation/filesystems/nfs/rpc-cache.rst).
const EXPORTS: [&str; 2] = ["nfsd.export", "nfsd.fh"];
const CLIENTS: &str = "auth.unix.ip";

const NEVER: i32 = i32::MAX;

/// Read-only, from any port, without checks of subtrees, with a number instead of the device's: `NFSEXP_READONLY`,
/// `NFSEXP_INSECURE_PORT`, `NFSEXP_NOSUBTREECHECK`, `NFSEXP_FSID`.
const FLAGS: i32 = 0x2403;

/// The running server, which exports the file system of version 4's root.
pub(super) struct Server {
    settings: MountPoint,
}

impl Server {
    pub(super) fn start() -> Result<Self> {
        command::run(Command::new("busybox").args(["ip", "link", "set", "lo", "up"]))?;
        let settings = MountPoint::new(SETTINGS.into())?;
        let mut mount = Command::new("mount");
        command::run(mount.args(["-t", "nfsd", "nfsd"]).arg(settings.path()))?;
        let server = Self { settings };
        // Other versions need a port mapper.
        server.set("versions", "-3 +4")?;
        // The shortest time in seconds for which it waits for clients of an earlier server.
        server.set("nfsv4gracetime", "10")?;
        server.set("threads", "1")?;
        write(
            CLIENTS,
            "channel",
            &format!("nfsd 127.0.0.1 {NEVER} client"),
        )?;
        Ok(server)
    }

    fn set(&self, name: &str, value: &str) -> Result<()> {
        let path = self.settings.path().join(name);
        fs::write(&path, format!("{value}\n")).with_context(|| path.display().to_string())
    }

    /// Exports what is mounted in this directory, until the result is dropped.
    pub(super) fn export(&self, root: &Path) -> Result<Export<'_>> {
        let root = std::str::from_utf8(root.as_os_str().as_bytes())?;
        let export = Export { _server: self };
        for (cache, entry) in EXPORTS.into_iter().zip([
            format!("client {root} {NEVER} {FLAGS} 0 0 0"),
            format!("client 1 \\x00000000 {NEVER} {root}"),
        ]) {
            write(cache, "channel", &entry)?;
        }
        Ok(export)
    }

    /// Mounts what is exported.
    pub(super) fn mount(&self, point: &Path) -> Result<Client> {
        fs::create_dir_all(point)?;
        let point = point.to_owned();
        let mut mount = Command::new("mount");
        mount.args(["-i", "-t", "nfs4", "-o"]);
        mount.arg("vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1,ro");
        command::run(mount.arg("127.0.0.1:/").arg(&point))?;
        Ok(Client(point))
    }
}

/// What a client sees of an export, which may be gone already when this is dropped.
pub(super) struct Client(PathBuf);

impl Client {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // umount(8) would ask the server what is there.
        if let Err(error) = unmount(&self.0, UnmountFlags::DETACH) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.set("threads", "0") {
            eprintln!("{error:#}");
        }
    }
}

/// An exported mount, which the server uses until this is dropped.
pub(super) struct Export<'a> {
    _server: &'a Server,
}

impl Drop for Export<'_> {
    fn drop(&mut self) {
        for cache in EXPORTS.iter().rev() {
            if let Err(error) = write(cache, "flush", "1") {
                eprintln!("{error:#}");
            }
        }
    }
}

fn write(cache: &str, file: &str, entry: &str) -> Result<()> {
    let path = format!("/proc/net/rpc/{cache}/{file}");
    fs::write(&path, format!("{entry}\n")).with_context(|| format!("{entry:?} to {path}"))
}
