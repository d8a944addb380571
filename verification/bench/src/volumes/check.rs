use std::process::Command;

use anyhow::Result;

use super::subjects::Subject;
use crate::{
    lab::{Lab, User, has, seconds},
    report::{Bar, Compare, Report},
    rounds::Contest,
};

const CAT: &str = "cat of the volume's file";
const CHECK: &str = "verimount volume check";

pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    let bytes = lab.sizes.bridged_file;
    let title = format!("Checking {} MiB, cold", bytes >> 20);
    if !lab.is_root() || !has("fio") {
        report.leave_out(&title, "needs root and fio");
        return Ok(());
    }
    let [volume, ..] = Subject::VOLUMES;
    let storage = volume.storage(lab, bytes)?;
    storage.disk(lab)?.fill(bytes)?;
    let file = storage.file();
    let samples = Contest::default()
        .variant(CAT, || {
            lab.make_cold(bytes)?;
            seconds(Command::new("cat").arg(file))
        })
        .variant(CHECK, || {
            lab.make_cold(bytes)?;
            seconds(
                lab.verimount(User::Caller)
                    .args(["volume", "check"])
                    .arg(file),
            )
        })
        .run_in(lab)?;
    report.times(&title, &samples, Compare::Speed { bytes })?;
    let text = format!("{CHECK}: speed / {CAT}");
    report.require(&text, Bar::AtLeast(0.8), "x", samples.ratio(CAT, CHECK)?);
    Ok(())
}
