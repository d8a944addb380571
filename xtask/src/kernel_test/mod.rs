//! `cargo xtask kernel-test`: what Verimount writes is read by the kernel, and the other way round.
//!
//! Debian's kernel and the newer one of its backports run in a QEMU each, at the same time, with this
//! machine's root directory below their own, read-only. In them runs this same program, which does
//! the tests and writes a line for each. Another guest of each kernel is killed while it writes.

mod archive;
mod debian_kernel;
pub(crate) mod guest;
mod initramfs;
mod integritysetup;
pub(crate) mod killed;
mod machine;
mod report;

use std::{panic::resume_unwind, path::Path, thread};

use anyhow::{Result, ensure};
use verimount_support::{
    setup::{self, Purpose},
    workspace,
};

use self::{archive::Archive, debian_kernel::Kernel, machine::Machine, report::Report};

pub(crate) fn run() -> Result<()> {
    setup::ensure_ready(Purpose::KernelTest)?;
    let target = workspace::target()?;
    let verimount = workspace::build_tested_verimount()?;
    let folder = target.join("kernel-test");
    let mut kernels = vec![Kernel::unpacked(&Archive::of_release(), &folder)?];
    let newer = Archive::of_backports(&folder.join("backports"))
        .and_then(|archive| Kernel::unpacked(&archive, &folder));
    match newer {
        Ok(newer) => kernels.push(newer),
        Err(error) => println!("LEFT OUT: the kernel of Debian's backports: {error:#}"),
    }
    run_in_all(&kernels, &verimount)
}

/// Tests these kernels at the same time, each to its end whatever becomes of the others.
fn run_in_all(kernels: &[Kernel], verimount: &Path) -> Result<()> {
    let failures = thread::scope(|scope| {
        let start = |kernel| (kernel, scope.spawn(move || run_in(kernel, verimount)));
        let guests: Vec<_> = kernels.iter().map(start).collect();
        let ended = guests.into_iter().map(|(kernel, guest)| {
            let result = guest.join().unwrap_or_else(|panic| resume_unwind(panic));
            let error = result.err()?;
            Some(format!("Linux {}: {error:#}", kernel.version()))
        });
        ended.flatten().collect::<Vec<_>>()
    });
    ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok(())
}

fn run_in(kernel: &Kernel, verimount: &Path) -> Result<()> {
    let mut report = Report::new(&format!("Linux {}", kernel.version()));
    let ended = test_in_guest(kernel, verimount, &mut report)
        .and_then(|()| killed::run(kernel, &mut report));
    report.conclude(ended)
}

fn test_in_guest(kernel: &Kernel, verimount: &Path, report: &mut Report) -> Result<()> {
    let task = format!("guest --verimount '{}'", verimount.display());
    let guest = Machine::new(kernel, &task)?.start()?;
    guest.follow(&mut |line| report.take(line))?;
    ensure!(report.is_whole(), "the guest ended before its tests did");
    Ok(())
}
