//! Reading all of a file that is on a server, by what a user has to do for it.

use std::{fs, process::Command, time::Instant};

use anyhow::{Result, ensure};

use super::{Large, Reading, Way, subjects::Subject};
use crate::{
    lab::{Lab, seconds},
    report::{Bar, Compare, Report},
    rounds::Contest,
};

const LAZILY: &str = "verimount: mount, read";
const DOWNLOAD: &str = "curl to a file, openssl dgst -sha256, read";

pub(super) fn run(lab: &Lab, report: &mut Report, large: &Large, way: &Way<'_>) -> Result<()> {
    let samples = Contest::default()
        .variant(DOWNLOAD, || download(lab, large, way))
        .variant(LAZILY, || lazily(lab, large, way))
        .run_in(lab)?;
    let title = format!(
        "Reading all of {} for the first time, {}",
        large.size(),
        way.name
    );
    report.times(&title, &samples, Compare::Time)?;
    let text = format!(
        "all of a file, {}: time / download, check and read",
        way.name
    );
    report.require(
        &text,
        Bar::AtMost(1.0),
        "x",
        samples.ratio(LAZILY, DOWNLOAD)?,
    );
    Ok(())
}

fn download(lab: &Lab, large: &Large, way: &Way<'_>) -> Result<f64> {
    let copy = lab.path("download.bin");
    large.make_cold(lab)?;
    let fetching = seconds(&mut way.curl(Large::FILE, &copy))?;
    let mut hash = Command::new("openssl");
    let checking = seconds(hash.args(["dgst", "-sha256"]).arg(&copy))?;
    let reading = Reading::of(&copy)?;
    fs::remove_file(copy)?;
    Ok(fetching + checking + reading.seconds)
}

fn lazily(lab: &Lab, large: &Large, way: &Way<'_>) -> Result<f64> {
    large.make_cold(lab)?;
    let start = Instant::now();
    let mounted = Subject::Ours.mount(lab, way, large)?;
    let reading = Reading::of(&mounted.file())?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(reading.bytes == large.bytes, "not everything was read");
    Ok(seconds)
}
