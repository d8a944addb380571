use std::iter;

use anyhow::Result;
use verimount::{Location, Opened, serve::Pin, verity::Identity};

use crate::{
    device_args::DeviceArgs,
    message::say,
    options::{ReadArgs, TrustArgs},
};

/// Opens `location` with these options, and says so if less is verified than could be.
pub(crate) fn open(
    location: &Location,
    trust: &TrustArgs,
    read: &ReadArgs,
    devices: &DeviceArgs,
) -> Result<Opened> {
    let options = read.options(location, trust.dm_verity.hash_offset(), &devices.device)?;
    let opened = verimount::open(location, &trust.trust(location)?, &options)?;
    if opened.has_unused_seal() {
        say(format_args!(
            "note: {location} is sealed, but nothing of it is checked: to have it checked, give no \
             --unverified"
        ));
    }
    if !trust.is_given() {
        for opened in iter::once(&opened).chain(opened.devices()) {
            if let (Some(identity), Pin::Unpinned) = (opened.identity(), opened.pin()) {
                say_unpinned(opened.location(), &identity);
            }
        }
    }
    Ok(opened)
}

/// Says that nothing tells whether content is the right one.
pub(crate) fn say_unpinned(location: &Location, identity: &Identity) {
    let (what, options) = match identity {
        Identity::FileDigest(_) => ("digest", "--digest or --key"),
        Identity::RootHash(_) => ("root hash", "--root-hash"),
    };
    say(format_args!(
        "note: {location} is checked only against its own {what}, {identity}: \
         give {options} to make sure that it is the right file"
    ));
}
