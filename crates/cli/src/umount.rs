use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use verimount_names::printable;
use verimount_serve::{DaemonEnd, Kind, ask_mount, unmount};

use crate::{
    Outcome,
    target::{Target, ask},
};

/// End a mount, or an export by its socket; of a volume, wait until it is closed
///
/// A mount that is in use is not ended. An export is: what its clients have asked for is answered first,
/// and they have 10 seconds to take that.
#[derive(Args)]
pub(crate) struct Umount {
    /// The mount point, or the socket of an export
    #[arg(value_name = "DIR|SOCKET")]
    target: PathBuf,
    /// Take a mount out of sight now, and end it when the last open file in it is closed; end an export
    /// without waiting
    #[arg(long)]
    lazy: bool,
}

impl Umount {
    pub(crate) fn run(self) -> Result<Outcome> {
        let closing = match Target::at(&self.target) {
            Target::Mount(directory) => self.unmount(&directory)?,
            Target::Export(socket) => Some(end(&socket)?),
        };
        if let Some(closing) = closing.filter(|_| !self.lazy) {
            closing.wait();
        }
        Ok(Outcome::Good)
    }

    /// Unmounts, and gives the end of the process that then closes a volume.
    fn unmount(&self, directory: &Path) -> Result<Option<DaemonEnd>> {
        // Nobody tells it afterwards.
        let closing = closing(directory);
        unmount(directory, self.lazy).with_context(|| printable(directory).to_string())?;
        Ok(closing)
    }
}

/// The end of the process that closes a volume when it is unmounted. Nobody else has anything to close,
/// and may go on to serve the mount in other mount namespaces.
fn closing(directory: &Path) -> Option<DaemonEnd> {
    let status = ask_mount(directory).ok()?;
    match status.kind {
        Kind::Volume(_) => status.served.daemon?.end(),
        _ => None,
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
