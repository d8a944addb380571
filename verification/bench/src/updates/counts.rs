//! How much of the newer images is new. All figures are exact.

use std::fs;

use anyhow::Result;
use verimount_support::command;

use super::{
    images::{BLOCK, Compression, Difference, Images, build},
    pairs::Pair,
};
use crate::{
    lab::Lab,
    report::{Bar, Report, figure},
    rounds::Spread,
    table::Table,
};

/// The table of them.
pub(super) struct Counts(Table);

impl Counts {
    pub(super) fn new() -> Self {
        Self(Table::new([
            "images",
            "MB",
            "blocks of changed files",
            "new blocks",
            "new / changed",
            "runs",
            "new blocks and tree, MB",
        ]))
    }

    pub(super) fn add(
        &mut self,
        lab: &Lab,
        report: &mut Report,
        pair: &Pair,
        compression: Compression,
        images: &Images,
    ) -> Result<()> {
        let Difference {
            size,
            new_blocks,
            runs,
            ..
        } = images.difference;
        let changed = changed_blocks(lab, pair, compression)?;
        let ratio = new_blocks as f64 / changed as f64;
        self.0.row([
            images.title.clone(),
            megabytes(size),
            changed.to_string(),
            new_blocks.to_string(),
            figure(ratio),
            runs.to_string(),
            megabytes(images.difference.needed()),
        ]);
        let text = format!("{}: new blocks / those of changed files", images.title);
        report.require(&text, Bar::AtMost(1.6), "x", Spread::exact(ratio));
        Ok(())
    }

    pub(super) fn say(self, report: &mut Report) {
        report.section("What is new");
        report.say(self.0);
    }
}

pub(super) fn megabytes(bytes: u64) -> String {
    figure(bytes as f64 / 1e6)
}

/// What the changed files take by themselves, stored in the same way.
fn changed_blocks(lab: &Lab, pair: &Pair, compression: Compression) -> Result<u64> {
    let image = lab.path("changed.img");
    let mut build = build(lab, &pair.changed, compression, &image);
    command::stdout(build.arg("--no-seal"))?;
    let size = image.metadata()?.len();
    fs::remove_file(image)?;
    Ok(size / BLOCK)
}
