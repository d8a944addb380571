use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::Result;
use clap::{Args, ValueHint};
use verimount::{Error, ErrorKind, Location, PushOptions, push};
use verimount_host::printable;

use super::SessionArgs;
use crate::{
    Outcome,
    json::made,
    message::{Explained, wrong_usage},
    options::location,
    progress::watch,
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
        let options = PushOptions {
            sidecar: self.sidecar.clone(),
            plain_http: self.plain_http,
            remote: self.session.options()?,
            watcher: watch()?,
        };
        let pushed = push(&self.file, &self.image, &options);
        drop(options);
        let pushed = pushed.map_err(|error| advised(&self.file, error))?;
        // A name in a registry pins the content.
        let content = if pushed.location.names_content() {
            None
        } else {
            Some(pushed.identity)
        };
        let name = pushed.location;
        let json = self.json.then(|| made(&name, content.as_ref(), None));
        Outcome::Good.report(json, |out| match content {
            Some(content) => writeln!(out, "{content} {name}"),
            None => writeln!(out, "{name}"),
        })
    }
}

fn advised(file: &Path, error: Error) -> anyhow::Error {
    let is_about_file = error.location().and_then(Location::path) == Some(file);
    let at = printable(file);
    let text = match error.kind() {
        ErrorKind::InvalidInput => return wrong_usage(&error),
        ErrorKind::NotSealed | ErrorKind::WrongFormat if is_about_file => {
            format!("{at} is not sealed, so that readers could not verify it: verimount seal {at}")
        }
        ErrorKind::Damaged => format!("{error}; verimount verify {at} lists the bad ranges"),
        _ => return error.into(),
    };
    Explained::new(&error, text).into()
}
