use std::process::Command;

use anyhow::Result;

use super::Large;
use crate::{
    handicap::{self, Handicap},
    lab::{Lab, User, ensure_same_file, seconds},
    report::{Bar, Report, figure, mebibytes},
    rounds::Spread,
    table::Table,
};

/// The mount as it always is.
const AHEAD: &str = "on";

/// The number of reads of the tree for a sequential read of the data. These are counts, and so exact.
///
/// A tree block covers 512 KiB of data. Even without read-ahead of the tree, all adjacent blocks that a
/// read needs are fetched with one request.
pub(super) fn run(lab: &Lab, report: &mut Report, large: &Large) -> Result<()> {
    let mut table = Table::new([
        "tree read-ahead",
        "data requests",
        "tree requests",
        "tree KiB",
        "MiB of data per tree request",
    ]);
    let mut data_per_request = |setting: &str| {
        let mount = match setting {
            AHEAD => large.image.mount(lab, User::Caller, &[])?,
            _ => handicap::image(lab, &large.image, Handicap::NoTreeReadAhead)?,
        };
        let file = mount.path().join(Large::NAME);
        seconds(Command::new("cat").arg(&file))?;
        let [data, tree, bytes] = ["data_requests", "tree_requests", "tree_bytes"]
            .map(|counter| mount.counter(lab, counter));
        let (data, tree, bytes) = (data?, tree?, bytes?);
        ensure_same_file(User::Caller, &large.plain, &file)?;
        let each = mebibytes(large.bytes) / tree as f64;
        let counts = [data, tree, bytes >> 10].map(|count| count.to_string());
        table.row(
            [setting.to_owned()]
                .into_iter()
                .chain(counts)
                .chain([figure(each)]),
        );
        Ok::<_, anyhow::Error>(each)
    };
    let ahead = data_per_request(AHEAD)?;
    data_per_request("off")?;
    report.section(&format!(
        "Tree requests for a sequential read of {}",
        large.size()
    ));
    report.say(table);
    report.require(
        "MiB of data per tree request",
        Bar::AtLeast(16.0),
        "",
        Spread::exact(ahead),
    );
    Ok(())
}
