use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use rustix::process::geteuid;
use verimount::mounts::{AskError, CheckEvent, Kind, ask_export, check_export, registered_exports};

use crate::{interrupt::Interrupted, target::PATIENCE};

/// A volume that another process serves to NBD clients, to be checked by that process.
pub(super) struct ExportedVolume {
    socket: PathBuf,
}

impl ExportedVolume {
    /// The export at a socket.
    pub(super) fn at(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
        }
    }

    /// The export whose status names this `source`, if this user has registered one.
    pub(super) fn find(source: &str) -> Option<Self> {
        let own = geteuid().as_raw();
        let exports = registered_exports().into_iter();
        let mut own = exports.filter(|export| export.user == own);
        own.find_map(|export| {
            let told = ask_export(&export.socket, Some(export.user), PATIENCE).ok()?;
            let is_it =
                told.status.served.source == source && matches!(told.status.kind, Kind::Volume(_));
            is_it.then(|| Self::at(&export.socket))
        })
    }

    /// Has its process check it while clients use it, and passes events to `heard`.
    ///
    /// # Errors
    /// Any of [`check_export`], in words.
    pub(super) fn check(
        &self,
        interrupted: &dyn Fn() -> ControlFlow<()>,
        heard: &mut dyn FnMut(CheckEvent) -> ControlFlow<()>,
    ) -> Result<()> {
        let checked = check_export(&self.socket, PATIENCE, &mut |event| match event {
            Some(event) => heard(event),
            None => interrupted(),
        });
        match checked {
            Err(AskError::NotOurs) => {
                bail!("it is not a verimount export, or one of a version that cannot check it")
            }
            Err(AskError::Cancelled) => Err(Interrupted.into()),
            other => Ok(other?),
        }
    }
}
