use std::{fs, process::Command};

use anyhow::Result;

use super::{Cost, Sized, time_to_mount};
use crate::{
    data::{self, bytes_label},
    lab::{Format, Lab, User, seconds},
    mounts::Sealed,
    report::{Report, mebibytes},
};

const FILE: &str = "file";

/// Images of one file each.
pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    let sizes = lab.sizes.images.iter();
    let images = sizes.map(|bytes| image(lab, *bytes));
    let images: Vec<_> = images.collect::<Result<_>>()?;
    let cost = |title, unit| Cost {
        title,
        size_of: "image",
        unit,
    };
    let title = "Time to mount an image";
    cost(title, "ms").measure(lab, report, &images, |image| {
        time_to_mount(lab, || image.mount(lab, User::Caller, &[]))
    })?;
    let title = "Peak memory of an image's mount, all of it read";
    cost(title, "MiB").measure(lab, report, &images, |image| memory(lab, image))?;
    for image in images {
        fs::remove_file(image.thing.source)?;
    }
    Ok(())
}

fn image(lab: &Lab, bytes: u64) -> Result<Sized<Sealed>> {
    let folder = lab.new_folder()?;
    data::write_file(&folder.path().join(FILE), bytes)?;
    let label = bytes_label(bytes);
    let source = lab.path(&format!("{label}.img"));
    Ok(Sized {
        size: bytes,
        thing: lab.image(Format::Romfs, folder.path(), source)?,
        label,
    })
}

fn memory(lab: &Lab, image: &Sealed) -> Result<f64> {
    let mount = image.mount(lab, User::Caller, &[])?;
    seconds(Command::new("cat").arg(mount.path().join(FILE)))?;
    Ok(mebibytes(mount.peak_memory()?))
}
