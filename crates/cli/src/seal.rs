use std::{
    fs::File,
    io::{Write, stdout},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use verimount_names::printable;
use verimount_source::{FileSource, ReadAt};
use verimount_verity::{
    Descriptor, Error as VerityError, Identity, SealLayout, Sealed, append_seal,
    dm_verity::{self, HashArea, SealedDevice},
    is_signed, seal,
};

use crate::{
    Outcome,
    interrupt::Interrupt,
    message::{say, wrong_usage},
    opened::{open_source, open_to_change, sidecar_path},
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
    /// Append the tree to the file instead of writing FILE.verity
    ///
    /// If interrupted in any way, the file is unchanged or marked as unfinished: no other command
    /// then reads it as data, and running the same command again completes it.
    #[arg(long)]
    append: bool,
    /// Replace FILE.verity even if it is signed or not a seal
    #[arg(long, conflicts_with = "append")]
    force: bool,
    /// The kernel's format to use: fs-verity prints the digest, dm-verity the root hash
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::FsVerity)]
    format: Format,
    #[command(flatten)]
    tree_args: TreeArgs,
    /// For dm-verity: block size of the data, 512 to 64K, if different from that of the tree
    #[arg(long, value_name = "SIZE", value_parser = parse_data_block_size)]
    data_block_size: Option<dm_verity::BlockSize>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    FsVerity,
    DmVerity,
}

/// What a reader needs to know.
struct Made {
    /// The digest or root hash, as the format's own tool prints it.
    identity: Identity,
    /// The offset of the dm-verity superblock in its file, in bytes.
    hash_offset: Option<u64>,
}

impl Seal {
    pub(crate) fn run(self) -> Result<Outcome> {
        if self.format == Format::FsVerity && self.data_block_size.is_some() {
            return Err(wrong_usage(
                "fs-verity uses one block size for data and tree: give only --tree-block-size",
            ));
        }
        let interrupt = Interrupt::watch()?;
        let made = match self.append {
            true => self.append(&interrupt)?,
            false => self.beside(&interrupt)?,
        };
        if let (true, Some(offset)) = (self.append, made.hash_offset) {
            say(format_args!(
                "note: reading it requires --hash-offset {offset}"
            ));
        }
        writeln!(stdout(), "{} {}", made.identity, printable(&self.file))?;
        Ok(Outcome::Good)
    }

    fn beside(&self, interrupt: &Interrupt) -> Result<Made> {
        let source = Arc::new(open_source(&self.file)?);
        self.look_at_end(source.clone())?;
        let path = sidecar_path(&self.file);
        let shown = || printable(&path).to_string();
        let output = OutputFile::replacing(&path).with_context(shown)?;
        self.refuse_to_replace(&path, source.clone())?;
        let made = self.make(&source, output.file(), SealLayout::Sidecar, interrupt)?;
        output.commit().with_context(shown)?;
        Ok(made)
    }

    /// Prints a note if the file ends with a seal; fails if it ends with an unfinished one.
    fn look_at_end(&self, source: Arc<FileSource>) -> Result<()> {
        let shown = || printable(&self.file).to_string();
        match Sealed::open_appended(source) {
            Ok(_) => say(format_args!(
                "note: {} ends with a seal, which takes precedence over the one beside it",
                shown()
            )),
            Err(error @ VerityError::Unfinished { .. }) => return Err(error).with_context(shown),
            Err(_) => {}
        }
        Ok(())
    }

    /// Refuses to replace a file that sealing could not recreate.
    fn refuse_to_replace(&self, sidecar: &Path, data: Arc<FileSource>) -> Result<()> {
        if self.force || !sidecar.exists() {
            return Ok(());
        }
        let seal = Arc::new(open_source(sidecar)?);
        let is_hash_area = || {
            let area = HashArea::open_beside(data, seal.clone(), 0);
            !matches!(area, Err(VerityError::NoSuperblock))
        };
        match is_signed(&*seal) {
            Ok(true) => bail!(
                "{} is signed; --force replaces it with an unsigned seal",
                printable(sidecar)
            ),
            Err(VerityError::NotSealed) if !is_hash_area() => {
                bail!(
                    "{} is not a seal; use --force to overwrite it",
                    printable(sidecar)
                )
            }
            _ => Ok(()),
        }
    }

    fn append(&self, interrupt: &Interrupt) -> Result<Made> {
        let shown = || printable(&self.file).to_string();
        let file = open_to_change(&self.file)?;
        let source = Arc::new(FileSource::new(file.try_clone()?).with_context(shown)?);
        match Sealed::open_appended(source.clone()) {
            Ok(_) => return Err(VerityError::AlreadySealed).with_context(shown),
            Err(VerityError::Source(error)) => return Err(error).with_context(shown),
            Err(VerityError::Unfinished { data_size }) => say(format_args!(
                "note: {}: sealing was interrupted; completing the seal of its {data_size} bytes of data",
                shown()
            )),
            Err(_) => {}
        }
        self.make(&source, &file, SealLayout::Appended, interrupt)
    }

    fn make(
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
            Format::FsVerity => match layout {
                SealLayout::Sidecar => seal(source, file, layout, &params, threads, &mut progress),
                SealLayout::Appended => append_seal(source, file, &params, threads, &mut progress),
            }
            .map(Made::fs_verity),
            Format::DmVerity => {
                let mut params = dm_verity::Params::from(params);
                params.data_block_size = self.data_block_size.unwrap_or(params.data_block_size);
                match layout {
                    SealLayout::Sidecar => {
                        dm_verity::seal(source, file, layout, &params, threads, &mut progress)
                    }
                    SealLayout::Appended => {
                        dm_verity::append_seal(source, file, &params, threads, &mut progress)
                    }
                }
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
