//! How many blocks of a file cannot be read when one block below its file system is damaged.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use rustix::{fs::OFlags, io::Errno};
use verimount_integrity::Mode;
use verimount_source::AlignedBuf;
use verimount_support::{command, loop_device::LoopDevice, mount_point::MountPoint};
use verimount_testkit::noise;

use super::{Bench, attached::Attached, kind::Kind};
use crate::guest::{scratch::Scratch, tests::Tests};

const BLOCK: usize = 4096;

/// The size of the device, in bytes.
const DEVICE: u64 = 96 << 20;

/// The size of the file, in bytes.
const FILE: usize = 16 << 20;

/// The file's block that is damaged.
const DAMAGED: usize = 2001;

/// How many blocks cannot be read.
#[derive(Debug, PartialEq)]
struct Unreadable {
    /// One after the other, through the page cache.
    cached: usize,
    /// Past the page cache.
    direct: usize,
}

pub(super) fn run(tests: &Tests, scratch: &Scratch, verimount: &Path) -> Result<()> {
    for file_system in ["ext4", "xfs"] {
        let kind = Kind {
            mode: Mode::Bitmap,
            ..Kind::default()
        };
        let bench = Bench::new(scratch, kind, DEVICE)?;
        let point = scratch.path().join("file system");
        damage(&bench, file_system, &point)?;
        let the_kernels = {
            let attached = Attached::new(&bench)?;
            let opened = attached.open(&[])?;
            unreadable(&opened.path(), &point)?
        };
        let ours = {
            let disk = MountPoint::new(scratch.path().join("volume"))?;
            let mut mount = Command::new(verimount);
            mount.args(["volume", "mount"]).arg(&bench.device);
            command::run(mount.arg(disk.path()).args(["--mode", "bitmap"]))?;
            let device = LoopDevice::attach(&disk.path().join("disk"), &[])?;
            unreadable(device.path(), &point)?
        };
        let test = format!("a damaged block below {file_system}");
        tests.test(&test, || {
            ensure!(ours.direct == 1, "{} by direct reads", ours.direct);
            ensure!(ours == the_kernels, "{ours:?}, the kernel {the_kernels:?}");
            Ok(())
        });
    }
    Ok(())
}

/// Writes a file by the kernel, and then changes a byte of it on the device.
fn damage(bench: &Bench, file_system: &str, point: &Path) -> Result<()> {
    let content = noise(FILE, 1);
    let attached = Attached::new(bench)?;
    attached.format(&[])?;
    let opened = attached.open(&[])?;
    let mut make = Command::new(format!("mkfs.{file_system}"));
    // So that mkfs.xfs makes small ones.
    make.envs([("TEST_DIR", "1"), ("TEST_DEV", "1"), ("QA_CHECK_FS", "1")]);
    command::stdout(make.arg("-q").arg(opened.path()))?;
    let mounted = mount(&opened.path(), point, "rw")?;
    fs::write(point.join("file"), &content)?;
    mounted.unmount()?;
    drop(opened);
    drop(attached);
    let device = fs::read(&bench.device)?;
    let block = &content[DAMAGED * BLOCK..][..BLOCK];
    let place = device.chunks(BLOCK).position(|found| found == block);
    let place = place.context("the block is not on the device")? * BLOCK;
    let device = File::options().write(true).open(&bench.device)?;
    Ok(device.write_all_at(&[!block[0]], place as u64)?)
}

fn mount(device: &Path, point: &Path, options: &str) -> Result<MountPoint> {
    let point = MountPoint::new(point.to_owned())?;
    let mut mount = Command::new("mount");
    command::run(mount.args(["-o", options]).arg(device).arg(point.path()))?;
    Ok(point)
}

fn unreadable(device: &Path, point: &Path) -> Result<Unreadable> {
    let _mounted = mount(device, point, "ro")?;
    let count = |flags: OFlags| {
        let file = File::options()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(point.join("file"))?;
        count(&file)
    };
    let cached = count(OFlags::empty())?;
    Ok(Unreadable {
        cached,
        direct: count(OFlags::DIRECT)?,
    })
}

fn count(file: &File) -> Result<usize> {
    let mut aligned = AlignedBuf::default();
    let buf = aligned.grown(BLOCK);
    let mut count = 0;
    for offset in (0..FILE as u64).step_by(BLOCK) {
        match file.read_exact_at(buf, offset) {
            Ok(()) => {}
            Err(error) => {
                let refused = [Errno::IO, Errno::ILSEQ].map(Errno::raw_os_error);
                let errno = error.raw_os_error().unwrap_or_default();
                ensure!(refused.contains(&errno), "at {offset}: {error}");
                count += 1;
            }
        }
    }
    Ok(count)
}
