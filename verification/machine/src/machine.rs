//! QEMU.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;
use verimount_support::interrupt;

use crate::{
    initramfs::{self, HOST_TAG, Root},
    kernel::Kernel,
};

/// How long the guest may print nothing. Its processor is emulated, so its tests take some ten times as
/// long as here.
const SILENCE: Duration = Duration::from_secs(180);

/// How often it is checked whether to stop waiting.
const PAUSE: Duration = Duration::from_millis(200);

/// The guest's memory in MiB, in which its tests keep everything that they write.
const MEMORY: &str = "2048";

/// A kernel that panics ends the machine; one that hangs is silent. The kernels do not test their timer:
/// on a busy host it may not tick in time, and would be taken for missing. A systemd tells
/// failures only.
const KERNEL_OPTIONS: &str = "console=ttyS0 loglevel=3 panic=-1 oops=panic random.trust_cpu=on no_timer_check \
     systemd.show_status=error";

/// A virtual machine that can be started.
pub struct Machine {
    qemu: Command,
    folder: TempDir,
}

/// A running virtual machine. It is ended when this is dropped.
pub struct Running {
    qemu: Child,
    console: Receiver<String>,
    _folder: TempDir,
}

impl Machine {
    /// Prepares a machine that boots `kernel`, runs a command of the shell in this machine's root directory, which is
    /// read-only there, and powers off.
    ///
    /// # Errors
    /// Its initial file system cannot be packed.
    pub fn in_host_root(kernel: &Kernel, shell_command: &str) -> Result<Self> {
        let mut machine = Self::new(kernel, Root::Host(shell_command))?;
        machine
            .qemu
            .arg("-fsdev")
            .arg("local,id=root,path=/,security_model=none,readonly=on,multidevs=remap")
            .arg("-device")
            .arg(format!("virtio-9p-pci,fsdev=root,mount_tag={HOST_TAG}"));
        Ok(machine)
    }

    /// Prepares a machine that boots `kernel` and runs the system on `disk`, an ext4 file system, until that powers off.
    ///
    /// # Errors
    /// As [`Self::in_host_root`].
    pub fn of_disk(kernel: &Kernel, disk: &PathBuf) -> Result<Self> {
        Ok(Self::new(kernel, Root::Disk)?.with_disks([disk].into_iter()))
    }

    fn new(kernel: &Kernel, next: Root<'_>) -> Result<Self> {
        let folder = TempDir::new()?;
        let initramfs = initramfs::pack(kernel, next, folder.path())?;
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-machine", "q35", "-cpu", "max", "-smp", "1"])
            .args([
                "-m",
                MEMORY,
                "-display",
                "none",
                "-nodefaults",
                "-no-reboot",
            ])
            .args(["-serial", "stdio", "-append", KERNEL_OPTIONS])
            .arg("-kernel")
            .arg(kernel.image())
            .arg("-initrd")
            .arg(initramfs)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        Ok(Self { qemu, folder })
    }

    /// Adds these files as disks, in order.
    #[must_use]
    pub fn with_disks<'a>(mut self, disks: impl Iterator<Item = &'a PathBuf>) -> Self {
        for (number, disk) in disks.enumerate() {
            let drive = format!("if=none,format=raw,id=disk{number},file={}", disk.display());
            let device = format!("virtio-blk-pci,drive=disk{number}");
            self.qemu.args(["-drive", &drive, "-device", &device]);
        }
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// QEMU cannot be run.
    pub fn start(mut self) -> Result<Running> {
        let mut qemu = self.qemu.spawn().context("cannot run QEMU")?;
        let output = qemu.stdout.take().context("no console")?;
        Ok(Running {
            qemu,
            console: lines_of(output),
            _folder: self.folder,
        })
    }
}

impl Running {
    /// Waits until it has powered off, and passes each line of its console to `take`.
    ///
    /// # Errors
    /// As [`Self::line`], or QEMU fails.
    pub fn follow(mut self, take: &mut dyn FnMut(&str)) -> Result<()> {
        while let Some(line) = self.line()? {
            take(&line);
        }
        let status = self.qemu.wait()?;
        ensure!(status.success(), "QEMU: {status}");
        Ok(())
    }

    /// The next line of its console; `None` if it has ended.
    ///
    /// # Errors
    /// It prints nothing for too long.
    pub fn line(&self) -> Result<Option<String>> {
        let mut silence = Duration::ZERO;
        loop {
            interrupt::check()?;
            match self.console.recv_timeout(PAUSE) {
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Timeout) if silence < SILENCE => silence += PAUSE,
                Err(RecvTimeoutError::Timeout) => {
                    bail!("the guest printed nothing for {} s", SILENCE.as_secs())
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// The lines of its console that have arrived already.
    pub fn heard(&self) -> impl Iterator<Item = String> {
        self.console.try_iter()
    }

    /// Pauses it. Its disks no longer change when this returns.
    ///
    /// # Errors
    /// It has ended, or this program was interrupted.
    pub fn stop(&self) -> Result<()> {
        interrupt::check()?;
        let process = Pid::from_child(&self.qemu);
        kill_process(process, Signal::STOP)?;
        // Then no thread is in the kernel any more.
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(process), options)?;
        ensure!(
            status.is_some_and(|status| status.stopped()),
            "QEMU has ended"
        );
        Ok(())
    }

    /// Resumes it.
    ///
    /// # Errors
    /// It has ended.
    pub fn go_on(&self) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.qemu), Signal::CONT)?)
    }

    /// Kills it.
    ///
    /// # Errors
    /// The system's error.
    pub fn kill(&mut self) -> Result<()> {
        self.qemu.kill()?;
        self.qemu.wait()?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error cannot be reported here; usually it has ended already.
        let _ = self.kill();
    }
}

/// The lines of an output, read by a thread so that waiting for them can be interrupted.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}
