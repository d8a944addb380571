//! The tables of the work of 2020 that Verimount grew from, measured again: each idea off, and on.

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
