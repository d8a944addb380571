use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use rustix::process::geteuid;
use verimount_host::mounts::{
    AskError, CheckEvent, Kind, ask_export, check_export, registered_exports,
};

use crate::{
    interrupt::{Interrupted, go_on},
    target::PATIENCE,
};

/// The socket of the export whose status names this `source`, if this user has registered one.
pub(super) fn find(source: &str) -> Option<PathBuf> {
    let own = geteuid().as_raw();
    let exports = registered_exports().into_iter();
    let mut own = exports.filter(|export| export.user == own);
    let found = own.find(|export| {
        let told = ask_export(&export.socket, Some(export.user), PATIENCE);
        told.is_ok_and(|told| {
            told.status.served.source == source && matches!(told.status.kind, Kind::Volume(_))
        })
    });
    found.map(|export| export.socket)
}

/// Has the process of the export at a socket check it while clients use it, and passes events to `heard`.
///
/// # Errors
/// Any of [`check_export`], in words.
pub(super) fn check(socket: &Path, heard: &mut dyn FnMut(CheckEvent)) -> Result<()> {
    let checked = check_export(socket, PATIENCE, &mut |event| {
        event.map(&mut *heard);
        go_on()
    });
    match checked {
        Err(AskError::NotOurs) => {
            bail!("it is not a verimount export, or one of a version that cannot check it")
        }
        Err(AskError::Cancelled) => Err(Interrupted.into()),
        other => Ok(other?),
    }
}
