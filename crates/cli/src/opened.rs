use std::iter;

use anyhow::Result;
use verimount::{Content, Identity, Location, Pin};

use crate::{
    device_args::DeviceArgs,
    message::say,
    options::{ReadArgs, TrustArgs},
    registry_args::RegistryArgs,
};

/// Opens `location` with these options, and says so if less is verified than could be.
pub(crate) fn open(
    location: &Location,
    trust: &TrustArgs,
    read: &ReadArgs,
    devices: &DeviceArgs,
    registry: &RegistryArgs,
) -> Result<Content> {
    let options = registry.apply(read.options(location, &devices.device)?);
    let content = Content::open(location, &trust.apply(options, location)?)?;
    if content.has_unused_seal() {
        say(format_args!(
            "note: {location} is sealed, but nothing of it is checked: to have it checked, give no \
             --unverified"
        ));
    }
    if !trust.is_given() {
        for content in iter::once(&content).chain(content.devices()) {
            if let (Some(identity), Pin::Unpinned) = (content.identity(), content.pin()) {
                say_unpinned(content.location(), &identity);
            }
        }
    }
    Ok(content)
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
