//! The tool by which the kernel's volumes are made and opened.

use std::{path::Path, process::Command};

use verimount_integrity::Algorithm;

/// What a journal's MAC is computed with.
pub(crate) const JOURNAL_MAC: Algorithm = Algorithm::HmacSha256;

/// The size of the keys of tags and of a journal's MAC, in bytes.
pub(crate) const KEY_SIZE: usize = 32;

/// Does something with a volume, which has a journal with a MAC if there is a key file for it. The
/// device is to be added, and what else is to be said.
pub(crate) fn integritysetup(
    action: &str,
    journal_key: Option<&Path>,
    data_device: Option<&Path>,
) -> Command {
    let mut command = Command::new("integritysetup");
    // Nobody else is told of the devices.
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
