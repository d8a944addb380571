use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;
use verimount_support::command;

use super::{Cost, Sized, time_to_mount};
use crate::{
    data::bytes_label,
    lab::{Lab, User},
    mounts,
    report::{Report, mebibytes},
};

/// New volumes, sparse except for tags and a journal.
pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    let sizes = lab.sizes.volumes.iter();
    let volumes = sizes.map(|bytes| volume(lab, *bytes));
    let volumes: Vec<_> = volumes.collect::<Result<_>>()?;
    let cost = |title, unit| Cost {
        title,
        size_of: "volume",
        unit,
    };
    let title = "Time to mount a volume";
    cost(title, "ms").measure(lab, report, &volumes, |volume| {
        time_to_mount(lab, || mounts::volume(lab, volume, &[]))
    })?;
    let title = "Peak memory of a volume's mount";
    cost(title, "MiB").measure(lab, report, &volumes, |volume| memory(lab, volume))?;
    for volume in volumes {
        fs::remove_file(volume.thing)?;
    }
    Ok(())
}

fn volume(lab: &Lab, bytes: u64) -> Result<Sized<PathBuf>> {
    let label = bytes_label(bytes);
    let storage = lab.path(&format!("{label}.volume"));
    let mut format = lab.verimount(User::Caller);
    format.args(["volume", "format", "--size", &bytes.to_string()]);
    command::stdout(format.arg(&storage))?;
    Ok(Sized {
        size: bytes,
        label,
        thing: storage,
    })
}

fn memory(lab: &Lab, storage: &Path) -> Result<f64> {
    let mount = mounts::volume(lab, storage, &[])?;
    Ok(mebibytes(mount.peak_memory()?))
}
