use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use rustix::process::geteuid;
use verimount_host::mounts::{AskError, CheckEvent, Kind, check_export};

use crate::{
    interrupt::{Interrupted, go_on},
    list::{Way, ask_everything},
    target::PATIENCE,
};

/// The socket of the export whose status names this `source`, if this user has registered one.
///
/// # Errors
/// Those of the mount table.
pub(super) fn find(source: &str) -> Result<Option<PathBuf>> {
    let own = geteuid().as_raw();
    let mut told = ask_everything()?.into_iter();
    Ok(told.find_map(|told| match (told.way, told.answer) {
        (Way::Export(export), Ok(status))
            if export.user == own
                && status.served.source == source
                && matches!(status.kind, Kind::Volume(_)) =>
        {
            Some(export.socket)
        }
        _ => None,
    }))
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
