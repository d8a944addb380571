//! Repeats the tables of 2020 that Verimount's ideas come from: each idea disabled and enabled.

mod block_size;
mod read_ahead;
mod tags;

use anyhow::Result;

use crate::{lab::Lab, report::Report};

pub(crate) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    read_ahead::run(lab, report)?;
    block_size::run(lab, report)?;
    tags::run(lab, report)
}
