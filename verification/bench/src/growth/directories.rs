//! Very large directories in images.

mod listing;
mod lookups;

use std::{
    fs::{self, File},
    path::Path,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::{Cost, Sized};
use crate::{
    lab::{Lab, User},
    mounts::Sealed,
    report::{Bar, Report, mebibytes},
};

const OURS: &str = "image";
const NATIVE: &str = "native";

/// A directory of empty files, and its image.
struct Subject {
    names: u64,
    directory: TempDir,
    image: Sealed,
}

impl Subject {
    fn new(lab: &Lab, names: u64) -> Result<Self> {
        let directory = lab.new_folder()?;
        for number in 0..names {
            File::create(directory.path().join(file_name(number)))?;
        }
        let source = lab.path(&format!("{names}.img"));
        Ok(Self {
            names,
            image: Sealed {
                digest: lab.build(directory.path(), &source, &[])?,
                source,
            },
            directory,
        })
    }

    fn label(&self) -> String {
        format!("{} names", self.names)
    }

    /// Runs `measure` on the image in a new mount.
    fn in_image(&self, lab: &Lab, measure: impl Fn(&Path) -> Result<f64>) -> Result<f64> {
        let mount = self.image.mount(lab, User::Caller, &[])?;
        measure(mount.path())
    }
}

fn file_name(number: u64) -> String {
    format!("file {number:07}")
}

pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    let sizes = lab.sizes.listed.iter();
    let subjects: Vec<_> = sizes
        .map(|names| Subject::new(lab, *names))
        .collect::<Result<_>>()?;
    listing::run(lab, report, &subjects)?;
    let largest = subjects.last().context("a directory")?;
    lookups::run(lab, report, largest)?;
    peak_memory(lab, report, subjects)
}

/// The memory for listing a directory, which must not depend on the number of processors.
fn peak_memory(lab: &Lab, report: &mut Report, subjects: Vec<Subject>) -> Result<()> {
    /// The most memory per name.
    const BYTES_PER_NAME: u64 = 100;
    /// The most memory for everything else.
    const REST: u64 = 64 << 20;

    let subjects = subjects.into_iter().map(|subject| Sized {
        size: subject.names,
        label: subject.label(),
        thing: subject,
    });
    let subjects: Vec<_> = subjects.collect();
    let cost = Cost {
        title: "Peak memory of an image's mount, its one directory listed",
        size_of: "directory",
        unit: "MiB",
    };
    let samples = cost.measure(lab, report, &subjects, |subject| memory(lab, subject))?;
    for Sized { size, label, thing } in subjects {
        let bound = mebibytes(REST + size * BYTES_PER_NAME).floor();
        let text = format!("{label} listed: peak memory");
        report.require(&text, Bar::AtMost(bound), " MiB", samples.spread(&label)?);
        fs::remove_file(thing.image.source)?;
    }
    Ok(())
}

fn memory(lab: &Lab, subject: &Subject) -> Result<f64> {
    let mount = subject.image.mount(lab, User::Caller, &[])?;
    listing::seconds_to_list(mount.path())?;
    ensure!(
        fs::read_dir(mount.path())?.count() == fs::read_dir(subject.directory.path())?.count(),
        "the image lists other files"
    );
    Ok(mebibytes(mount.peak_memory()?))
}
