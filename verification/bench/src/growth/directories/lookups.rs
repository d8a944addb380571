//! `stat` of random names in a directory that was not listed before.

use std::{fs, path::Path, time::Instant};

use anyhow::Result;

use super::{NATIVE, OURS, Subject, file_name};
use crate::{
    data::Random,
    lab::Lab,
    report::{Bar, Compare, Report},
    rounds::Contest,
};

/// The number of lookups.
const LOOKUPS: u64 = 10_000;

/// The most seconds that they may take in an image.
const MOST: f64 = 5.0;

/// Compares an image, in a new mount each time, with its directory, without cached pages.
pub(super) fn run(lab: &Lab, report: &mut Report, subject: &Subject) -> Result<()> {
    let title = format!(
        "Cold `stat` of {LOOKUPS} random names among {}",
        subject.names
    );
    if !lab.is_root() {
        report.leave_out(&title, Lab::NEEDS_ROOT);
        return Ok(());
    }
    let look_up = |directory: &Path| look_up(lab, directory, subject.names);
    let samples = Contest::default()
        .variant(NATIVE, || look_up(subject.directory.path()))
        .variant(OURS, || subject.in_image(lab, look_up))
        .run_in(lab)?;
    report.times(&title, &samples, Compare::Time)?;
    report.require(&title, Bar::AtMost(MOST), " s", samples.spread(OURS)?);
    Ok(())
}

fn look_up(lab: &Lab, directory: &Path, names: u64) -> Result<f64> {
    lab.make_cold(0)?;
    let mut random = Random::new(names);
    let start = Instant::now();
    for _ in 0..LOOKUPS {
        fs::symlink_metadata(directory.join(file_name(random.next() % names)))?;
    }
    Ok(start.elapsed().as_secs_f64())
}
