use std::{
    io::{Write, stdout},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use verimount_names::printable;
use verimount_source::Scratch;
use verimount_tree::{FileType, NodeId, Tree, resolve};

use crate::{
    Outcome,
    opened::open,
    options::{ReadArgs, TrustArgs},
};

/// How much is read, verified and written at a time.
const CHUNK: usize = 1 << 20;

/// Write files of an image to standard output, without mounting it
///
/// All data read is verified. Give --digest, --root-hash or --key to also make sure that it is the
/// right image.
#[derive(Args)]
pub(crate) struct Cat {
    /// The image
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// The files, relative to the image's root; symbolic links are not followed
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    read: ReadArgs,
}

impl Cat {
    pub(crate) fn run(self) -> Result<Outcome> {
        let opened = open(&self.image, &self.trust, &self.read)?;
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
    copy_content(tree, node, out).map_err(|error| match error.is::<std::io::Error>() {
        true => error,
        false => error.context(shown()),
    })
}

/// Writes the content of a file to `out`.
pub(crate) fn copy_content(tree: &dyn Tree, file: NodeId, out: &mut impl Write) -> Result<()> {
    let mut scratch = Scratch::default();
    let mut offset = 0;
    loop {
        let bytes = tree.read(file, offset, CHUNK, &mut scratch)?;
        if bytes.is_empty() {
            return Ok(());
        }
        out.write_all(bytes)?;
        offset += bytes.len() as u64;
    }
}
