use anyhow::Result;

use super::Large;
use crate::{
    fio::random_reads,
    lab::{Lab, User, ensure_same_file, has},
    mounts::Sealed,
    report::{Bar, Compare, Report},
    rounds::Contest,
};

const BLOCK: u64 = 4096;

/// Reads of 4 KiB, one after another, at random positions, which are the same for all variants.
pub(super) fn run(lab: &Lab, report: &mut Report, large: &Large) -> Result<()> {
    let reads = lab.sizes.random_reads;
    let title = format!("{reads} cold random reads of 4 KiB in {}", large.size());
    if !lab.is_root() {
        report.leave_out(&title, Lab::NEEDS_ROOT);
        return Ok(());
    }
    if !has("fio") {
        report.leave_out(&title, "fio is not installed");
        return Ok(());
    }
    let mounted = |source| move || mounted(lab, large, source);
    let samples = Contest::default()
        .variant("plain file", || {
            lab.make_cold(reads * BLOCK)?;
            random_reads(&large.plain, reads)
        })
        .variant("verimount, image", mounted(&large.image))
        .variant("verimount, sealed file", mounted(&large.sealed))
        .run_in(lab)?;
    report.times(
        &title,
        &samples,
        Compare::Speed {
            bytes: reads * BLOCK,
        },
    )?;
    for name in ["verimount, image", "verimount, sealed file"] {
        let text = format!("cold random reads, {name}: speed / plain file");
        report.require(
            &text,
            Bar::AtLeast(0.6),
            "x",
            samples.ratio("plain file", name)?,
        );
    }
    Ok(())
}

fn mounted(lab: &Lab, large: &Large, source: &Sealed) -> Result<f64> {
    let mount = source.mount(lab, User::Caller, &[])?;
    let file = mount.path().join(Large::NAME);
    lab.make_cold(lab.sizes.random_reads * BLOCK)?;
    let seconds = random_reads(&file, lab.sizes.random_reads)?;
    ensure_same_file(User::Caller, &large.plain, &file)?;
    Ok(seconds)
}
