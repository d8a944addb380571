//! The ext4 that a database is kept on: in a loop device, on the disk of a volume.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use verimount_support::{command, loop_device::LoopDevice, mount_point::MountPoint};

use crate::output;

/// The size of the volume in bytes.
const SIZE: &str = "768M";

/// How often it is checked whether the volume is mounted.
const PAUSE: Duration = Duration::from_millis(20);

/// A mounted file system. Everything is ended when this is dropped, in the order of the fields.
#[derive(Debug)]
pub(super) struct Disk {
    files: MountPoint,
    _device: LoopDevice,
    volume: MountPoint,
    daemon: Daemon,
}

/// The daemon of a volume, in the foreground.
#[derive(Debug)]
struct Daemon(Child);

fn volume(folder: &Path) -> PathBuf {
    folder.join("volume")
}

/// Makes a volume with an empty file system, which everybody may write to.
pub(super) fn format(verimount: &Path, folder: &Path, mode: &str) -> Result<()> {
    let volume = volume(folder);
    if volume.exists() {
        fs::remove_file(&volume)?;
    }
    let mut format = Command::new(verimount);
    format.args(["volume", "format", "--size", SIZE]);
    output(format.args(["--mode", mode]).arg(&volume))?;
    let (point, mut daemon) = Daemon::start(verimount, folder, mode)?;
    let mut make = Command::new("mkfs.ext4");
    make.args(["-q", "-E", "root_owner=65534:65534"]);
    output(make.arg(point.path().join("disk")))?;
    point.unmount()?;
    daemon.wait()
}

/// Verifies all of the volume.
pub(super) fn check(verimount: &Path, folder: &Path) -> Result<()> {
    let mut check = Command::new(verimount);
    output(check.args(["volume", "check"]).arg(volume(folder)))?;
    Ok(())
}

impl Disk {
    /// Mounts the volume, checks the file system as a machine that starts does, and mounts it.
    pub(super) fn open(verimount: &Path, folder: &Path, mode: &str) -> Result<Self> {
        let (volume, daemon) = Daemon::start(verimount, folder, mode)?;
        let disk = volume.path().join("disk");
        let device = LoopDevice::attach(&disk, &["--direct-io=on"])?;
        let mut repair = Command::new("e2fsck");
        let repaired = repair.arg("-p").arg(device.path()).output();
        let repaired = repaired.context("cannot run e2fsck")?;
        ensure!(
            matches!(repaired.status.code(), Some(0 | 1)),
            "e2fsck -p cannot repair the file system: {repaired:?}"
        );
        output(Command::new("e2fsck").arg("-fn").arg(device.path()))?;
        let files = MountPoint::new(folder.join("files"))?;
        let mut mount = Command::new("mount");
        command::run(mount.arg(device.path()).arg(files.path()))?;
        Ok(Self {
            files,
            _device: device,
            volume,
            daemon,
        })
    }

    /// The root of the file system.
    pub(super) fn path(&self) -> &Path {
        self.files.path()
    }

    /// Kills the daemon, as the end of a machine would.
    pub(super) fn kill(&mut self) -> Result<()> {
        let Daemon(daemon) = &mut self.daemon;
        let ended = daemon.try_wait()?;
        ensure!(ended.is_none(), "the daemon ended by itself: {ended:?}");
        daemon.kill()?;
        daemon.wait()?;
        Ok(())
    }

    /// Unmounts everything in order.
    pub(super) fn end(self) -> Result<()> {
        let Self {
            files,
            _device: device,
            volume,
            mut daemon,
        } = self;
        files.unmount()?;
        drop(device);
        volume.unmount()?;
        daemon.wait()
    }
}

impl Daemon {
    /// Mounts the volume in `folder`.
    fn start(verimount: &Path, folder: &Path, mode: &str) -> Result<(MountPoint, Self)> {
        let point = MountPoint::new(folder.join("mnt"))?;
        let mut mount = Command::new(verimount);
        mount.args(["volume", "mount", "--foreground", "--quiet", "--mode", mode]);
        mount.arg(volume(folder)).arg(point.path());
        // What it says about damaged blocks is expected where a mode promises nothing.
        let log = folder.join("volume.log");
        mount.stderr(File::options().create(true).append(true).open(&log)?);
        let mut daemon = Self(mount.spawn()?);
        while !point.is_mounted() {
            let ended = daemon.0.try_wait()?;
            if let Some(status) = ended {
                bail!(
                    "the volume is not mounted: {status}\n{}",
                    fs::read_to_string(&log)?
                );
            }
            thread::sleep(PAUSE);
        }
        Ok((point, daemon))
    }

    /// Waits until it has ended, after its mount was unmounted.
    fn wait(&mut self) -> Result<()> {
        let status: ExitStatus = self.0.wait()?;
        ensure!(status.success(), "the daemon of the volume: {status}");
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended is not killed: its status was read.
        let ended = self.0.kill().and_then(|()| self.0.wait());
        if let Err(error) = ended {
            eprintln!("the daemon of the volume: {error}");
        }
    }
}
