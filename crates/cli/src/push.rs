use std::{
    io::{Write, stdout},
    path::PathBuf,
};

use anyhow::Result;
use clap::{Args, ValueHint};
use verimount::{Error, Location, registry, remote::registry::Reference};
#[cfg(feature = "clouds")]
use verimount::{cloud, remote::cloud::ObjectName, verity::Identity};

use crate::{
    Outcome,
    access::SessionArgs,
    interrupt::Interrupt,
    json::{Made, write_report},
    message::{Explained, wrong_usage},
    options::location,
    progress::with_progress,
};

/// Store a sealed file or image in a container registry or object store
///
/// All of it is verified before. In a registry, what is there already is not sent again, and the printed
/// name pins the content: mount and the other commands then need no --digest. Credentials are those of docker
/// login and podman login. For an object store, the digest is printed, and credentials are those in the
/// environment. A seal in FILE.verity is stored beside the object, with .verity at the end of its key.
#[derive(Args)]
pub(crate) struct Push {
    /// The sealed file or image
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Where to store it: oci://HOST[:PORT]/REPOSITORY:TAG, s3://BUCKET/KEY, gs://BUCKET/KEY or
    /// az://CONTAINER/KEY
    #[arg(value_name = "IMAGE", value_parser = location(), value_hint = ValueHint::Url)]
    image: Location,
    /// File with the Merkle tree, if it is not at the end of the file or in FILE.verity
    #[arg(long, value_name = "PATH", value_parser = location(), value_hint = ValueHint::AnyPath)]
    sidecar: Option<Location>,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    /// Speak to the registry without encryption, and without credentials
    #[arg(long)]
    plain_http: bool,
    #[command(flatten)]
    session: SessionArgs,
}

impl Push {
    pub(crate) fn run(self) -> Result<Outcome> {
        let (name, content) = match &self.image {
            Location::Registry(image) => (self.to_registry(image.reference())?, None),
            #[cfg(feature = "clouds")]
            Location::Object(name) => (name.to_string(), Some(self.to_object(name)?)),
            _ => {
                return Err(wrong_usage(
                    "a file is stored in a registry (oci://) or object store (s3://, gs://, az://)",
                ));
            }
        };
        let mut out = stdout().lock();
        Outcome::Good.reported(match content {
            content if self.json => write_report(&mut out, Made::new(name, content.as_ref())),
            Some(content) => writeln!(out, "{content} {name}"),
            None => writeln!(out, "{name}"),
        })
    }

    /// Stores it in a registry; returns its name with the digest there.
    fn to_registry(&self, to: &Reference) -> Result<String> {
        if to.tag().is_none() || to.digest().is_some() {
            return Err(wrong_usage(
                "what is stored gets a name with a tag, and without a digest",
            ));
        }
        let mut options = registry::PushOptions::default();
        options.sidecar = self.sidecar.clone();
        options.plain_http = self.plain_http;
        options.session = self.session.access()?.session;
        let interrupt = Interrupt::watch()?;
        let pushed = with_progress(&interrupt, |watch| {
            registry::push(&self.file, to, &options, watch)
        });
        Ok(pushed.map_err(advised)?.image.to_string())
    }

    /// Stores it in an object store; returns what is stored.
    #[cfg(feature = "clouds")]
    fn to_object(&self, to: &ObjectName) -> Result<Identity> {
        if self.plain_http {
            return Err(wrong_usage("--plain-http is only for registries"));
        }
        let mut options = cloud::PushOptions::default();
        options.sidecar = self.sidecar.clone();
        options.session = self.session.access()?.session;
        let interrupt = Interrupt::watch()?;
        let pushed = with_progress(&interrupt, |watch| {
            cloud::push(&self.file, to, &options, watch)
        });
        pushed.map_err(advised)
    }
}

fn advised(error: Error) -> anyhow::Error {
    match &error {
        Error::NotSealed { at, .. } | Error::Unrecognised { at } => {
            let text = format!(
                "{at} is not sealed, so that readers could not verify it: verimount seal {at}"
            );
            Explained::new(&error, text).into()
        }
        Error::Damaged { at } => {
            let text = format!("{error}; verimount verify {at} lists the bad ranges");
            Explained::new(&error, text).into()
        }
        _ => error.into(),
    }
}
