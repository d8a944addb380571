use std::{
    io::{self, Write, stdout},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::{fs::getxattr, io::Errno};
use serde::de::DeserializeOwned;
use verimount_bridge::BridgeStatus;
use verimount_names::{one_line, printable};
use verimount_serve::{ImageStatus, STATUS_XATTR, Status as MountStatus, VolumeStatus, is_mount};

use crate::Outcome;

/// Show what a mount does: what it verified, what it asked of the storage, what did not match
#[derive(Args)]
pub(crate) struct Status {
    /// The mount point
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// The longest status: the kernel's limit for an extended attribute.
const MAX_STATUS: usize = 64 << 10;

impl Status {
    pub(crate) fn run(self) -> Result<Outcome> {
        let status: MountStatus = read_status(&self.directory)?;
        let outcome = match &status {
            MountStatus::Image(image) if image.mismatches > 0 => Outcome::Bad,
            MountStatus::Volume(volume) if volume.mismatches > 0 => Outcome::Bad,
            _ => Outcome::Good,
        };
        outcome.reported(self.write(&status))
    }

    fn write(&self, status: &MountStatus) -> io::Result<()> {
        let mut out = stdout().lock();
        match self.json {
            true => writeln!(out, "{}", serde_json::to_string_pretty(status)?),
            false => match status {
                MountStatus::Image(image) => print_image(&mut out, image),
                MountStatus::Bridge(bridge) => print_bridge(&mut out, bridge),
                MountStatus::Volume(volume) => print_volume(&mut out, volume),
            },
        }
    }
}

/// What a mount tells of itself: a [`MountStatus`], or a part of it.
///
/// # Errors
/// The directory is not one that the mount table shows as a mount of ours: there, anybody could have
/// set the attribute.
pub(crate) fn read_status<S: DeserializeOwned>(directory: &Path) -> Result<S> {
    let shown = || printable(directory).to_string();
    let mut text = vec![0; MAX_STATUS];
    let len = match is_mount(directory).with_context(shown)? {
        false => None,
        true => match getxattr(directory, STATUS_XATTR, &mut text[..]) {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => None,
            other => Some(other.with_context(shown)?),
        },
    };
    match len {
        None => bail!("{} is not a verimount mount", shown()),
        Some(len) => {
            serde_json::from_slice(&text[..len]).with_context(|| format!("{}: its status", shown()))
        }
    }
}

/// The texts come from whoever serves the directory, and that may be anybody.
fn print_image(out: &mut impl Write, status: &ImageStatus) -> io::Result<()> {
    let digest = status
        .digest
        .as_deref()
        .unwrap_or("none: nothing is verified");
    writeln!(out, "digest         {}", one_line(digest))?;
    writeln!(out, "size           {} bytes", status.size)?;
    writeln!(out, "verified       {} bytes", status.bytes_verified)?;
    writeln!(out, "data requests  {}", status.data_requests)?;
    writeln!(
        out,
        "tree requests  {} of {} bytes in all",
        status.tree_requests, status.tree_bytes
    )?;
    let requests = &status.requests;
    writeln!(
        out,
        "kernel asked   {} read, {} readdir, {} lookup, {} getattr, {} readlink",
        requests.read, requests.readdir, requests.lookup, requests.getattr, requests.readlink
    )?;
    writeln!(out, "mismatches     {}", status.mismatches)?;
    for failure in &status.recent_failures {
        writeln!(
            out,
            "  {} at {}: {}",
            one_line(&failure.file),
            failure.offset,
            one_line(&failure.reason)
        )?;
    }
    Ok(())
}

fn print_bridge(out: &mut impl Write, status: &BridgeStatus) -> io::Result<()> {
    let (opens, passthrough) = (&status.opens, &status.passthrough);
    writeln!(
        out,
        "opens          {} passed through, {} relayed, {} denied; {} audited",
        opens.passthrough, opens.relay, opens.denied, opens.audited
    )?;
    writeln!(
        out,
        "               {} served otherwise, as the file was open already",
        opens.followed
    )?;
    writeln!(
        out,
        "passthrough    {} open now, {} registered, {} from the cache, {} kept",
        passthrough.open, passthrough.registered, passthrough.reused, passthrough.idle
    )?;
    writeln!(
        out,
        "fallbacks      {}{}",
        passthrough.fallbacks,
        match &passthrough.refusal {
            Some(reason) => format!(": {}", one_line(reason)),
            None => String::new(),
        }
    )?;
    let relayed = &status.relayed;
    writeln!(
        out,
        "relayed        {} reads of {} bytes, {} writes of {} bytes in all",
        relayed.reads, relayed.read_bytes, relayed.writes, relayed.written_bytes
    )?;
    writeln!(
        out,
        "files          {} remembered, {} held",
        status.remembered_files, status.held_files
    )
}

fn print_volume(out: &mut impl Write, status: &VolumeStatus) -> io::Result<()> {
    let (size, block_size) = (status.size, status.block_size);
    writeln!(out, "mode           {}", one_line(&status.mode))?;
    writeln!(
        out,
        "size           {size} bytes in sectors of {block_size}"
    )?;
    writeln!(out, "verified       {} bytes", status.bytes_read)?;
    writeln!(out, "written        {} bytes", status.bytes_written)?;
    let requests = &status.requests;
    writeln!(
        out,
        "kernel asked   {} read, {} write, {} flush, {} discard, {} zero",
        requests.read, requests.write, requests.flush, requests.discard, requests.zero
    )?;
    let storage = &status.storage;
    writeln!(
        out,
        "storage        {} reads of {} bytes, {} writes of {} bytes in all, {} flushes",
        storage.reads, storage.read_bytes, storage.writes, storage.written_bytes, storage.flushes
    )?;
    if let Some(sector) = status.unchecked_from {
        writeln!(
            out,
            "unchecked      from sector {sector} on, until tags are computed anew"
        )?;
    }
    if let Some(reason) = &status.failure {
        writeln!(out, "read-only      {}", one_line(reason))?;
    }
    writeln!(out, "mismatches     {}", status.mismatches)
}

#[cfg(test)]
mod tests {
    use verimount_serve::Failure;

    use super::*;

    /// Any process can serve a mount of this name, and say anything of it.
    #[test]
    fn texts_are_printed_on_one_line_each() {
        let text = "a\x1b[2J\nverimount: all is well".to_owned();
        let status = ImageStatus {
            digest: Some(text.clone()),
            recent_failures: vec![Failure {
                file: text.clone(),
                offset: 0,
                reason: text.clone(),
            }],
            ..ImageStatus::default()
        };
        let mut printed = Vec::new();
        print_image(&mut printed, &status).unwrap();
        let printed = String::from_utf8(printed).unwrap();
        let shown = r"a\x1b[2J\nverimount: all is well";
        assert_eq!(printed.matches(shown).count(), 3, "{printed}");
        let lines = printed.split_terminator('\n');
        for line in lines {
            assert!(!line.chars().any(char::is_control), "{line:?}");
        }
    }
}
