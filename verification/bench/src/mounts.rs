//! Mounts to measure: ours and those of peers.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{time::ClockId, unistd::Pid};
use rustix::mount::{self, MountFlags};
use serde_json::Value;
use verimount_support::{command, mount_point::MountPoint};

use crate::{
    cache::kernel_bytes,
    lab::{Lab, User, first_word},
};

/// How long a mount may take to appear, or its process to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// A mount, which is unmounted when this is dropped.
#[derive(Debug)]
pub(crate) struct Mount {
    point: MountPoint,
    /// The serving process, if it is a child of this one.
    daemon: Option<Child>,
    user: User,
}

/// Options of `verimount mount`.
#[derive(Debug, Clone)]
pub(crate) struct Sealed {
    pub(crate) source: PathBuf,
    pub(crate) digest: String,
}

impl Sealed {
    /// Runs `build`, a command that builds and seals `image`.
    pub(crate) fn built(build: &mut Command, image: PathBuf) -> Result<Self> {
        Ok(Self {
            digest: first_word(build)?,
            source: image,
        })
    }

    /// Mounts with further `options`, by and for `user`.
    pub(crate) fn mount(&self, lab: &Lab, user: User, options: &[&str]) -> Result<Mount> {
        let mut mount = lab.verimount(user);
        mount
            .arg("mount")
            .args(["--digest", &self.digest])
            .args(options)
            .arg(&self.source);
        foreground(lab, user, mount)
    }
}

/// Mirrors the directory `source` with further `options`.
pub(crate) fn bridge(lab: &Lab, source: &Path, options: &[&str]) -> Result<Mount> {
    let mut bridge = lab.verimount(User::Caller);
    bridge.arg("bridge").args(options).arg(source);
    foreground(lab, User::Caller, bridge)
}

/// Mounts the volume in the file `storage` with further `options`.
pub(crate) fn volume(lab: &Lab, storage: &Path, options: &[&str]) -> Result<Mount> {
    let mut mount = lab.verimount(User::Caller);
    mount.args(["volume", "mount"]).args(options).arg(storage);
    foreground(lab, User::Caller, mount)
}

/// Mounts with `mount`, a `verimount` command to which the mount point is added.
fn foreground(lab: &Lab, user: User, mut mount: Command) -> Result<Mount> {
    mount.arg("--foreground");
    served(lab, user, |point| {
        mount.arg(point);
        mount
    })
}

/// Mounts with the command for a mount point, which serves the mount until that is unmounted.
///
/// The process is a child, whose memory and processor time can be measured.
pub(crate) fn served(
    lab: &Lab,
    user: User,
    command: impl FnOnce(&Path) -> Command,
) -> Result<Mount> {
    let point = new_point(lab, user)?;
    let log = Log::of(lab);
    let daemon = Some(log.record(&mut command(point.path()))?.spawn()?);
    let mut mount = Mount {
        point,
        daemon,
        user,
    };
    mount.wait_until_ready().with_context(|| log.last_line())?;
    Ok(mount)
}

/// Mounts an image with `program`, such as squashfuse.
pub(crate) fn fuse(lab: &Lab, program: &Path, image: &Path) -> Result<Mount> {
    let mut mount = Command::new(program);
    mount.arg(image);
    background(lab, mount)
}

/// Mounts an image with the kernel's own file system, on a loop device that is removed with the mount.
pub(crate) fn kernel(lab: &Lab, file_system: &str, image: &Path) -> Result<Mount> {
    looped(lab, file_system, "loop,ro", image)
}

/// Mounts an image with the kernel's own file system, over the file itself.
pub(crate) fn file_backed(lab: &Lab, file_system: &str, image: &Path) -> Result<Mount> {
    let point = new_point(lab, User::Caller)?;
    mount::mount(image, point.path(), file_system, MountFlags::RDONLY, None)?;
    Ok(Mount {
        point,
        daemon: None,
        user: User::Caller,
    })
}

/// Mounts the file system in `file` with the kernel, with these `options`.
pub(crate) fn looped(lab: &Lab, file_system: &str, options: &str, file: &Path) -> Result<Mount> {
    let mut mount = Command::new("mount");
    mount.args(["-t", file_system, "-o", options]).arg(file);
    background(lab, mount)
}

/// Mounts with `mount`, a command to which the mount point is added and that ends when the mount is made.
pub(crate) fn background(lab: &Lab, mut mount: Command) -> Result<Mount> {
    let point = new_point(lab, User::Caller)?;
    let log = Log::of(lab);
    mount.arg(point.path());
    command::run(log.record(&mut mount)?).with_context(|| log.last_line())?;
    Ok(Mount {
        point,
        daemon: None,
        user: User::Caller,
    })
}

/// The log file of all mounts and servers.
pub(crate) struct Log(PathBuf);

impl Log {
    pub(crate) fn of(lab: &Lab) -> Self {
        Self(lab.path("mounts.log"))
    }

    /// Redirects the output of `command` to it.
    pub(crate) fn record<'c>(&self, command: &'c mut Command) -> Result<&'c mut Command> {
        let file = File::options().create(true).append(true).open(&self.0)?;
        Ok(command.stdin(Stdio::null()).stderr(file))
    }

    pub(crate) fn last_line(&self) -> String {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().last().unwrap_or_default().to_owned()
    }
}

/// A new folder to mount on, which `user` owns.
pub(crate) fn new_point(lab: &Lab, user: User) -> Result<MountPoint> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let path = lab.path(&format!("mount-{}", COUNT.fetch_add(1, Relaxed)));
    let point = MountPoint::new(path)?;
    if user == User::Nobody {
        command::run(
            Command::new("chown")
                .arg("nobody:nogroup")
                .arg(point.path()),
        )?;
    }
    Ok(point)
}

impl Mount {
    pub(crate) fn path(&self) -> &Path {
        self.point.path()
    }

    /// The count with this name in `verimount status`, such as `relayed/reads`.
    pub(crate) fn counter(&self, lab: &Lab, name: &str) -> Result<u64> {
        let mut status = lab.verimount(self.user);
        let json = command::stdout(status.arg("status").arg("--json").arg(self.path()))?;
        let status: Value = serde_json::from_str(&json)?;
        let counter = status.pointer(&format!("/{name}"));
        counter
            .and_then(Value::as_u64)
            .with_context(|| format!("no {name} in {json}"))
    }

    /// The peak memory of the serving process in bytes, including the program's own pages.
    pub(crate) fn peak_memory(&self) -> Result<u64> {
        kernel_bytes(&self.of_daemon("status")?, "VmHWM:").context("no VmHWM")
    }

    /// The present memory of the serving process and its helper in bytes: what is resident of the former, and the share of both,
    /// in which a page counts as its part among all processes that have it.
    pub(crate) fn present_memory(&self) -> Result<(u64, u64)> {
        let id = self.id()?;
        let resident = kernel_bytes(&self.of_daemon("status")?, "VmRSS:").context("no VmRSS")?;
        let helpers = fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
        let own = id.to_string();
        let both = helpers.split_whitespace().chain([own.as_str()]);
        let shares = both.map(|process| {
            let pages = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
            kernel_bytes(&pages, "Pss:").context("no Pss")
        });
        Ok((resident, shares.sum::<Result<u64>>()?))
    }

    /// The processor time of the serving process so far, in seconds.
    pub(crate) fn processor_seconds(&self) -> Result<f64> {
        let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(self.id()?.cast_signed()))?;
        Ok(Duration::from(clock.now()?).as_secs_f64())
    }

    fn id(&self) -> Result<u32> {
        Ok(self.daemon.as_ref().context("no process of ours")?.id())
    }

    /// A file of /proc about the serving process.
    fn of_daemon(&self, file: &str) -> Result<String> {
        Ok(fs::read_to_string(format!("/proc/{}/{file}", self.id()?))?)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let start = Instant::now();
        while !self.point.is_mounted() {
            if let Some(status) = self
                .daemon
                .as_mut()
                .and_then(|child| child.try_wait().ok()?)
            {
                bail!("the process that was to serve it ended: {status}");
            }
            if start.elapsed() > PATIENCE {
                bail!("not mounted after {PATIENCE:?}");
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.point.unmount() {
            eprintln!("{error:#}");
        }
        let Some(daemon) = &mut self.daemon else {
            return;
        };
        let start = Instant::now();
        while matches!(daemon.try_wait(), Ok(None)) {
            if start.elapsed() > PATIENCE {
                eprintln!(
                    "the process that served {} does not end",
                    self.point.path().display()
                );
                let _ = daemon.kill();
                let _ = daemon.wait();
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}
