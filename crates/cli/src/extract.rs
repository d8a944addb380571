use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueHint};
use verimount::{ExtractOptions, Location, UnrestoredText};
use verimount_host::printable;

use crate::{
    Outcome,
    content_args::{ContentArgs, say_mirrors},
    message::say,
    options::{location, parse_size},
    progress::watch,
};

/// Extract all files of an image, without mounting it
///
/// All data read is verified. Give --digest, --root-hash or --key to also make sure that it is the
/// right image.
///
/// Hard links and holes are kept. From an EROFS image everything is restored that you may: owners,
/// permissions, times, extended attributes, access control lists, capabilities and devices, also
/// for DIR itself. Notes list what could not be restored. Files of a romfs image are yours.
#[derive(Args)]
pub(crate) struct Extract {
    /// The image, its URL, or its name in a registry or object store
    #[arg(value_name = "IMAGE", value_parser = location(), value_hint = ValueHint::AnyPath)]
    image: Location,
    /// The directory to extract to: new or empty
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Exit with an error if anything could not be restored
    #[arg(long)]
    strict: bool,
    /// The most bytes to write [default: the size of the image; of an EROFS image, whose files may
    /// share data, 100 times that]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,
    #[command(flatten)]
    content: ContentArgs,
}

impl Extract {
    pub(crate) fn run(self) -> Result<Outcome> {
        let opened = self.content.open(&self.image)?;
        let image = opened.image()?;
        let options = ExtractOptions {
            max_bytes: self.max_size,
            watcher: watch()?,
        };
        let extracted = image.extract(&self.directory, &options)?;
        drop(options);
        say_mirrors(&opened);
        for (kind, lost) in extracted.unrestored.iter() {
            say(format_args!("note: {}", UnrestoredText(kind, lost)));
        }
        if self.strict && !extracted.unrestored.is_empty() {
            bail!(
                "{}: not everything could be restored (--strict)",
                printable(&self.directory)
            );
        }
        Ok(Outcome::Good)
    }
}
