use std::{
    io::{Write, stdout},
    path::PathBuf,
};

use anyhow::{Result, bail};
use clap::{Args, ValueHint};
use verimount::{File, Location};
use verimount_host::printable;

use crate::{
    Outcome,
    content_args::{ContentArgs, say_mirrors},
    options::location,
};

/// How many bytes are read and written at a time.
const PIECE: usize = 1 << 20;

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
    content: ContentArgs,
}

impl Cat {
    pub(crate) fn run(self) -> Result<Outcome> {
        let content = self.content.open(&self.image)?;
        let image = content.image()?;
        for path in &self.paths {
            if !image.symlink_metadata(path)?.is_file() {
                bail!("{}: it is not a regular file", printable(path));
            }
            write_all(&image.open_file(path)?)?;
        }
        say_mirrors(&content);
        Ok(Outcome::Good)
    }
}

fn write_all(file: &File) -> Result<()> {
    let (mut out, mut buf) = (stdout().lock(), vec![0; PIECE]);
    let mut offset = 0;
    loop {
        match file.read_at(&mut buf, offset)? {
            0 => return Ok(()),
            read => {
                out.write_all(&buf[..read])?;
                offset += read as u64;
            }
        }
    }
}
