use std::{
    io::{Write, stdout},
    path::PathBuf,
};

use anyhow::Result;
use clap::{Args, ValueHint};
use verimount::{Location, OpenOptions, PullOptions, pull};
use verimount_host::printable;

use super::SessionArgs;
use crate::{
    Outcome,
    content_args::{LikeArgs, say_unpinned, say_unshared},
    message::wrong_usage,
    options::{TrustArgs, location},
    progress::watch,
};

/// Copy a sealed file or image from a registry, web server or object store, and verify all of it;
/// print its digest
///
/// The file gets its name when it is complete. If its seal is stored by itself, it is written to
/// FILE.verity. With --like, only what changed is fetched.
#[derive(Args)]
#[command(mut_arg("unverified", |arg| arg.hide(true)))]
pub(crate) struct Pull {
    /// The image: oci://HOST[:PORT]/REPOSITORY:TAG, or @sha256:DIGEST, which pins the content; the URL
    /// of a file, or its name in an object store
    #[arg(value_name = "SOURCE", value_parser = location())]
    image: Location,
    /// The file to write, which must not exist
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    #[command(flatten)]
    trust: TrustArgs,
    /// Another place of the same content, which is asked for what the first fails to send, or for all if it sends wrong bytes. May be
    /// given several times
    #[arg(long, value_name = "LOCATION", value_parser = location())]
    mirror: Vec<Location>,
    /// File with the Merkle tree, if it is not at the end of the file or in FILE.verity
    #[arg(long, value_name = "FILE", value_parser = location())]
    sidecar: Option<Location>,
    #[command(flatten)]
    like: LikeArgs,
    /// Speak to the registry without encryption, and without credentials
    #[arg(long)]
    plain_http: bool,
    #[command(flatten)]
    session: SessionArgs,
}

impl Pull {
    pub(crate) fn run(self) -> Result<Outcome> {
        if self.trust.is_unverified() {
            return Err(wrong_usage("--unverified contradicts pull"));
        }
        if !self.image.is_remote() {
            return Err(wrong_usage(
                "a file is copied from another machine (oci://, https://, s3://, gs://, az://)",
            ));
        }
        let options = OpenOptions::new()
            .plain_http(self.plain_http)
            .sidecar(self.sidecar.clone())
            .remote(self.session.options()?);
        let options = self.mirror.iter().fold(options, OpenOptions::mirror);
        let options = PullOptions {
            open: self.like.apply(self.trust.apply(options, &self.image)?),
            watcher: watch()?,
        };
        let pulled = pull(&self.image, &self.file, &options)?;
        drop(options);
        say_unshared(&pulled.unshared);
        let identity = pulled.identity;
        if !self.trust.is_given() && !self.image.names_content() {
            say_unpinned(&self.image, &identity);
        }
        let written = writeln!(stdout(), "{identity} {}", printable(&self.file));
        Outcome::Good.reported(written)
    }
}
