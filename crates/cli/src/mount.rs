use std::{path::PathBuf, sync::Arc};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use verimount::{Error, Opened};
use verimount_names::printable;
use verimount_serve::{ImageFs, Mounted, VerifiedTree};
use verimount_tree::{SingleFile, Tree};

use crate::{
    Outcome,
    background::Ready,
    message::wrong_usage,
    mount_args::MountArgs,
    opened::open,
    options::{ReadArgs, TrustArgs},
    owner_args::OwnerArgs,
    served::served,
};

/// Mount an image, or a sealed file as a single file, and verify every byte that is read
///
/// One of --digest, --root-hash, --key, --unpinned and --unverified is required: it decides which
/// content is trusted.
#[derive(Args)]
pub(crate) struct Mount {
    /// The sealed image or file
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// The mount point: an empty directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    read: ReadArgs,
    /// Mount the content as a single file even if it is an image, or an image damaged at its
    /// beginning
    #[arg(long)]
    as_file: bool,
    #[command(flatten)]
    owners: OwnerArgs,
    #[command(flatten)]
    mount: MountArgs,
}

impl Mount {
    pub(crate) fn run(self) -> Result<Outcome> {
        if !self.trust.is_given() {
            return Err(wrong_usage(format_args!(
                "refusing to mount {} without knowing which content to trust: \
                 give --digest, --root-hash or --key, or --unpinned to detect damage but not forgery",
                printable(&self.source)
            )));
        }
        self.mount.background.serve(|| {
            let mounted = self.mount()?;
            let text = format!(
                "{} on {} ({})",
                printable(&self.source),
                printable(&self.directory),
                mounted.mode()
            );
            Ok(Ready::mounted(mounted, text, None))
        })
    }

    fn mount(&self) -> Result<Mounted> {
        let opened = open(&self.source, &self.trust, &self.read)?.read_ahead();
        let image = self.image(&opened)?;
        let is_file = image.is_none();
        let tree: Box<dyn Tree> = match image {
            Some(image) => image,
            None => Box::new(opened.single_file()),
        };
        let mut verified = VerifiedTree::new(tree, opened.reader().cloned());
        if is_file {
            verified = verified.with_measured(SingleFile::FILE);
        }
        let source_name = printable(&self.source).to_string();
        let served = served(&self.source, Some(opened.pin().clone()));
        let fs = ImageFs::new(Arc::new(verified), served).with_owners(self.owners.owners());
        let fs = fs.with_context(|| source_name.clone())?;
        self.mount
            .mount(Arc::new(fs), &self.directory, source_name, true)
    }

    /// The image, unless the content is to be mounted as a single file.
    fn image(&self, opened: &Opened) -> Result<Option<Box<dyn Tree>>> {
        if self.as_file {
            return Ok(None);
        }
        // If the beginning is damaged, an image cannot be told from another file. Falling back to a
        // single file would let an attacker who damages it choose what is mounted.
        opened.image().map_err(|error| match &error {
            Error::Image { source, .. } if source.read_error().is_some() => {
                anyhow!("{error}; use --as-file to read its undamaged parts")
            }
            _ => error.into(),
        })
    }
}
