use std::process::Command;

use anyhow::{Result, ensure};
use verimount_support::command;

use super::Large;
use crate::{
    lab::{Lab, User, has, seconds},
    report::{Bar, Compare, Report},
    rounds::Contest,
};

const OURS: &str = "verimount digest";
const THEIRS: &str = "fsverity digest";

/// Other programs that hash a file; the first is the one to compare with.
const PEERS: [(&str, &[&str]); 3] = [
    (THEIRS, &["fsverity", "digest"]),
    ("openssl dgst -sha256", &["openssl", "dgst", "-sha256"]),
    ("sha256sum", &["sha256sum"]),
];

/// Hashing a file in the page cache.
pub(super) fn run(lab: &Lab, report: &mut Report, large: &Large) -> Result<()> {
    let peer = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(&large.plain);
        command
    };
    let ours = || {
        let mut verimount = lab.verimount(User::Caller);
        verimount.arg("digest").arg(&large.plain);
        verimount
    };
    seconds(&mut peer(&["cat"]))?;

    let mut contest = Contest::default();
    for (name, words) in PEERS {
        if has(words[0]) {
            contest = contest.variant(name, move || seconds(&mut peer(words)));
        } else {
            report.leave_out(name, "not installed");
        }
    }
    let samples = contest.variant(OURS, || seconds(&mut ours())).run_in(lab)?;
    let title = format!("Digest of {}, warm", large.size());
    let compare = Compare::Speed { bytes: large.bytes };
    report.times(&title, &samples, compare)?;

    if let Ok(ratio) = samples.ratio(THEIRS, OURS) {
        let theirs = command::stdout(&mut peer(&["fsverity", "digest"]))?;
        ensure!(
            command::stdout(&mut ours())? == theirs,
            "the digests differ"
        );
        let text = "digest, warm: speed / fsverity digest";
        report.require(text, Bar::AtLeast(3.0), "x", ratio);
    }
    Ok(())
}
