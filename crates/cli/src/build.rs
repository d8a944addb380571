use std::{
    io::{BufWriter, Write, stdout},
    ops::ControlFlow,
    path::PathBuf,
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use verimount_names::printable;
use verimount_romfs::{BlockSize, Options, Plan, VolumeName, plan};
use verimount_scan::{Options as ScanOptions, scan};
use verimount_source::{FileSource, ReadAt};
use verimount_verity::{SealLayout, seal};

use crate::{
    Outcome,
    interrupt::Interrupt,
    losses::{self, LossArgs},
    options::{Auto, TreeArgs, all_processors, parse_image_block_size, parse_volume_name},
    output_file::{OutputFile, folder_of},
    progress::bytes_bar,
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

/// The page size of most machines, and the largest block size of the kernel's romfs reader.
const AUTO_BLOCK_SIZE: u64 = 4096;

impl Build {
    pub(crate) fn run(self) -> Result<Outcome> {
        let options = Options {
            volume_name: self.volume_name.clone(),
            block_size: match self.block_size.0 {
                Some(size) => size,
                None => BlockSize::try_from(AUTO_BLOCK_SIZE)?,
            },
        };
        self.refuse_inside_tree()?;
        self.refuse_to_replace()?;
        let interrupt = Interrupt::watch()?;
        let plan = plan(scan(&self.tree, &ScanOptions::default())?, &options)?;
        self.losses.check(&self.tree, plan.losses())?;
        let shown = || printable(&self.image).to_string();
        let output = OutputFile::replacing(&self.image).with_context(shown)?;
        write_image(&plan, &output, &interrupt)?;
        let digest = match self.no_seal {
            true => None,
            false => Some(self.seal(&output, &interrupt).with_context(shown)?),
        };
        output.commit().with_context(shown)?;
        losses::report(plan.losses());
        if let Some(digest) = digest {
            writeln!(stdout(), "{digest} {}", printable(&self.image))?;
        }
        Ok(Outcome::Good)
    }

    /// An image inside the tree would become part of the next image.
    fn refuse_inside_tree(&self) -> Result<()> {
        // A missing path is reported when it is opened later.
        let folder = folder_of(&self.image).canonicalize();
        if let (Ok(tree), Ok(folder)) = (self.tree.canonicalize(), folder)
            && folder.starts_with(&tree)
        {
            bail!(
                "{}: the image cannot be inside the directory that it is built from",
                printable(&self.image)
            );
        }
        Ok(())
    }

    /// Refuses to replace a file that is neither an image nor empty, which is probably a mistake.
    fn refuse_to_replace(&self) -> Result<()> {
        if self.force || !self.image.is_file() {
            return Ok(());
        }
        let shown = || printable(&self.image).to_string();
        let older = Arc::new(FileSource::open(&self.image).with_context(shown)?);
        match verimount::image::open(older.clone()) {
            Ok(None) if older.size() != 0 => bail!(
                "{}: it exists and is not an image; use --force to replace it",
                shown()
            ),
            _ => Ok(()),
        }
    }

    fn seal(&self, output: &OutputFile, interrupt: &Interrupt) -> Result<String> {
        let source = Arc::new(FileSource::new(output.file().try_clone()?)?);
        let descriptor = seal(
            &*source,
            output.file(),
            SealLayout::Appended,
            &self.tree_args.params(),
            all_processors(),
            &mut |_| interrupt.go_on(),
        )?;
        Ok(descriptor.file_digest().to_string())
    }
}

fn write_image(plan: &Plan, output: &OutputFile, interrupt: &Interrupt) -> Result<()> {
    let bar = bytes_bar(plan.image_size(), "building");
    let mut out = Interruptible {
        inner: BufWriter::with_capacity(1 << 20, output.file()),
        interrupt,
    };
    let written = plan.write_to(&mut out, &mut |bytes| bar.inc(bytes));
    bar.finish_and_clear();
    if interrupt.go_on().is_break() {
        bail!("interrupted; no image was made");
    }
    written?;
    Ok(())
}

/// A writer that fails once the user has interrupted the command.
struct Interruptible<'a, W> {
    inner: W,
    interrupt: &'a Interrupt,
}

impl<W: Write> Write for Interruptible<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.interrupt.go_on() {
            ControlFlow::Continue(()) => self.inner.write(bytes),
            // Not `ErrorKind::Interrupted`, which would make the caller retry.
            ControlFlow::Break(()) => Err(std::io::Error::other("interrupted")),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}
