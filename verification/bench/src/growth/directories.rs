use std::{
    fs::{self, File},
    path::Path,
    process::Command,
};

use anyhow::{Result, ensure};
use tempfile::TempDir;

use super::{Cost, Sized};
use crate::{
    lab::{Lab, User, seconds},
    mounts::Sealed,
    report::{Bar, Compare, Report, mebibytes},
    rounds::Contest,
};

const OURS: &str = "image";
const NATIVE: &str = "native";

/// How many times as long as the directory itself its image may take to be listed.
const MOST: f64 = 3.0;

/// A directory of empty files, and its image.
struct Subject {
    directory: TempDir,
    image: Sealed,
}

/// What is in the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The directory and the image; the mount is new.
    Warm,
    Cold,
}

/// One directory of many names.
pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    let sizes = lab.sizes.listed.iter();
    let subjects: Vec<_> = sizes
        .map(|names| subject(lab, *names))
        .collect::<Result<_>>()?;
    for Sized { label, thing, .. } in &subjects {
        for state in [State::Warm, State::Cold] {
            if state == State::Warm || lab.is_root() {
                compare(lab, report, label, thing, state)?;
            }
        }
    }
    if !lab.is_root() {
        report.leave_out("Cold `ls -f` of one directory", Lab::NEEDS_ROOT);
    }
    let cost = Cost {
        title: "Peak memory of an image's mount, its one directory listed",
        size_of: "directory",
        unit: "MiB",
    };
    cost.measure(lab, report, &subjects, |subject| memory(lab, subject))?;
    for subject in subjects {
        fs::remove_file(subject.thing.image.source)?;
    }
    Ok(())
}

fn subject(lab: &Lab, names: u64) -> Result<Sized<Subject>> {
    let directory = lab.new_folder()?;
    for number in 0..names {
        File::create(directory.path().join(format!("file {number:07}")))?;
    }
    let source = lab.path(&format!("{names}.img"));
    Ok(Sized {
        size: names,
        label: format!("{names} names"),
        thing: Subject {
            image: Sealed {
                digest: lab.build(directory.path(), &source)?,
                source,
            },
            directory,
        },
    })
}

/// Compares listing the image, in a new mount each time, with listing the directory.
fn compare(
    lab: &Lab,
    report: &mut Report,
    label: &str,
    subject: &Subject,
    state: State,
) -> Result<()> {
    let native = || list(lab, subject.directory.path(), state);
    let ours = || {
        let mount = subject.image.mount(lab, User::Caller, &[])?;
        list(lab, mount.path(), state)
    };
    if state == State::Warm {
        native()?;
        ours()?;
    }
    let samples = Contest::default()
        .variant(NATIVE, native)
        .variant(OURS, ours)
        .run_in(lab)?;
    let title = format!("{state:?} `ls -f` of {label}");
    report.times(&title, &samples, Compare::Time)?;
    let text = format!("{title}: time / {NATIVE}");
    report.require(&text, Bar::AtMost(MOST), "x", samples.ratio(OURS, NATIVE)?);
    Ok(())
}

fn list(lab: &Lab, directory: &Path, state: State) -> Result<f64> {
    if state == State::Cold {
        lab.make_cold(0)?;
    }
    seconds(Command::new("ls").arg("-f").arg(directory))
}

fn memory(lab: &Lab, subject: &Subject) -> Result<f64> {
    let mount = subject.image.mount(lab, User::Caller, &[])?;
    list(lab, mount.path(), State::Warm)?;
    ensure!(
        fs::read_dir(mount.path())?.count() == fs::read_dir(subject.directory.path())?.count(),
        "the image lists other files"
    );
    Ok(mebibytes(mount.peak_memory()?))
}
