//! The memory of the serving process, by the number of files that are read at once.

use std::{fs, thread};

use anyhow::{Context, Result};

use super::{Image, Reading, Way};
use crate::{
    data,
    lab::{Lab, User},
    report::{Bar, Report, mebibytes, with_range},
    rounds::Contest,
    table::Table,
};

/// Files in the image, all of the same size.
const FILES: u64 = 64;

/// What the daemon keeps of a file on a server at most, according to its documentation, in MiB.
const KEPT: f64 = 48.0;

/// The bound without that, in MiB.
const BOUND: f64 = 96.0;

pub(super) fn run(lab: &Lab, report: &mut Report, way: &Way<'_>) -> Result<()> {
    let folder = lab.path("many");
    fs::create_dir(&folder)?;
    for number in 0..FILES {
        data::write_file(&folder.join(number.to_string()), lab.sizes.file / FILES)?;
    }
    let image = Image::make(lab, &folder, "many")?;
    let counts = [1, 16, FILES];
    let named = counts.map(|count| (count, format!("{count} at once")));
    let variants = named.iter().map(|(count, name)| (name.as_str(), *count));
    let samples = Contest::default()
        .variants(variants, |count| peak(lab, way, &image, count))
        .run_in(lab)?;
    let mut table = Table::new(["files read", "MiB"]);
    for (_, name) in &named {
        let memory = samples.spread(name)?;
        table.row([name.clone(), with_range(memory)]);
        let text = format!("peak memory, files read: {name}; 48 MiB are kept content");
        report.require(&text, Bar::AtMost(BOUND + KEPT), " MiB", memory);
    }
    report.table(
        "Peak memory of a remote image's mount",
        table,
        "MiB",
        &samples,
    )
}

/// The peak memory in MiB, while each of `count` files is read by a thread of its own.
fn peak(lab: &Lab, way: &Way<'_>, image: &Image, count: u64) -> Result<f64> {
    let cache = lab.new_folder()?;
    let path = cache.path().display().to_string();
    let mount = way
        .sealed(image)
        .mount(lab, User::Caller, &["--cache", &path])?;
    thread::scope(|scope| {
        let files = (0..count).map(|number| mount.path().join(number.to_string()));
        let readers: Vec<_> = files
            .map(|file| scope.spawn(move || Reading::of(&file)))
            .collect();
        for reader in readers {
            reader.join().ok().context("a reader panicked")??;
        }
        anyhow::Ok(())
    })?;
    Ok(mebibytes(mount.peak_memory()?))
}
