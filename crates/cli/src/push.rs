use std::{
    io::{Write, stdout},
    path::PathBuf,
};

use anyhow::{Result, anyhow};
use clap::{Args, ValueHint};
use verimount::{
    Error, Location,
    registry::{PushOptions, push},
    remote::registry::Reference,
};

use crate::{
    Outcome, access::SessionArgs, interrupt::Interrupt, message::wrong_usage, options::location,
    progress::with_progress,
};

/// Store a sealed file or image in a container registry; print its name with the digest there
///
/// All of it is verified before. What the registry has already is not sent again. The printed name pins
/// the content: mount and the other commands then need no --digest. Credentials are those of docker
/// login and podman login.
#[derive(Args)]
pub(crate) struct Push {
    /// The sealed file or image
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Where to store it: oci://HOST[:PORT]/REPOSITORY:TAG
    #[arg(value_name = "IMAGE")]
    image: Reference,
    /// File with the Merkle tree, if it is not at the end of the file or in FILE.verity
    #[arg(long, value_name = "PATH", value_parser = location(), value_hint = ValueHint::AnyPath)]
    sidecar: Option<Location>,
    /// Speak to the registry without encryption, and without credentials
    #[arg(long)]
    plain_http: bool,
    #[command(flatten)]
    session: SessionArgs,
}

impl Push {
    pub(crate) fn run(self) -> Result<Outcome> {
        if self.image.tag().is_none() || self.image.digest().is_some() {
            return Err(wrong_usage(
                "what is stored gets a name with a tag, and without a digest",
            ));
        }
        let mut options = PushOptions::default();
        options.sidecar = self.sidecar.clone();
        options.plain_http = self.plain_http;
        options.session = self.session.access()?.session;
        let interrupt = Interrupt::watch()?;
        let pushed = with_progress(&interrupt, |watch| {
            push(&self.file, &self.image, &options, watch)
        });
        let pushed = pushed.map_err(advised)?;
        Outcome::Good.reported(writeln!(stdout(), "{}", pushed.image))
    }
}

fn advised(error: Error) -> anyhow::Error {
    match &error {
        Error::NotSealed { at, .. } | Error::Unrecognised { at } => {
            anyhow!("{at} is not sealed, so that readers could not verify it: verimount seal {at}")
        }
        Error::Damaged { at } => anyhow!("{error}; verimount verify {at} lists the bad ranges"),
        _ => error.into(),
    }
}
