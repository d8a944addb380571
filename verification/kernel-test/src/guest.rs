//! Runs in the guest: the tests, with the kernel's own tools and this machine's programs.

mod bridge;
mod dm_verity;
mod erofs;
mod extents;
mod handles;
mod integrity;
mod linux;
mod native;
mod nfs;
mod romfs;
mod scratch;
mod tests;
mod verity;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use clap::Args;
use verimount_support::command;

use self::{scratch::Scratch, tests::Tests};
use crate::report::Line;

/// The kernel modules that the tests need.
const MODULES: [&str; 16] = [
    "blake2b_generic",
    "crc32_generic",
    "crc32c_generic",
    "dm-integrity",
    "dm-verity",
    "erofs",
    "ext4",
    "fuse",
    "loop",
    "nfsd",
    "nfsv4",
    "romfs",
    "sha1_generic",
    "sha512_generic",
    "xfs",
    "xxhash_generic",
];

/// Used by `kernel-test` in its guest
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The directory that has the kernel's lib/modules
    #[arg(long)]
    kernel: PathBuf,

    /// The program to test
    #[arg(long)]
    verimount: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    load(&MODULES, &options.kernel)?;
    let scratch = Scratch::new(PathBuf::from("/run/scratch"))?;
    romfs::run(&Tests::new("romfs"), &scratch, &options.verimount)?;
    erofs::run(&Tests::new("EROFS"), &scratch, &options.verimount)?;
    native::run(&Tests::new("native EROFS"), &scratch, &options.verimount)?;
    verity::run(&Tests::new("fs-verity"), &scratch)?;
    bridge::run(&Tests::new("bridge"), &scratch, &options.verimount)?;
    handles::run(&Tests::new("handles"), &scratch, &options.verimount)?;
    dm_verity::run(&Tests::new("dm-verity"), &scratch, &options.verimount)?;
    integrity::run(&Tests::new("dm-integrity"), &scratch, &options.verimount)?;
    fs::remove_dir_all(scratch.path())?;
    Line::End.print();
    Ok(())
}

/// Loads modules of the kernel whose lib/modules is in this directory.
pub(crate) fn load(modules: &[&str], kernel: &Path) -> Result<()> {
    let mut modprobe = Command::new("modprobe");
    modprobe.arg("--dirname").arg(kernel).arg("--all");
    command::run(modprobe.args(modules))
}
