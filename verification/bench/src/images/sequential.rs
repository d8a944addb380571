use std::{path::Path, process::Command};

use anyhow::Result;

use super::Large;
use crate::{
    lab::{Lab, User, ensure_same_file, seconds},
    mounts::Sealed,
    report::{Bar, Compare, Report},
    rounds::{Contest, Samples},
};

const CAT: &str = "cat";
const OPENSSL: &str = "openssl dgst -sha256";
const IMAGE: &str = "verimount, image";
const FILE: &str = "verimount, sealed file";
const BY_USER: &str = "verimount, image, ordinary user";

/// Reading an uncached file from start to end.
pub(super) fn cold(lab: &Lab, report: &mut Report, large: &Large) -> Result<()> {
    let title = format!("Cold `cat` of {}", large.size());
    if !lab.is_root() {
        report.leave_out(&title, Lab::NEEDS_ROOT);
        return Ok(());
    }
    let plain = |program: &'static str, args: &'static [&str]| {
        move || {
            lab.make_cold(large.bytes)?;
            seconds(Command::new(program).args(args).arg(&large.plain))
        }
    };
    let mounted = |source, user| move || cold_cat(lab, large, source, user);
    let samples = Contest::default()
        .variant(CAT, plain("cat", &[]))
        .variant(OPENSSL, plain("openssl", &["dgst", "-sha256"]))
        .variant(IMAGE, mounted(&large.image, User::Caller))
        .variant(FILE, mounted(&large.sealed, User::Caller))
        .variant(BY_USER, mounted(&large.image, User::Nobody))
        .run_in(lab)?;
    report.times(&title, &samples, Compare::Speed { bytes: large.bytes })?;
    require(report, &samples)
}

fn require(report: &mut Report, samples: &Samples) -> Result<()> {
    let bars = [
        ("cold cat, image: speed / plain cat", CAT, IMAGE, 0.6),
        ("cold cat, sealed file: speed / plain cat", CAT, FILE, 0.6),
        (
            "cold cat, image: speed / openssl of the plain file",
            OPENSSL,
            IMAGE,
            1.0,
        ),
        (
            "cold cat, image: speed as ordinary user / as root",
            IMAGE,
            BY_USER,
            0.8,
        ),
    ];
    for (text, other, ours, bound) in bars {
        report.require(text, Bar::AtLeast(bound), "x", samples.ratio(other, ours)?);
    }
    Ok(())
}

fn cold_cat(lab: &Lab, large: &Large, source: &Sealed, user: User) -> Result<f64> {
    let mount = source.mount(lab, user, &[])?;
    let file = mount.path().join(Large::NAME);
    lab.make_cold(large.bytes)?;
    let seconds = seconds(user.command("cat").arg(&file))?;
    // Compares the content that was read, which is now in the page cache.
    ensure_same_file(user, &large.plain, &file)?;
    Ok(seconds)
}

/// Reading a file again that the page cache holds.
pub(super) fn warm(lab: &Lab, report: &mut Report, large: &Large) -> Result<()> {
    let samples = Contest::default()
        .variant(CAT, || warm_cat(&large.plain))
        .variant(IMAGE, || {
            let mount = large.image.mount(lab, User::Caller, &[])?;
            let file = mount.path().join(Large::NAME);
            ensure_same_file(User::Caller, &large.plain, &file)?;
            warm_cat(&file)
        })
        .run_in(lab)?;
    let title = format!("Warm `cat` of {}", large.size());
    report.times(&title, &samples, Compare::Speed { bytes: large.bytes })?;
    let ratio = samples.ratio(CAT, IMAGE)?;
    report.require(
        "warm cat, image: speed / plain cat",
        Bar::AtLeast(0.95),
        "x",
        ratio,
    );
    Ok(())
}

fn warm_cat(file: &Path) -> Result<f64> {
    let cat = || seconds(Command::new("cat").arg(file));
    cat()?;
    cat()
}
