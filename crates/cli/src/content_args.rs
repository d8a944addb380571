use std::iter;

use anyhow::Result;
use clap::Args;
use verimount::{Content, Identity, Location, Pin, one_line, sandbox::Sandbox};

use crate::{
    device_args::DeviceArgs,
    message::say,
    mirror_args::MirrorArgs,
    options::{ReadArgs, TrustArgs},
    remote::RegistryArgs,
};

/// Which content is trusted, and how it is found and read.
#[derive(Args)]
#[group(skip)]
pub(crate) struct ContentArgs {
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    pub(crate) mirrors: MirrorArgs,
    #[command(flatten)]
    devices: DeviceArgs,
    #[command(flatten)]
    registry: RegistryArgs,
}

impl ContentArgs {
    /// Keeps what opening and reading `location` takes.
    pub(crate) fn prepare(&self, location: &Location, sandbox: &mut Sandbox) -> Result<()> {
        self.trust.prepare(sandbox);
        let devices = &self.devices.device;
        self.read.prepare(location, devices, &self.mirrors, sandbox)
    }

    /// Opens `location` with these options, and says so if less is verified than could be.
    pub(crate) fn open(&self, location: &Location) -> Result<Content> {
        let devices = &self.devices.device;
        let options = self.read.options(location, devices, &self.mirrors)?;
        let options = self.trust.apply(self.registry.apply(options), location)?;
        let content = Content::open(location, &options)?;
        if content.has_unused_seal() {
            say(format_args!(
                "note: {location} is sealed, but nothing of it is checked: to have it checked, give no \
                 --unverified"
            ));
        }
        if !self.trust.is_given() {
            for content in iter::once(&content).chain(content.devices()) {
                if let (Some(identity), Pin::Unpinned) = (content.identity(), content.pin()) {
                    say_unpinned(content.location(), &identity);
                }
            }
        }
        Ok(content)
    }
}

/// Says which places of content have failed or were wrong, and that it was taken from others.
pub(crate) fn say_mirrors(content: &Content) {
    let places = content.mirror_stats().map(|stats| stats.places);
    for place in places.into_iter().flatten() {
        if place.failed > 0 || place.wrong > 0 {
            say(format_args!(
                "note: {}: {} reads failed, and {} did not match: other places were asked",
                one_line(&place.name),
                place.failed,
                place.wrong
            ));
        }
    }
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
