use std::{
    fs::{self, File},
    process::Command,
};

use anyhow::Result;
use tempfile::TempDir;

use super::{Cost, Sized};
use crate::{
    lab::{Lab, seconds},
    mounts,
    report::{Report, mebibytes},
};

/// The number of files per folder.
const FILES_PER_FOLDER: u64 = 1000;

/// Mirrored directories of empty files, whose attributes are all read.
pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    let sizes = lab.sizes.mirrored.iter();
    let directories = sizes.map(|files| {
        Ok(Sized {
            size: *files,
            label: format!("{files} files"),
            thing: directory(lab, *files)?,
        })
    });
    let directories: Vec<_> = directories.collect::<Result<_>>()?;
    let cost = Cost {
        title: "Peak memory of a bridge, all files looked at",
        size_of: "directory",
        unit: "MiB",
    };
    cost.measure(lab, report, &directories, |directory| {
        memory(lab, directory)
    })?;
    Ok(())
}

fn directory(lab: &Lab, files: u64) -> Result<TempDir> {
    let directory = lab.new_folder()?;
    for number in 0..files {
        let folder = directory
            .path()
            .join((number / FILES_PER_FOLDER).to_string());
        if number % FILES_PER_FOLDER == 0 {
            fs::create_dir(&folder)?;
        }
        File::create(folder.join(number.to_string()))?;
    }
    Ok(directory)
}

fn memory(lab: &Lab, directory: &TempDir) -> Result<f64> {
    let mount = mounts::bridge(lab, directory.path(), &[])?;
    let mut find = Command::new("find");
    seconds(find.arg(mount.path()).args(["-printf", "%s"]))?;
    Ok(mebibytes(mount.peak_memory()?))
}
