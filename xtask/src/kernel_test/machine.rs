use std::{
    env,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::{
    debian_kernel::Kernel,
    initramfs::{self, HOST},
};
use crate::interrupt;

/// How long the guest may be silent. Its processor is emulated, so that its tests take some ten
/// times as long as here.
const SILENCE: Duration = Duration::from_secs(180);

/// How often it is looked whether to go on waiting.
const PAUSE: Duration = Duration::from_millis(200);

/// The guest's memory in MiB. Whatever its tests write is held in it.
const MEMORY: &str = "2048";

/// A kernel that hangs or panics ends the machine, or is silent.
const KERNEL_OPTIONS: &str = "console=ttyS0 loglevel=3 panic=-1 oops=panic random.trust_cpu=on";

/// What is run in the guest.
pub(super) struct Machine {
    qemu: Command,
    _folder: TempDir,
}

impl Machine {
    /// Gets ready a machine that boots `kernel` and runs this program's tests in it.
    pub(super) fn new(kernel: &Kernel, verimount: &Path) -> Result<Self> {
        let folder = TempDir::new()?;
        let program = env::current_exe()?;
        let shell_command = format!(
            "exec '{}' guest --kernel '{}' --verimount '{}'",
            program.display(),
            kernel.root().display(),
            verimount.display()
        );
        let initramfs = initramfs::pack(kernel, &shell_command, folder.path())?;
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-machine", "q35", "-cpu", "max", "-smp", "2"])
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
        Ok(Self {
            qemu,
            _folder: folder,
        })
    }

    /// Runs it until it switches itself off. Each line of its console goes to `take`.
    pub(super) fn run(mut self, take: &mut dyn FnMut(&str)) -> Result<()> {
        let mut child = self.qemu.spawn().context("cannot run QEMU")?;
        let output = child.stdout.take().context("no console")?;
        let followed = follow(&lines_of(output), take);
        if followed.is_err() {
            child.kill()?;
        }
        let ended = end(&mut child);
        followed.and(ended)
    }
}

fn end(child: &mut Child) -> Result<()> {
    let status = child.wait()?;
    match status.success() {
        true => Ok(()),
        false => bail!("QEMU: {status}"),
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

fn follow(lines: &Receiver<String>, take: &mut dyn FnMut(&str)) -> Result<()> {
    let mut silence = Duration::ZERO;
    loop {
        interrupt::check()?;
        match lines.recv_timeout(PAUSE) {
            Ok(line) => {
                take(&line);
                silence = Duration::ZERO;
            }
            Err(RecvTimeoutError::Timeout) if silence < SILENCE => silence += PAUSE,
            Err(RecvTimeoutError::Timeout) => {
                bail!("nothing was heard of the guest for {} s", SILENCE.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}
