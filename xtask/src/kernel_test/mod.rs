//! `cargo xtask kernel-test`: what Verimount writes is read by the kernel, and the other way round.
//!
//! Debian's kernel runs in QEMU, and then the newer one of its backports, with this machine's root directory below its own, read-only. In it
//! runs this same program, which does the tests and writes a line for each.

mod archive;
mod debian_kernel;
pub(crate) mod guest;
mod initramfs;
mod machine;
mod report;

use std::path::Path;

use anyhow::Result;

use self::{archive::Archive, debian_kernel::Kernel, machine::Machine, report::Report};
use crate::{
    setup::{self, Purpose},
    workspace,
};

pub(crate) fn run() -> Result<()> {
    setup::ensure_ready(Purpose::KernelTest)?;
    let target = workspace::target()?;
    let verimount = workspace::build_verimount()?;
    let folder = target.join("kernel-test");
    let kernel = Kernel::unpacked(&Archive::of_release(), &folder)?;
    run_in(&kernel, &verimount)?;
    let newer = Archive::of_backports(&folder.join("backports"))
        .and_then(|archive| Kernel::unpacked(&archive, &folder));
    match newer {
        Ok(newer) => run_in(&newer, &verimount),
        Err(error) => {
            println!("LEFT OUT: the kernel of Debian's backports: {error:#}");
            Ok(())
        }
    }
}

fn run_in(kernel: &Kernel, verimount: &Path) -> Result<()> {
    println!("Starting Linux {} in QEMU", kernel.version());
    let mut report = Report::default();
    let ended = Machine::new(kernel, verimount)?.run(&mut |line| report.take(line));
    let concluded = report.conclude();
    ended.and(concluded)
}
