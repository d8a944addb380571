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
    lab::{Format, Lab, User, has, peak_memory},
    mounts::{self, Sealed},
    report::{Bar, Report, mebibytes},
    rounds::Contest,
};

const NATIVE: &str = "native";

/// The kernel's mount of our own EROFS image.
const KERNEL: &str = "kernel erofs";

/// The most memory for everything but names and files, in bytes.
const REST: u64 = 64 << 20;

/// A directory of empty files, and its images.
struct Subject {
    names: u64,
    directory: TempDir,
    images: Vec<(Format, Sealed)>,
    /// Whether the kernel mounts the EROFS image.
    in_kernel: bool,
}

impl Subject {
    fn new(lab: &Lab, names: u64) -> Result<Self> {
        let directory = lab.new_folder()?;
        for number in 0..names {
            File::create(directory.path().join(file_name(number)))?;
        }
        let mut images = Vec::new();
        for format in lab.formats()? {
            let path = lab.path(&format!("{names}.{}", format.name()));
            images.push((format, lab.image(format, directory.path(), path)?));
        }
        let in_kernel = images.iter().any(|(format, image)| {
            *format == Format::Erofs && mounts::kernel(lab, "erofs", &image.source).is_ok()
        });
        Ok(Self {
            names,
            directory,
            images,
            in_kernel,
        })
    }

    fn label(&self) -> String {
        format!("{} names", self.names)
    }

    /// The directory, and its images in new mounts.
    fn compare<'a>(
        &'a self,
        lab: &'a Lab,
        measure: impl Fn(&Path) -> Result<f64> + Copy + 'a,
    ) -> Contest<'a> {
        let mut contest =
            Contest::default().variant(NATIVE, move || measure(self.directory.path()));
        for (format, image) in &self.images {
            contest = contest.variant(format.ours(), move || {
                measure(image.mount(lab, User::Caller, &[])?.path())
            });
            if self.in_kernel && *format == Format::Erofs {
                contest = contest.variant(KERNEL, move || {
                    measure(mounts::kernel(lab, "erofs", &image.source)?.path())
                });
            }
        }
        contest
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
    if subjects.iter().any(|subject| !subject.in_kernel) {
        report.leave_out(KERNEL, "this kernel does not mount it");
    }
    listing::run(lab, report, &subjects)?;
    let largest = subjects.last().context("a directory")?;
    lookups::run(lab, report, largest)?;
    memory_to_build(lab, report, &subjects)?;
    memory_to_list(lab, report, subjects)
}

/// The memory for building an image of a directory.
fn memory_to_build(lab: &Lab, report: &mut Report, subjects: &[Subject]) -> Result<()> {
    /// The most memory per file.
    const BYTES_PER_FILE: u64 = 300;

    let title = "Peak memory of building an EROFS image";
    let obstacle = match (lab.formats()?.contains(&Format::Erofs), has("time")) {
        (true, true) => None,
        (true, false) => Some("time is not installed"),
        (false, _) => Some(Lab::OLDER_LACKS_EROFS),
    };
    if let Some(obstacle) = obstacle {
        report.leave_out(title, obstacle);
        return Ok(());
    }
    let subjects: Vec<_> = subjects.iter().map(by_size).collect();
    let cost = Cost {
        title,
        size_of: "directory",
        unit: "MiB",
    };
    let samples = cost.measure(lab, report, &subjects, |subject| {
        let image = lab.path("again.erofs");
        let build = lab.build(Format::Erofs, subject.directory.path(), &image);
        let peak = peak_memory(&build)?;
        fs::remove_file(image)?;
        Ok(mebibytes(peak))
    })?;
    for Sized { size, label, .. } in subjects {
        let bound = mebibytes(REST + size * BYTES_PER_FILE).floor();
        let text = format!("{label} built into an EROFS image: peak memory");
        report.require(&text, Bar::AtMost(bound), " MiB", samples.spread(&label)?);
    }
    Ok(())
}

fn by_size(subject: &Subject) -> Sized<&Subject> {
    Sized {
        size: subject.names,
        label: subject.label(),
        thing: subject,
    }
}

/// The memory for listing a directory, which must not depend on the number of processors.
fn memory_to_list(lab: &Lab, report: &mut Report, subjects: Vec<Subject>) -> Result<()> {
    /// The most memory per name.
    const BYTES_PER_NAME: u64 = 100;

    for format in lab.formats()? {
        let images: Vec<_> = subjects.iter().map(by_size).collect();
        let title = format!(
            "Peak memory of the mount of an image of {}, its one directory listed",
            format.name()
        );
        let cost = Cost {
            title: &title,
            size_of: "directory",
            unit: "MiB",
        };
        let samples = cost.measure(lab, report, &images, |subject| listed(lab, subject, format))?;
        for Sized { size, label, .. } in images {
            let bound = mebibytes(REST + size * BYTES_PER_NAME).floor();
            let text = format!("{label} of {} listed: peak memory", format.name());
            report.require(&text, Bar::AtMost(bound), " MiB", samples.spread(&label)?);
        }
    }
    for (_, image) in subjects.iter().flat_map(|subject| &subject.images) {
        fs::remove_file(&image.source)?;
    }
    Ok(())
}

/// The peak memory of a mount whose directory is listed, in MiB.
fn listed(lab: &Lab, subject: &Subject, format: Format) -> Result<f64> {
    let image = subject.images.iter().find(|(other, _)| *other == format);
    let (_, image) = image.context("an image of this format")?;
    let mount = image.mount(lab, User::Caller, &[])?;
    listing::seconds_to_list(mount.path())?;
    ensure!(
        fs::read_dir(mount.path())?.count() == fs::read_dir(subject.directory.path())?.count(),
        "the image lists other files"
    );
    Ok(mebibytes(mount.peak_memory()?))
}
