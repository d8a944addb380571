use std::{
    io::{Write, stdout},
    path::PathBuf,
};

use anyhow::Result;
use clap::{Args, ValueHint};
use verimount::{
    Location, Trust,
    registry::{PullOptions, RegistryImage, pull},
    remote::registry::Reference,
};
use verimount_names::printable;

use crate::{
    Outcome, access::SessionArgs, interrupt::Interrupt, message::wrong_usage, opened::say_unpinned,
    options::TrustArgs, progress::with_progress,
};

/// Copy a sealed file or image from a container registry, and verify all of it; print its digest
///
/// The file gets its name when it is complete. If its seal is stored by itself, it is written to
/// FILE.verity.
#[derive(Args)]
pub(crate) struct Pull {
    /// The image: oci://HOST[:PORT]/REPOSITORY:TAG, or @sha256:DIGEST, which pins the content
    #[arg(value_name = "IMAGE")]
    image: Reference,
    /// The file to write, which must not exist
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    #[command(flatten)]
    trust: TrustArgs,
    /// Speak to the registry without encryption, and without credentials
    #[arg(long)]
    plain_http: bool,
    #[command(flatten)]
    session: SessionArgs,
}

impl Pull {
    pub(crate) fn run(self) -> Result<Outcome> {
        let image = RegistryImage::new(self.image).with_plain_http(self.plain_http);
        let location = Location::Registry(image.clone());
        if self.trust.is_unverified() {
            return Err(wrong_usage("--unverified contradicts pull"));
        }
        let trust = self.trust.trust(&location)?;
        let interrupt = Interrupt::watch()?;
        let mut options = PullOptions::default();
        options.hash_offset = self.trust.dm_verity.hash_offset();
        options.session = self.session.access()?.session;
        let identity = with_progress(&interrupt, |watch| {
            pull(&image, &self.file, &trust, &options, watch)
        })?;
        if matches!(trust, Trust::Unpinned) && !self.trust.is_given() {
            say_unpinned(&location, &identity);
        }
        let written = writeln!(stdout(), "{identity} {}", printable(&self.file));
        Outcome::Good.reported(written)
    }
}
