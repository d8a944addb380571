use std::iter;

use anyhow::Result;
use clap::{Args, ValueHint};
use verimount::{Content, Identity, Location, OpenOptions, Pin, Unshared};
use verimount_host::{one_line, sandbox::Sandbox};

use crate::{
    device_args::DeviceArgs,
    message::{counted, say},
    mirror_args::MirrorArgs,
    options::{ReadArgs, TrustArgs, location},
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
        for location in self.locations(location) {
            sandbox.read_content(location);
        }
        let sidecar = self.read.sidecar.as_ref();
        self.mirrors.prepare(location, sidecar, sandbox);
        let is_remote = self.is_any_remote(location);
        self.read.access.prepare_if(is_remote, sandbox)
    }

    fn is_any_remote(&self, location: &Location) -> bool {
        self.locations(location).any(Location::is_remote)
    }

    /// All that is read of the content at `location`.
    fn locations<'a>(&'a self, location: &'a Location) -> impl Iterator<Item = &'a Location> {
        let devices = self.devices.device.iter().map(|device| &device.location);
        let others = self.read.sidecar.iter().chain(self.mirrors.locations());
        devices.chain(others).chain([location])
    }

    /// Opens `location` with these options, and says so if less is verified than could be.
    pub(crate) fn open(&self, location: &Location) -> Result<Content> {
        self.open_like(location, &LikeArgs::default())
    }

    /// Opens `location` with what older content has of it, and says so if less is verified than could be.
    pub(crate) fn open_like(&self, location: &Location, like: &LikeArgs) -> Result<Content> {
        let options = self.read.options(self.is_any_remote(location))?;
        let options = self.registry.apply(self.mirrors.apply(like.apply(options)));
        let devices = self.devices.device.iter().cloned();
        let options = devices.fold(options, OpenOptions::device);
        let options = self.trust.apply(options, location)?;
        let content = Content::open(location, &options)?;
        say_unshared(content.unshared());
        self.mirrors.say_missing();
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

    /// How other content is reached, of which nothing is verified.
    pub(crate) fn reach(&self, location: &Location) -> Result<OpenOptions> {
        let (access, options) = (&self.read.access, self.registry.apply(OpenOptions::new()));
        access.apply_if(location.is_remote(), options)
    }
}

/// Says which places of content have failed or were wrong, and that it was taken from others.
pub(crate) fn say_mirrors(content: &Content) {
    let places = content.mirror_stats().map(|stats| stats.places);
    for place in places.into_iter().flatten() {
        if place.failed > 0 || place.wrong > 0 {
            say(format_args!(
                "note: {}: {} failed, and {} did not match: other places were asked",
                one_line(&place.place),
                counted(place.failed, "read"),
                place.wrong
            ));
        }
    }
}

/// Which older content is used.
#[derive(Args, Default)]
#[group(skip)]
pub(crate) struct LikeArgs {
    /// Take what did not change from this older sealed image or file, verified like everything else, and fetch only the
    /// rest; may be given several times
    #[arg(long, value_name = "OLD", value_parser = location(), value_hint = ValueHint::AnyPath)]
    like: Vec<Location>,
}

impl LikeArgs {
    /// Adds the older content to `options`.
    pub(crate) fn apply(&self, options: OpenOptions) -> OpenOptions {
        self.like.iter().cloned().fold(options, OpenOptions::like)
    }

    /// Keeps what reading it takes.
    pub(crate) fn prepare(&self, sandbox: &mut Sandbox) {
        for location in &self.like {
            sandbox.read_content(location);
        }
    }
}

/// Says of which older content nothing is used, and why.
pub(crate) fn say_unshared(unshared: &[Unshared]) {
    for unshared in unshared {
        say(format_args!("note: {unshared}"));
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
