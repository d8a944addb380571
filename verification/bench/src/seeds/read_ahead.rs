//! fs-verity's read-ahead of the Merkle tree (2020): `cat` of a file of 250 MB, cold.

use std::process::Command;

use anyhow::Result;

use crate::{
    data,
    handicap::{self, Handicap},
    lab::{Lab, User, ensure_same_file, seconds},
    latency,
    mounts::{Mount, Sealed},
    report::{Report, figure, with_range},
    rounds::Contest,
    table::Table,
};

const OFF: &str = "tree read-ahead off";
const ON: &str = "tree read-ahead on";
const SUM: &str = "sha256sum of the plain file";

/// MB/s in 2020, on ARM64 and on x86-64.
const IN_2020: [(&str, [&str; 2]); 3] = [
    (OFF, ["217", "173"]),
    (ON, ["263", "215"]),
    (SUM, ["357", "223"]),
];

pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    let title = "Table 1: read-ahead of the Merkle tree";
    if lab.is_root() {
        from_disk(lab, report, title)?;
    } else {
        report.leave_out(title, Lab::NEEDS_ROOT);
    }
    latency::run(lab, report)?;
    Ok(())
}

fn from_disk(lab: &Lab, report: &mut Report, title: &str) -> Result<()> {
    let plain = lab.path("table-1.bin");
    let bytes = lab.sizes.seed_file;
    data::write_file(&plain, bytes)?;
    let sealed = Sealed {
        digest: lab.seal(&plain)?,
        source: plain.clone(),
    };

    let mut tree_requests = [0; 2];
    let [off, on] = &mut tree_requests;
    let cat = |mount: Result<Mount>, requests: &mut u64| {
        let mount = mount?;
        let file = mount.path().join("table-1.bin");
        lab.make_cold(bytes)?;
        let seconds = seconds(Command::new("cat").arg(&file))?;
        *requests = mount.counter(lab, "tree_requests")?;
        ensure_same_file(User::Caller, &plain, &file)?;
        Ok(seconds)
    };
    let samples = Contest::default()
        .variant(OFF, || {
            let off_mount = handicap::image(lab, &sealed, Handicap::NoTreeReadAhead);
            cat(off_mount, off)
        })
        .variant(ON, || cat(sealed.mount(lab, User::Caller, &[]), on))
        .variant(SUM, || {
            lab.make_cold(bytes)?;
            seconds(Command::new("sha256sum").arg(&plain))
        })
        .run(lab.rounds)?;

    let mut table = Table::new([
        "cold read",
        "2020 ARM64 MB/s",
        "2020 x86-64 MB/s",
        "here MB/s",
        "speed / off",
        "tree requests per GiB",
    ]);
    let per_gib = |requests: u64| figure(requests as f64 * (1_u64 << 30) as f64 / bytes as f64);
    let counts = [
        per_gib(tree_requests[0]),
        per_gib(tree_requests[1]),
        String::new(),
    ];
    for ((name, [arm, x86]), count) in IN_2020.into_iter().zip(counts) {
        let here = figure(bytes as f64 / 1e6 / samples.spread(name)?.median);
        let ratio = with_range(samples.ratio(OFF, name)?);
        table.row([name, arm, x86, &here, &ratio, &count]);
    }
    let title = format!("{title}, `cat` of {} MiB, cold", bytes >> 20);
    report.table(&title, table, "s", &samples)
}
