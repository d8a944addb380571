use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::Result;
use verimount_support::command;

use super::Large;
use crate::{
    lab::{Lab, User, ensure_same_file},
    report::{Bar, Report, mebibytes, with_range},
    rounds::Contest,
    table::Table,
};

const READERS: u64 = 8;

/// The memory of the serving process while several programs read at once.
pub(super) fn run(lab: &Lab, report: &mut Report, large: &Large) -> Result<()> {
    let measure = || {
        let mount = large.image.mount(lab, User::Caller, &[])?;
        if lab.is_root() {
            lab.make_cold(large.bytes)?;
        }
        let file = mount.path().join(Large::NAME);
        read_in_parts(&file, large.bytes)?;
        ensure_same_file(User::Caller, &large.plain, &file)?;
        Ok(mebibytes(mount.peak_memory()?))
    };
    let name = format!("verimount, {READERS} sequential readers");
    let samples = Contest::default().variant(&name, measure).run_in(lab)?;
    let memory = samples.spread(&name)?;
    let mut table = Table::new(["process", "MiB"]);
    table.row([&name, &with_range(memory)]);
    report.table("Peak resident memory", table, "MiB", &samples)?;
    let text = format!("peak resident memory, {READERS} sequential readers");
    report.require(&text, Bar::AtMost(64.0), " MiB", memory);
    Ok(())
}

/// Each reader reads its own part of the file from start to end, all at the same time.
fn read_in_parts(file: &Path, bytes: u64) -> Result<()> {
    let part = (bytes / READERS) >> 20;
    let start = |reader: u64| {
        let mut dd = Command::new("dd");
        dd.arg(format!("if={}", file.display()))
            .args(["of=/dev/null", "bs=1M", "status=none"]);
        dd.args([format!("skip={}", reader * part), format!("count={part}")]);
        let child = dd.stdin(Stdio::null()).spawn()?;
        Ok::<_, std::io::Error>((dd, child))
    };
    let readers = (0..READERS).map(start).collect::<Result<Vec<_>, _>>()?;
    for (dd, mut child) in readers {
        command::check(&dd, child.wait())?;
    }
    Ok(())
}
