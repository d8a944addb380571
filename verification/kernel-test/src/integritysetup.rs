//! The tool that formats and opens the kernel's volumes.

use std::{path::Path, process::Command};

use verimount_integrity::Algorithm;

/// The algorithm of a journal's MAC.
pub(crate) const JOURNAL_MAC: Algorithm = Algorithm::HmacSha256;

/// The size of the keys of tags and of a journal's MAC, in bytes.
pub(crate) const KEY_SIZE: usize = 32;

/// A command for a volume, which has a journal MAC if there is a key file for it. The caller adds the
/// device and further arguments.
pub(crate) fn integritysetup(
    action: &str,
    journal_key: Option<&Path>,
    data_device: Option<&Path>,
) -> Command {
    let mut command = Command::new("integritysetup");
    // Without udev.
    command.env("DM_DISABLE_UDEV", "1");
    command.args([action, "--batch-mode"]);
    if let Some(key) = journal_key {
        command.args(["--journal-integrity", JOURNAL_MAC.name()]);
        command.arg("--journal-integrity-key-file").arg(key);
        command.arg(format!("--journal-integrity-key-size={KEY_SIZE}"));
    }
    if let Some(data) = data_device {
        command.arg("--data-device").arg(data);
    }
    command
}
