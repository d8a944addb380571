use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueHint};
use verimount::{Location, Prefetch};
use verimount_host::{
    MountOptions, ResidentFiles, mount,
    mounts::{AttachOptions, Mounted},
    printable,
    sandbox::{Kind, Sandbox},
};

use crate::{
    Outcome,
    background::Ready,
    content_args::{ContentArgs, LikeArgs},
    message::{Explained, wrong_usage},
    mount_args::MountArgs,
    options::{location, one_of},
    owner_args::OwnerArgs,
    power_args::PowerArgs,
    resident_args::ResidentArgs,
};

/// Mount an image, or a sealed file as a single file, and verify every byte that is read
///
/// One of --digest, --root-hash, --key, --unpinned and --unverified is required: it decides which
/// content is trusted. An image in a registry that is given by @sha256:DIGEST needs none.
#[derive(Args)]
pub(crate) struct Mount {
    /// The sealed image or file, its URL, or its name in a registry or object store
    #[arg(value_name = "SOURCE", value_parser = location(), value_hint = ValueHint::AnyPath)]
    source: Location,
    /// The mount point: an empty directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    content: ContentArgs,
    #[command(flatten)]
    like: LikeArgs,
    /// Mount the content as a single file even if it is an image, or an image damaged at its
    /// beginning
    #[arg(long, conflicts_with = "device")]
    as_file: bool,
    /// For URLs: what is fetched before it is read: nothing, most of the Merkle tree, or all (into the cache). With
    /// --resident, all also loads its files at once, from anywhere
    #[arg(long, value_name = "WHAT", default_value = "metadata", value_parser = one_of(Prefetch::ALL, Prefetch::name))]
    prefetch: Prefetch,
    /// Let the kernel read an EROFS image itself: it asks only for blocks, each of which is verified. For root, with --allow-other
    #[arg(
        long,
        requires = "allow_other",
        conflicts_with_all = ["as_file", "uid", "gid", "umask", "resident", "unpinned", "unverified", "device"]
    )]
    native: bool,
    #[command(flatten)]
    resident: ResidentArgs,
    #[command(flatten)]
    owners: OwnerArgs,
    #[command(flatten)]
    powers: PowerArgs,
    #[command(flatten)]
    mount: MountArgs,
}

impl Mount {
    pub(crate) fn run(self) -> Result<Outcome> {
        if !self.content.trust.is_given() && !self.source.names_content() {
            return Err(wrong_usage(format_args!(
                "refusing to mount {} without knowing which content to trust: \
                 give --digest, --root-hash or --key, or --unpinned to detect damage but not forgery",
                self.source
            )));
        }
        if self.source.path().is_some_and(Path::is_dir) {
            bail!(
                "{0} is a directory: make an image of it with verimount build {0} IMAGE, or mirror it with \
                 verimount bridge",
                self.source
            );
        }
        let prepare = |sandbox: &mut Sandbox| self.prepare(sandbox);
        self.mount
            .background
            .serve(Kind::Image, prepare, |resident| {
                let mounted = self.mount(resident)?;
                let text = format!(
                    "{} on {} ({})",
                    self.source,
                    printable(&self.directory),
                    mounted.mode()
                );
                Ok(Ready::mounted(mounted, text, None))
            })
    }

    fn prepare(&self, sandbox: &mut Sandbox) -> Result<Option<ResidentFiles>> {
        self.content.prepare(&self.source, sandbox)?;
        self.like.prepare(sandbox);
        let most = self.mount.attaching(String::new(), true);
        let most = AttachOptions {
            suid: self.powers.suid,
            dev: self.powers.dev,
            native: self.native,
            ..most
        };
        sandbox.mount(&self.directory, most);
        let is_all = self.prefetch == Prefetch::All;
        self.resident.prepare(is_all, sandbox)
    }

    fn mount(&self, resident: Option<ResidentFiles>) -> Result<Mounted> {
        let content = self.content.open_like(&self.source, &self.like)?;
        content.prefetch(self.prefetch).map_err(|error| {
            wrong_usage(format_args!(
                "--prefetch all: {error}: give --cache DIR, and no --no-cache"
            ))
        })?;
        let options = MountOptions {
            as_file: self.as_file,
            owners: self.owners.owners(),
            suid: self.powers.suid,
            dev: self.powers.dev,
            resident,
            native: self.native,
            ..self.mount.options()
        };
        let mounted = mount(&content, &self.directory, &options);
        mounted.map_err(|error| {
            if error.is_failed_read() {
                let text = format!("{error}; use --as-file to read its undamaged parts");
                Explained::new(&error, text).into()
            } else {
                error.into()
            }
        })
    }
}
