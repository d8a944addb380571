//! Files that a mount keeps in memory, compared with the plain file in the page cache, and with other mounts of it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use verimount_support::{command, venv};

use crate::{
    data,
    lab::{Format, Lab, User, ensure_same_file, seconds},
    mounts::{self, Mount, Sealed},
    report::{Bar, Compare, Report},
    rounds::{Contest, Samples},
};

/// Reads a mapped file, and prints the seconds.
const MAPPED: &str = include_str!("resident/mapped.py");

/// The file's name, also in mounts.
const FILE: &str = "large.bin";

/// The file in different places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Plain,
    Kernel,
    Mount,
    Resident,
}

impl Place {
    const ALL: [Self; 4] = [Self::Plain, Self::Kernel, Self::Mount, Self::Resident];

    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain file",
            Self::Kernel => "erofs of the kernel",
            Self::Mount => "verimount",
            Self::Resident => "verimount, resident",
        }
    }
}

/// The file, and an image with it.
struct Large {
    plain: PathBuf,
    bytes: u64,
    image: Sealed,
}

/// A place where the file is.
struct There {
    file: PathBuf,
    _mount: Option<Mount>,
}

impl Large {
    fn make(lab: &Lab) -> Result<Self> {
        let folder = lab.path("large");
        fs::create_dir(&folder)?;
        let plain = folder.join(FILE);
        let bytes = 2 * lab.sizes.file;
        data::write_file(&plain, bytes)?;
        Ok(Self {
            image: lab.image(Format::Erofs, &folder, lab.path("large.img"))?,
            plain,
            bytes,
        })
    }

    /// Makes it available in a new mount, if it is not plain.
    fn at(&self, lab: &Lab, place: Place) -> Result<There> {
        let mount = match place {
            Place::Plain => None,
            Place::Kernel => Some(mounts::kernel(lab, "erofs", &self.image.source)?),
            Place::Mount => Some(self.image.mount(lab, User::Caller, &[])?),
            Place::Resident => {
                let limit = self.bytes.next_multiple_of(4096).to_string();
                let options = ["--resident", "all", "--resident-limit", &limit];
                Some(self.image.mount(lab, User::Caller, &options)?)
            }
        };
        let file = mount.as_ref().map(|mount| mount.path().join(FILE));
        Ok(There {
            file: file.unwrap_or_else(|| self.plain.clone()),
            _mount: mount,
        })
    }
}

pub(crate) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    if !lab.is_root() {
        report.leave_out("files in memory", Lab::NEEDS_ROOT);
        return Ok(());
    }
    let large = Large::make(lab)?;
    cold(lab, report, &large)?;
    let cat = |file: &Path| seconds(Command::new("cat").arg(file));
    warm(lab, report, &large, "`cat`", 1.5, &cat)?;
    if !has_numpy() {
        report.leave_out("mapped files", "python3-numpy is not installed");
        return Ok(());
    }
    for (what, arguments) in [
        ("mapped, in order", ["in-order", "1"]),
        ("mapped, 2 million words anywhere", ["anywhere", "1"]),
        ("mapped, in order, by 8 processes", ["in-order", "8"]),
    ] {
        warm(lab, report, &large, what, 2.0, &|file| {
            mapped(file, arguments)
        })?;
    }
    Ok(())
}

/// Reading to the last byte for the first time.
fn cold(lab: &Lab, report: &mut Report, large: &Large) -> Result<()> {
    const DIGEST: &str = "plain file, verimount digest";
    let samples = Contest::default()
        .variant(DIGEST, || {
            lab.make_cold(large.bytes)?;
            seconds(lab.verimount(User::Caller).arg("digest").arg(&large.plain))
        })
        .variants(Place::ALL.map(|place| (place.name(), place)), |place| {
            let there = large.at(lab, place)?;
            lab.make_cold(large.bytes)?;
            let time = seconds(Command::new("cat").arg(&there.file))?;
            ensure_same_file(User::Caller, &large.plain, &there.file)?;
            Ok(time)
        })
        .run(lab.rounds)?;
    let title = format!("Cold `cat` of {}", data::bytes_label(large.bytes));
    report.times(&title, &samples, Compare::Speed { bytes: large.bytes })?;
    report.require(
        "cold `cat`, resident: time / `cat` of the plain file",
        Bar::AtMost(1.05),
        "x",
        samples.ratio(Place::Resident.name(), Place::Plain.name())?,
    );
    Ok(())
}

/// Reading again what was read before.
fn warm(
    lab: &Lab,
    report: &mut Report,
    large: &Large,
    what: &str,
    bound: f64,
    read: &dyn Fn(&Path) -> Result<f64>,
) -> Result<()> {
    let samples: Samples = Contest::default()
        .variants(Place::ALL.map(|place| (place.name(), place)), |place| {
            let there = large.at(lab, place)?;
            ensure_same_file(User::Caller, &large.plain, &there.file)?;
            read(&there.file)
        })
        .run(lab.rounds)?;
    let title = format!("Warm, {what}, {}", data::bytes_label(large.bytes));
    report.times(&title, &samples, Compare::Speed { bytes: large.bytes })?;
    report.require(
        &format!("warm, {what}, resident: speed / plain file"),
        Bar::AtLeast(bound),
        "x",
        samples.ratio(Place::Plain.name(), Place::Resident.name())?,
    );
    Ok(())
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
