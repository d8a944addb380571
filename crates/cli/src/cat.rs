use std::{
    io::{self, stdout},
    path::PathBuf,
};

use anyhow::{Result, bail};
use clap::{Args, ValueHint};
use verimount::{Error, Location, printable};

use crate::{Outcome, content_args::ContentArgs, options::location};

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
            let mut file = image.open_file(path)?;
            // The reason of a failed read is an error of the library.
            io::copy(&mut file, &mut stdout().lock()).map_err(|error| {
                let of_library = error.downcast::<Error>();
                of_library.map_or_else(anyhow::Error::from, anyhow::Error::from)
            })?;
        }
        Ok(Outcome::Good)
    }
}
