use std::{
    io::{Write, stdout},
    path::{Path, PathBuf},
};

use anyhow::{Context, Error, Result, anyhow};
use clap::{Args, ValueHint};
use verimount::{
    CopyError, Location, copy_content,
    tree::{FileType, Tree, resolve},
};
use verimount_names::printable;

use crate::{
    Outcome,
    device_args::DeviceArgs,
    opened::open,
    options::{ReadArgs, TrustArgs, location},
    registry_args::RegistryArgs,
};

/// Write files of an image to standard output, without mounting it
///
/// All data read is verified. Give --digest, --root-hash or --key to also make sure that it is the
/// right image.
#[derive(Args)]
pub(crate) struct Cat {
    /// The image, its URL, or its name in a registry or object store
    #[arg(value_name = "IMAGE", value_parser = location(), value_hint = ValueHint::AnyPath)]
    image: Location,
    /// The files, relative to the image's root; symbolic links are not followed
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    devices: DeviceArgs,
    #[command(flatten)]
    registry: RegistryArgs,
}

impl Cat {
    pub(crate) fn run(self) -> Result<Outcome> {
        let opened = open(
            &self.registry.apply(&self.image),
            &self.trust,
            &self.read,
            &self.devices,
        )?;
        let tree = opened.tree()?;
        for path in &self.paths {
            write_file(&*tree, path, &mut stdout().lock())?;
        }
        Ok(Outcome::Good)
    }
}

fn write_file(tree: &dyn Tree, path: &Path, out: &mut impl Write) -> Result<()> {
    let shown = || printable(path).to_string();
    let node = resolve(tree, path).with_context(shown)?;
    let attr = tree.attr(node).with_context(shown)?;
    if attr.file_type != FileType::RegularFile {
        return Err(anyhow!("it is not a regular file")).with_context(shown);
    }
    copy_content(tree, node, out).map_err(|error| match error {
        CopyError::Read(error) => Error::from(error).context(shown()),
        CopyError::Write(error) => error.into(),
        other => other.into(),
    })
}
