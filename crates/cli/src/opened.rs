use std::path::Path;

use anyhow::Result;
use verimount::Opened;
use verimount_names::printable;

use crate::{
    message::say,
    options::{ReadArgs, TrustArgs},
};

/// Opens `path` with these options, and says so if less is verified than could be.
pub(crate) fn open(path: &Path, trust: &TrustArgs, read: &ReadArgs) -> Result<Opened> {
    let options = read.options(trust.dm_verity.hash_offset());
    let opened = verimount::open(path, &trust.trust()?, &options)?;
    if opened.has_unused_seal() {
        say(format_args!(
            "note: {} is sealed, but nothing of it is checked: to have it checked, give no \
             --unverified",
            printable(path)
        ));
    }
    if let Some(identity) = opened.identity().filter(|_| !trust.is_given()) {
        say(format_args!(
            "note: {} is checked only against its own digest, {identity}: \
             give --digest or --key to make sure that it is the right file",
            printable(path),
        ));
    }
    Ok(opened)
}
