//! `stat` of random names in a directory that was not listed before.

use std::{fs, path::Path, time::Instant};

use anyhow::Result;

use super::{Subject, file_name};
use crate::{
    data::Random,
    lab::Lab,
    report::{Bar, Compare, Report},
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
    let samples = subject
        .compare(lab, |directory| look_up(lab, directory, subject.names))
        .run_in(lab)?;
    report.times(&title, &samples, Compare::Time)?;
    for format in lab.formats()? {
        let text = format!("{title}, {}", format.ours());
        let seconds = samples.spread(format.ours())?;
        report.require(&text, Bar::AtMost(MOST), " s", seconds);
    }
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
