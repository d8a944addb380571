use anyhow::Result;
use verimount::{Location, Opened};

use crate::{
    message::say,
    options::{ReadArgs, TrustArgs},
};

/// Opens `location` with these options, and says so if less is verified than could be.
pub(crate) fn open(location: &Location, trust: &TrustArgs, read: &ReadArgs) -> Result<Opened> {
    let options = read.options(trust.dm_verity.hash_offset());
    let opened = verimount::open(location, &trust.trust()?, &options)?;
    if opened.has_unused_seal() {
        say(format_args!(
            "note: {location} is sealed, but nothing of it is checked: to have it checked, give no \
             --unverified"
        ));
    }
    if let Some(identity) = opened.identity().filter(|_| !trust.is_given()) {
        say(format_args!(
            "note: {location} is checked only against its own digest, {identity}: \
             give --digest or --key to make sure that it is the right file"
        ));
    }
    Ok(opened)
}
