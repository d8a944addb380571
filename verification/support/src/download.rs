//! Files that are pinned by their checksums.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::interrupt;

/// The program with which apt fetches files and checks them.
const APT_HELPER: &str = "/usr/lib/apt/apt-helper";

/// Fetches files: their URL, where each is to be, and its SHA-256. None is there whose checksum differs.
///
/// # Errors
/// Not all could be fetched.
pub(crate) fn download(files: &[(&str, &Path, &str)]) -> Result<()> {
    let mut helper = Command::new(APT_HELPER);
    // It writes as this user.
    helper.args(["-qq", "--option", "APT::Sandbox::User=root"]);
    helper.arg("download-file");
    for (url, file, sha256) in files {
        helper.arg(url).arg(file).arg(format!("SHA256:{sha256}"));
    }
    let status = helper.status();
    interrupt::check()?;
    let status = status.with_context(|| format!("cannot run {APT_HELPER}"))?;
    ensure!(
        status.success(),
        "not all files can be had as they are expected"
    );
    Ok(())
}
