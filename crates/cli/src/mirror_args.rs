use std::path::Path;

use clap::{Args, ValueHint};
use verimount::{Location, OpenOptions};
use verimount_host::{printable, sandbox::Sandbox};

use crate::{message::say, options::location};

/// Other places of the same content.
#[derive(Args)]
#[group(skip)]
pub(crate) struct MirrorArgs {
    /// Another place of the same content, with its Merkle tree at its end or beside it: what does not match, or cannot be
    /// read, is taken from there. May be given several times
    #[arg(long, value_name = "LOCATION", value_parser = location(), value_hint = ValueHint::AnyPath, conflicts_with = "unverified")]
    mirror: Vec<Location>,
    /// Write what matches where other bytes were found, in files on this machine
    // Clap does not ask for mirrors if they contradict another option.
    #[arg(long, requires = "mirror", conflicts_with = "unverified")]
    repair: bool,
}

impl MirrorArgs {
    /// Adds these places to `options`, and whether wrong bytes are replaced there.
    pub(crate) fn apply(&self, options: OpenOptions) -> OpenOptions {
        let mirrors = self.mirror.iter();
        mirrors.fold(options.repair(self.repair), OpenOptions::mirror)
    }

    /// Says which of those on this machine do not exist: nothing else would, until something is needed from there.
    pub(crate) fn say_missing(&self) {
        let paths = self.mirror.iter().filter_map(Location::path);
        // Where this user may not look, it may well be.
        let is_missing = |path: &&Path| matches!(path.try_exists(), Ok(false));
        for path in paths.filter(is_missing) {
            let path = printable(path);
            say(format_args!(
                "note: {path} does not exist: nothing comes from this mirror"
            ));
        }
    }

    /// Where they are.
    pub(crate) fn locations(&self) -> &[Location] {
        &self.mirror
    }

    /// Adds places that everything is repaired from.
    pub(crate) fn add_repairing(&mut self, places: &[Location]) {
        self.repair |= !places.is_empty();
        self.mirror.extend(places.iter().cloned());
    }

    /// Keeps what repairing takes of what is at `location`, with its Merkle tree in `sidecar` if that was given.
    pub(crate) fn prepare(
        &self,
        location: &Location,
        sidecar: Option<&Location>,
        sandbox: &mut Sandbox,
    ) {
        if self.repair {
            if let Some(path) = sidecar.and_then(Location::path) {
                sandbox.repair_file(path);
            }
            for place in [location].into_iter().chain(&self.mirror) {
                sandbox.repair_content(place);
            }
        }
    }
}
