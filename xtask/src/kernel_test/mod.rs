//! `cargo xtask kernel-test`: what Verimount writes is read by the kernel, and the other way round.
//!
//! Debian's kernel runs in QEMU, with this machine's root directory below its own, read-only. In it
//! runs this same program, which does the tests and writes a line for each.

mod debian_kernel;
pub(crate) mod guest;
mod initramfs;
mod machine;
mod report;

use anyhow::Result;

use self::{debian_kernel::Kernel, machine::Machine, report::Report};
use crate::{
    setup::{self, Purpose},
    workspace,
};

pub(crate) fn run() -> Result<()> {
    setup::ensure_ready(Purpose::KernelTest)?;
    let target = workspace::target()?;
    let verimount = workspace::build_verimount()?;
    let kernel = Kernel::unpacked(&target.join("kernel-test"))?;
    println!("Starting Linux {} in QEMU", kernel.version());
    let mut report = Report::default();
    let ended = Machine::new(&kernel, &verimount)?.run(&mut |line| report.take(line));
    let concluded = report.conclude();
    ended.and(concluded)
}
