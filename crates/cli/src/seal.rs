use std::{
    fs::{File, OpenOptions},
    io::{Write, stdout},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use verimount_names::printable;
use verimount_source::{FileSource, ReadAt};
use verimount_verity::{
    Descriptor, Error as VerityError, Identity, SealLayout, Sealed,
    dm_verity::{self, SealedDevice},
};

use crate::{
    Outcome,
    interrupt::Interrupt,
    message::say,
    opened::{open_source, sidecar_path},
    options::{TreeArgs, all_processors, parse_size},
    output_file::OutputFile,
    progress::bytes_bar,
};

/// Add a Merkle tree to a file of any kind; print its digest, or its root hash for dm-verity
#[derive(Args)]
pub(crate) struct Seal {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Append the tree to the file, instead of writing FILE.verity beside it
    #[arg(long)]
    append: bool,
    /// Which of the kernel's formats: fs-verity, or dm-verity, for which the root hash is printed
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::FsVerity)]
    format: Format,
    #[command(flatten)]
    tree_args: TreeArgs,
    /// Block size of the data, 512 to 64K, where it is not the tree's: dm-verity has two
    #[arg(long, value_name = "SIZE", value_parser = parse_data_block_size)]
    data_block_size: Option<dm_verity::BlockSize>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    FsVerity,
    DmVerity,
}

/// What whoever reads must know.
struct Made {
    /// As the format's own tool prints it.
    identity: Identity,
    /// Where in its file a dm-verity superblock is, in bytes.
    hash_offset: Option<u64>,
}

impl Seal {
    pub(crate) fn run(self) -> Result<Outcome> {
        if self.format == Format::FsVerity && self.data_block_size.is_some() {
            bail!("fs-verity has one block size for data and tree: give only --tree-block-size");
        }
        let interrupt = Interrupt::watch()?;
        let made = match self.append {
            true => self.append(&interrupt)?,
            false => self.beside(&interrupt)?,
        };
        if let (true, Some(offset)) = (self.append, made.hash_offset) {
            say(format_args!(
                "note: to read it, give --hash-offset {offset}"
            ));
        }
        writeln!(stdout(), "{} {}", made.identity, printable(&self.file))?;
        Ok(Outcome::Good)
    }

    fn beside(&self, interrupt: &Interrupt) -> Result<Made> {
        let source = open_source(&self.file)?;
        let path = sidecar_path(&self.file);
        let shown = || printable(&path).to_string();
        let output = OutputFile::new(&path).with_context(shown)?;
        let made = self.write(&source, output.file(), SealLayout::Sidecar, interrupt)?;
        output.commit().with_context(shown)?;
        Ok(made)
    }

    fn append(&self, interrupt: &Interrupt) -> Result<Made> {
        let shown = || printable(&self.file).to_string();
        let file = open_to_append(&self.file).with_context(shown)?;
        if !file.metadata().with_context(shown)?.is_file() {
            bail!(
                "{}: a tree can be appended only to a regular file",
                printable(&self.file)
            );
        }
        let source = Arc::new(FileSource::new(file.try_clone()?).with_context(shown)?);
        match Sealed::open_appended(source.clone()) {
            Ok(_) => return Err(VerityError::AlreadySealed).with_context(shown),
            Err(VerityError::Source(error)) => return Err(error).with_context(shown),
            Err(_) => {}
        }
        self.write(&source, &file, SealLayout::Appended, interrupt)
    }

    fn write(
        &self,
        source: &FileSource,
        file: &File,
        layout: SealLayout,
        interrupt: &Interrupt,
    ) -> Result<Made> {
        let bar = bytes_bar(source.size(), "sealing");
        let params = self.tree_args.params();
        let threads = all_processors();
        let mut progress = |bytes| {
            bar.inc(bytes);
            interrupt.go_on()
        };
        let made = match self.format {
            Format::FsVerity => {
                verimount_verity::seal(source, file, layout, &params, threads, &mut progress)
                    .map(Made::fs_verity)
            }
            Format::DmVerity => {
                let mut params = dm_verity::Params::from(params);
                params.data_block_size = self.data_block_size.unwrap_or(params.data_block_size);
                dm_verity::seal(source, file, layout, &params, threads, &mut progress)
                    .map(Made::dm_verity)
            }
        };
        bar.finish_and_clear();
        made.with_context(|| printable(&self.file).to_string())
    }
}

impl Made {
    fn fs_verity(descriptor: Descriptor) -> Self {
        Self {
            identity: Identity::FileDigest(descriptor.file_digest()),
            hash_offset: None,
        }
    }

    fn dm_verity(sealed: SealedDevice) -> Self {
        Self {
            identity: Identity::RootHash(sealed.root),
            hash_offset: Some(sealed.hash_offset),
        }
    }
}

fn parse_data_block_size(text: &str) -> Result<dm_verity::BlockSize, String> {
    dm_verity::BlockSize::new(parse_size(text)?).map_err(|error| error.to_string())
}

fn open_to_append(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}
