use std::{
    env,
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
    debian_kernel::Kernel,
    initramfs::{self, HOST},
};

/// How long the guest may be silent. Its processor is emulated, so that its tests take some ten
/// times as long as here.
const SILENCE: Duration = Duration::from_secs(180);

/// How often it is looked whether to go on waiting.
const PAUSE: Duration = Duration::from_millis(200);

/// The guest's memory in MiB. Whatever its tests write is held in it.
const MEMORY: &str = "2048";

/// A kernel that hangs or panics ends the machine, or is silent. None tests its timer, which would be
/// found missing where this machine is too busy for it to tick in time.
const KERNEL_OPTIONS: &str =
    "console=ttyS0 loglevel=3 panic=-1 oops=panic random.trust_cpu=on no_timer_check";

/// A machine that can be started.
pub(crate) struct Machine {
    qemu: Command,
    folder: TempDir,
}

/// A machine that runs. It is ended when this is dropped.
pub(crate) struct Running {
    qemu: Child,
    console: Receiver<String>,
    _folder: TempDir,
}

impl Machine {
    /// Gets ready a machine that boots `kernel` and runs a task of this program in it.
    pub(crate) fn new(kernel: &Kernel, task: &str) -> Result<Self> {
        let folder = TempDir::new()?;
        let program = env::current_exe()?;
        let shell_command = format!(
            "exec '{}' {task} --kernel '{}'",
            program.display(),
            kernel.root().display(),
        );
        let initramfs = initramfs::pack(kernel, &shell_command, folder.path())?;
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
            .arg("-fsdev")
            .arg("local,id=root,path=/,security_model=none,readonly=on,multidevs=remap")
            .arg("-device")
            .arg(format!("virtio-9p-pci,fsdev=root,mount_tag={HOST}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        Ok(Self { qemu, folder })
    }

    /// Gives it these files as disks, in order.
    pub(crate) fn with_disks<'a>(mut self, disks: impl Iterator<Item = &'a PathBuf>) -> Self {
        for (number, disk) in disks.enumerate() {
            let drive = format!("if=none,format=raw,id=disk{number},file={}", disk.display());
            let device = format!("virtio-blk-pci,drive=disk{number}");
            self.qemu.args(["-drive", &drive, "-device", &device]);
        }
        self
    }

    pub(crate) fn start(mut self) -> Result<Running> {
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
    /// Waits until it has switched itself off. Each line of its console goes to `take`.
    ///
    /// # Errors
    /// As [`Self::line`], or QEMU fails.
    pub(crate) fn follow(mut self, take: &mut dyn FnMut(&str)) -> Result<()> {
        while let Some(line) = self.line()? {
            take(&line);
        }
        let status = self.qemu.wait()?;
        ensure!(status.success(), "QEMU: {status}");
        Ok(())
    }

    /// The next line of its console; none if it has ended.
    ///
    /// # Errors
    /// It is silent for long.
    pub(crate) fn line(&self) -> Result<Option<String>> {
        let mut silence = Duration::ZERO;
        loop {
            interrupt::check()?;
            match self.console.recv_timeout(PAUSE) {
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Timeout) if silence < SILENCE => silence += PAUSE,
                Err(RecvTimeoutError::Timeout) => {
                    bail!("nothing was heard of the guest for {} s", SILENCE.as_secs())
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    /// The lines of its console that have come already.
    pub(crate) fn heard(&self) -> impl Iterator<Item = String> {
        self.console.try_iter()
    }

    /// Stops it where it is. Its disks do not change any more when this returns.
    pub(crate) fn stop(&self) -> Result<()> {
        interrupt::check()?;
        let process = Pid::from_child(&self.qemu);
        kill_process(process, Signal::STOP)?;
        // All threads are out of the kernel then.
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(process), options)?;
        ensure!(
            status.is_some_and(|status| status.stopped()),
            "QEMU has ended"
        );
        Ok(())
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.qemu), Signal::CONT)?)
    }

    /// Ends it where it is.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.qemu.kill()?;
        self.qemu.wait()?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // There is nobody to tell, and it has mostly ended.
        let _ = self.kill();
    }
}

/// The lines that come out, read by a thread so that waiting for them can end.
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
