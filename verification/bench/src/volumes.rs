//! Compares volumes with unchecked files and disks.

mod check;
mod server;
mod speed;
mod subjects;
mod tags;
mod untar;

use anyhow::Result;

use crate::{lab::Lab, report::Report};

pub(crate) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    tags::run(lab, report)?;
    speed::run(lab, report)?;
    check::run(lab, report)?;
    untar::run(lab, report)
}
