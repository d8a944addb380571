use std::fs;

use anyhow::Result;

use super::Large;
use crate::{
    data,
    lab::{Format, Lab, User, seconds},
    mounts::{Sealed, new_point},
    report::{Bar, Compare, Report},
    rounds::{Contest, Spread},
};

/// The time until `mount` returns, for a small and a large image.
pub(super) fn run(lab: &Lab, report: &mut Report, large: &Large) -> Result<()> {
    let folder = lab.path("small");
    fs::create_dir(&folder)?;
    data::write_file(&folder.join("small.bin"), 1 << 20)?;
    let source = lab.path("small.img");
    let small = lab.image(Format::Romfs, &folder, source)?;

    let (small_name, large_name) = ("1 MiB image".to_owned(), format!("{} image", large.size()));
    let samples = Contest::default()
        .variant(&small_name, || mount(lab, &small))
        .variant(&large_name, || mount(lab, &large.image))
        .run_in(lab)?;
    let state = if lab.is_root() { "cold" } else { "warm" };
    report.times(&format!("Time to mount, {state}"), &samples, Compare::Time)?;
    let Spread { median, min, max } = samples.difference(&large_name, &small_name)?;
    let milliseconds = Spread {
        median: median * 1e3,
        min: min * 1e3,
        max: max * 1e3,
    };
    let text = format!("mounting {} instead of 1 MiB takes longer by", large.size());
    report.require(&text, Bar::AtMost(30.0), " ms", milliseconds);
    Ok(())
}

fn mount(lab: &Lab, image: &Sealed) -> Result<f64> {
    let point = new_point(lab, User::Caller)?;
    if lab.is_root() {
        lab.make_cold(0)?;
    }
    let mut mount = lab.verimount(User::Caller);
    mount
        .arg("mount")
        .args(["--digest", &image.digest])
        .arg(&image.source)
        .arg(point.path());
    let seconds = seconds(&mut mount)?;
    point.unmount()?;
    Ok(seconds)
}
