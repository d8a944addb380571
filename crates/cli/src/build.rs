use std::{
    io::{Write, stdout},
    path::PathBuf,
};

use anyhow::Result;
use clap::Args;
use verimount::{BlockSize, BuildOptions, Loss, LossText, RefusedLosses, VolumeName, build};
use verimount_names::printable;

use crate::{
    Outcome,
    interrupt::Interrupt,
    message::say,
    options::{Auto, TreeArgs, parse_image_block_size, parse_volume_name},
    progress::with_progress,
};

/// Make a reproducible romfs image of a directory, sealed with a Merkle tree; print its digest
///
/// The same tree always gives the same image, regardless of times and owners: romfs cannot store
/// these, nor extended attributes, nor permissions other than the executable bit. Notes list
/// everything that the image loses.
#[derive(Args)]
pub(crate) struct Build {
    /// The directory
    #[arg(value_name = "DIR")]
    tree: PathBuf,
    /// The image to create or replace
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Alignment of the data of files of at least this size, and of the image's end: a power of two
    /// from 1K to 1M; auto is 4K, the largest that the kernel's romfs supports
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = parse_image_block_size)]
    block_size: Auto<BlockSize>,
    /// The volume's name, up to 128 bytes
    #[arg(long, value_name = "NAME", default_value = "", value_parser = parse_volume_name, hide_default_value = true)]
    volume_name: VolumeName,
    /// Create a plain image without a Merkle tree
    #[arg(long)]
    no_seal: bool,
    /// Replace IMAGE even if it is not an image
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    losses: LossArgs,
    #[command(flatten)]
    tree_args: TreeArgs,
}

/// Which losses are an error.
#[derive(Args)]
struct LossArgs {
    /// Also store files that not everybody may read; in the image, everybody may read them
    #[arg(long)]
    widen_permissions: bool,
    /// Fail if the image would lose anything, or any of these: times, owners, permissions,
    /// special-bits, access-lists, capabilities, attributes, holes
    #[arg(long, value_name = "LOSS", value_parser = parse_loss, num_args = 0.., value_delimiter = ',', require_equals = true)]
    strict: Option<Vec<Loss>>,
}

impl Build {
    pub(crate) fn run(self) -> Result<Outcome> {
        let interrupt = Interrupt::watch()?;
        let options = self.options();
        let built = with_progress(&interrupt, |watch| {
            build(&self.tree, &self.image, &options, watch)
        })?;
        for (loss, lost) in built.losses.iter() {
            say(format_args!("note: {}", LossText(loss, lost)));
        }
        if let Some(digest) = built.digest {
            writeln!(stdout(), "{digest} {}", printable(&self.image))?;
        }
        Ok(Outcome::Good)
    }

    fn options(&self) -> BuildOptions {
        let mut options = BuildOptions::default();
        options.volume_name = self.volume_name.clone();
        options.block_size = self.block_size.0.unwrap_or_default();
        options.seal = (!self.no_seal).then(|| self.tree_args.params());
        options.replace = self.force;
        options.widen_permissions = self.losses.widen_permissions;
        options.refused_losses = match self.losses.strict.as_deref() {
            None => RefusedLosses::None,
            Some([]) => RefusedLosses::All,
            Some(losses) => RefusedLosses::These(losses.to_vec()),
        };
        options
    }
}

fn parse_loss(text: &str) -> Result<Loss, String> {
    // Privacy has its own option.
    let losses = || Loss::ALL.into_iter().filter(|loss| *loss != Loss::Privacy);
    let loss = losses().find(|loss| loss.name() == text);
    loss.ok_or_else(|| {
        let names: Vec<_> = losses().map(Loss::name).collect();
        format!("the losses are {}", names.join(", "))
    })
}
