use std::{
    fs::{File, OpenOptions},
    io::{Write, stdout},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use verimount_names::printable;
use verimount_source::{FileSource, ReadAt};
use verimount_verity::{Descriptor, Error as VerityError, SealLayout, Sealed};

use crate::{
    Outcome,
    interrupt::Interrupt,
    opened::{open_source, sidecar_path},
    options::{TreeArgs, all_processors},
    output_file::OutputFile,
    progress::bytes_bar,
};

/// Add a Merkle tree to a file of any kind; print its digest
#[derive(Args)]
pub(crate) struct Seal {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Append the tree to the file, instead of writing FILE.verity beside it
    #[arg(long)]
    append: bool,
    #[command(flatten)]
    tree_args: TreeArgs,
}

impl Seal {
    pub(crate) fn run(self) -> Result<Outcome> {
        let interrupt = Interrupt::watch()?;
        let descriptor = match self.append {
            true => self.append(&interrupt)?,
            false => self.beside(&interrupt)?,
        };
        let digest = descriptor.file_digest();
        writeln!(stdout(), "{digest} {}", printable(&self.file))?;
        Ok(Outcome::Good)
    }

    fn beside(&self, interrupt: &Interrupt) -> Result<Descriptor> {
        let source = open_source(&self.file)?;
        let path = sidecar_path(&self.file);
        let shown = || printable(&path).to_string();
        let output = OutputFile::new(&path).with_context(shown)?;
        let descriptor = self.write(&source, output.file(), SealLayout::Sidecar, interrupt)?;
        output.commit().with_context(shown)?;
        Ok(descriptor)
    }

    fn append(&self, interrupt: &Interrupt) -> Result<Descriptor> {
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
    ) -> Result<Descriptor> {
        let bar = bytes_bar(source.size(), "sealing");
        let params = self.tree_args.params();
        let threads = all_processors();
        let sealed = verimount_verity::seal(source, file, layout, &params, threads, &mut |bytes| {
            bar.inc(bytes);
            interrupt.go_on()
        });
        bar.finish_and_clear();
        sealed.with_context(|| printable(&self.file).to_string())
    }
}

fn open_to_append(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}
