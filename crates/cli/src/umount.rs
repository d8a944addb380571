use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use verimount_host::{
    mounts::{DaemonEnd, Kind, UnmountError, unmount, unmount_by_force, unmount_lazily},
    printable,
};

use crate::{
    Outcome,
    message::say,
    target::{Target, ask, ask_in_time, ending, ending_text},
};

/// How long a process may take to end after its mount or export has: it writes what a volume still holds back.
const CLOSING: Duration = Duration::from_secs(60);

/// Unmount a mount, or end an export by its socket; for a volume, wait until it is closed
///
/// Fails if a mount is in use, or if closing takes more than a minute, which then goes on. A mount that a signal has
/// detached while files in it were open is waited for, too. An export is ended even if it is in use, after all pending requests
/// are answered; clients have 10 seconds to receive the answers.
#[derive(Args)]
pub(crate) struct Umount {
    /// The mount point, or the socket of an export
    #[arg(value_name = "DIR|SOCKET")]
    target: PathBuf,
    /// Detach a mount now, and end it when the last open file in it is closed (lazy unmount); end
    /// an export without waiting
    #[arg(long)]
    lazy: bool,
    /// Kill the process of a mount, if it does not answer, and detach the mount: who waits for it gets an error, and what a volume
    /// has not written yet is lost
    #[arg(long, conflicts_with = "lazy")]
    force: bool,
}

impl Umount {
    pub(crate) fn run(self) -> Result<Outcome> {
        let closing = match Target::at(&self.target) {
            Target::Mount(directory) if self.force => {
                let unmounted = unmount_by_force(&directory);
                unmounted.with_context(|| printable(&directory).to_string())?;
                None
            }
            Target::Export(socket) if self.force => bail!(
                "{}: --force is for mounts; end the process of an export that does not answer",
                printable(&socket)
            ),
            Target::Mount(directory) => self.unmount(&directory)?,
            Target::Export(socket) => Some(end(&socket)?),
        };
        let closing = closing.filter(|_| !self.lazy);
        if closing.is_some_and(|closing| !closing.wait(CLOSING)) {
            bail!(
                "{}: its process has not ended within {} seconds, and goes on: look at its log",
                printable(&self.target),
                CLOSING.as_secs()
            );
        }
        Ok(Outcome::Good)
    }

    /// Unmounts, and returns a handle to wait for the process that then closes a volume.
    fn unmount(&self, directory: &Path) -> Result<Option<DaemonEnd>> {
        // The status is not available after unmounting.
        let status = match ask_in_time(directory) {
            Err(error) if !self.lazy => return Err(error),
            told => told.ok().and_then(Result::ok),
        };
        let daemon = status.as_ref().and_then(|status| status.served.daemon);
        let unmounted = if self.lazy {
            unmount_lazily(directory, daemon)
        } else {
            unmount(directory)
        };
        match unmounted {
            Err(UnmountError::NotMounted) => {
                if let Some(ending) = ending(directory) {
                    say(format_args!("note: {}", ending_text(&ending)));
                    return Ok(ending.daemon.end());
                }
                Err(UnmountError::NotMounted)
            }
            other => other,
        }
        .with_context(|| printable(directory).to_string())?;
        // Other processes than that of a volume have nothing to close, and may continue to serve the mount in other mount
        // namespaces.
        let is_volume = status.is_some_and(|status| matches!(status.kind, Kind::Volume(_)));
        let closing = daemon.filter(|_| is_volume);
        Ok(closing.and_then(|daemon| daemon.end()))
    }
}

/// Asks an export to end.
fn end(socket: &Path) -> Result<DaemonEnd> {
    let export = ask(socket)?;
    let shown = || printable(socket).to_string();
    let end = export
        .end()
        .with_context(|| format!("{}: its process is in another PID namespace", shown()))?;
    end.ask_for().with_context(shown)?;
    Ok(end)
}
