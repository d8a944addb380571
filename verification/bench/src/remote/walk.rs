//! Walking through a remote image with many files.

use std::{fs, process::Command};

use anyhow::Result;

use super::{Image, Way};
use crate::{
    data,
    lab::{Lab, User, seconds},
    report::{Bar, Compare, Report},
    rounds::{Contest, Spread},
};

const OURS: &str = "verimount";

pub(super) fn run(lab: &Lab, report: &mut Report, way: &Way<'_>) -> Result<()> {
    let folder = lab.path("walked");
    fs::create_dir(&folder)?;
    data::write_tree(&folder, &lab.sizes)?;
    let image = Image::make(lab, &folder, "walked")?;
    let mut requests = Vec::new();
    let samples = Contest::default()
        .variant(OURS, || {
            way.server.take_answered()?;
            let cache = lab.new_folder()?;
            let path = cache.path().display().to_string();
            lab.make_cold(0)?;
            image.read_into_memory(lab)?;
            let mount = way
                .sealed(&image)
                .mount(lab, User::Caller, &["--cache", &path])?;
            let mut find = Command::new("find");
            let seconds = seconds(find.arg(mount.path()).args(["-printf", "%s"]))?;
            drop(mount);
            let answered = way.server.take_answered()?;
            if lab.is_today() {
                requests.push(answered.requests as f64);
            }
            Ok(seconds)
        })
        .run_in(lab)?;
    let files = lab.sizes.files();
    let title = format!("Cold `find -printf %s` of {files} files, {}", way.name);
    report.times(&title, &samples, Compare::Time)?;
    if let Some(requests) = Spread::of(requests) {
        let text = format!("cold walk of {files} files: requests, with those of the mount");
        report.require(&text, Bar::AtMost(10.0), "", requests);
    }
    Ok(())
}
