use std::path::Path;

use anyhow::{Result, bail};
use verimount_host::mounts::{AskError, CheckEvent, check_export};

use crate::{
    interrupt::{Interrupted, go_on},
    target::PATIENCE,
};

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
