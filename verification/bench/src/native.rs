//! Images that the kernel reads itself, over blocks that we verify, compared with served mounts, also such that keep files in
//! memory, and with the kernel's own mounts of the same image.

mod engine;
mod row;

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result};
use verimount_support::{command, venv};

use self::{
    engine::{Engine, Subject},
    row::{cold, warm},
};
use crate::{
    data::{self, Random},
    fio,
    lab::{Lab, has, seconds, seconds_piped},
    report::Report,
};

/// Reads a mapped file, and prints the seconds.
const MAPPED: &str = include_str!("native/mapped.py");

/// The large file, and the directory of many names, in their trees.
const FILE: &str = "large.bin";
const MANY: &str = "many";

/// The number of names that are looked up.
const LOOKUPS: u64 = 10_000;

/// The most time beside the kernel's mounts: as fast.
const AS_KERNEL: [(Engine, f64); 2] = [(Engine::KernelFile, 1.05), (Engine::KernelLoop, 1.05)];

/// The most time beside all.
const AS_ALL: [(Engine, f64); 3] = [AS_KERNEL[0], AS_KERNEL[1], AS_SERVED[0]];

/// The most time beside a served mount.
const AS_SERVED: [(Engine, f64); 1] = [(Engine::Served, 1.05)];

/// The most time beside the kernel's mounts for what is in memory: at least 0.97 of their speed.
const AT_SPEED: [(Engine, f64); 2] = [(Engine::KernelFile, 1.03), (Engine::KernelLoop, 1.03)];

pub(crate) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    if !lab.is_root() {
        report.leave_out("native mounts", Lab::NEEDS_ROOT);
        return Ok(());
    }
    tree(lab, report)?;
    names(lab, report)?;
    large_file(lab, report)
}

/// A tree of files, stored and compressed.
fn tree(lab: &Lab, report: &mut Report) -> Result<()> {
    let directory = lab.path("tree");
    let bytes = data::write_tree(&directory, &lab.sizes)?;
    let what = format!("{} files, {} MB", lab.sizes.files(), bytes / 1_000_000);
    let compressed = |most: [(Engine, f64); 2], bar| most.map(|(engine, _)| (engine, bar));
    for (name, options) in [
        ("stored", &[][..]),
        ("lz4", &["--compress", "lz4"][..]),
        ("zstd", &["--compress", "zstd"][..]),
    ] {
        let subject = Subject::new(lab, directory.clone(), &format!("{name}.img"), options)?;
        let is_stored = name == "stored";
        let of = format!("{what}, {name}");
        let (at_first, then) = if is_stored {
            (&AS_ALL[..], AS_KERNEL)
        } else {
            (&compressed(AS_KERNEL, 1.2)[..], compressed(AS_KERNEL, 1.03))
        };
        cold(
            lab,
            report,
            &subject,
            &format!("`tar` of {of}"),
            &tar,
            at_first,
        )?;
        warm(
            lab,
            report,
            &subject,
            &format!("`grep -r` over {of}"),
            &grep,
            &then,
        )?;
        if is_stored {
            cold(
                lab,
                report,
                &subject,
                &format!("`find -printf %s` over {of}"),
                &find,
                at_first,
            )?;
            warm(
                lab,
                report,
                &subject,
                &format!("`find -printf %s` over {of}"),
                &find,
                &then,
            )?;
        }
    }
    Ok(())
}

/// Directories of many names.
fn names(lab: &Lab, report: &mut Report) -> Result<()> {
    let list = |tree: &Path| seconds(Command::new("ls").arg("-f").arg(tree.join(MANY)));
    let [some, many] = lab.sizes.listed else {
        return Ok(());
    };
    for count in [*some, *many] {
        let directory = lab.path(&format!("{count}-names"));
        let names = directory.join(MANY);
        fs::create_dir_all(&names)?;
        for number in 0..count {
            File::create(names.join(file_name(number)))?;
        }
        let image = format!("{count}-names.img");
        let subject = Subject::new(lab, directory, &image, &[])?;
        let of = format!("{count} names");
        if count == *many {
            cold(
                lab,
                report,
                &subject,
                &format!("`ls -f` of {of}"),
                &list,
                &AS_ALL,
            )?;
            continue;
        }
        let look_up = |tree: &Path| look_up(&tree.join(MANY), count);
        warm(
            lab,
            report,
            &subject,
            &format!("`ls -f` of {of}"),
            &list,
            &AS_KERNEL,
        )?;
        let stat = format!("`stat` of {LOOKUPS} random ones of {of}");
        warm(lab, report, &subject, &stat, &look_up, &AS_KERNEL)?;
    }
    Ok(())
}

/// A large file: read in order, at random, and mapped.
fn large_file(lab: &Lab, report: &mut Report) -> Result<()> {
    let directory = lab.path("large");
    fs::create_dir(&directory)?;
    let bytes = lab.sizes.file;
    data::write_file(&directory.join(FILE), bytes)?;
    let subject = Subject::new(lab, directory, "large.img", &[])?.with_resident();
    let of = data::bytes_label(bytes);
    let cat = |tree: &Path| seconds(Command::new("cat").arg(tree.join(FILE)));
    cold(
        lab,
        report,
        &subject,
        &format!("`cat` of {of}"),
        &cat,
        &AS_SERVED,
    )?;
    warm(
        lab,
        report,
        &subject,
        &format!("`cat` of {of}"),
        &cat,
        &AT_SPEED,
    )?;
    if has("fio") {
        let reads = lab.sizes.random_reads;
        let random = |tree: &Path| fio::random_reads(&tree.join(FILE), reads);
        let what = format!("{reads} random reads of 4 KiB in {of}");
        cold(lab, report, &subject, &what, &random, &AS_SERVED)?;
    } else {
        report.leave_out("random reads", "fio is not installed");
    }
    if !has_numpy() {
        report.leave_out("mapped files", "python3-numpy is not installed");
        return Ok(());
    }
    for (what, arguments) in [
        ("in order", ["in-order", "1"]),
        ("2 million words anywhere", ["anywhere", "1"]),
        ("in order, by 8 processes", ["in-order", "8"]),
    ] {
        let read = |tree: &Path| mapped(&tree.join(FILE), arguments);
        warm(
            lab,
            report,
            &subject,
            &format!("{of}, mapped, {what}"),
            &read,
            &AT_SPEED,
        )?;
    }
    Ok(())
}

fn tar(tree: &Path) -> Result<f64> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--file=-", "--directory"])
        .arg(tree)
        .arg(".");
    seconds_piped(&mut tar, &mut Command::new("cat"))
}

fn find(tree: &Path) -> Result<f64> {
    seconds(Command::new("find").arg(tree).args(["-printf", "%s"]))
}

fn grep(tree: &Path) -> Result<f64> {
    seconds(
        Command::new("grep")
            .args(["-r", "--count", "salt salt salt salt salt"])
            .arg(tree),
    )
}

fn look_up(directory: &Path, names: u64) -> Result<f64> {
    let mut random = Random::new(names);
    let start = Instant::now();
    for _ in 0..LOOKUPS {
        fs::symlink_metadata(directory.join(file_name(random.next() % names)))?;
    }
    Ok(start.elapsed().as_secs_f64())
}

fn file_name(number: u64) -> String {
    format!("file {number:07}")
}

fn has_numpy() -> bool {
    let mut python = Command::new(venv::SYSTEM);
    let output = python.args(["-c", "import numpy"]).output();
    output.is_ok_and(|output| output.status.success())
}

/// Reads a mapping of a file; returns the seconds.
fn mapped(file: &Path, arguments: [&str; 2]) -> Result<f64> {
    let mut python = Command::new(venv::SYSTEM);
    python.args(["-c", MAPPED]).arg(file).args(arguments);
    let printed = command::stdout(&mut python)?;
    printed.parse().context(printed)
}
