use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use verimount::extract;

use crate::{
    Outcome,
    interrupt::Interrupt,
    message::say,
    opened::open,
    options::{ReadArgs, TrustArgs},
    progress::with_progress,
};

/// Extract all files of an image, without mounting it
///
/// All data read is verified. Give --digest, --root-hash or --key to also make sure that it is the
/// right image.
#[derive(Args)]
pub(crate) struct Extract {
    /// The image
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// The directory to extract to: new or empty
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    read: ReadArgs,
}

impl Extract {
    pub(crate) fn run(self) -> Result<Outcome> {
        let opened = open(&self.image, &self.trust, &self.read)?;
        let interrupt = Interrupt::watch()?;
        let extracted =
            with_progress(&interrupt, |watch| extract(&opened, &self.directory, watch))?;
        if extracted.skipped_devices > 0 {
            say(format_args!(
                "note: skipped {} device nodes, which only root can create",
                extracted.skipped_devices
            ));
        }
        Ok(Outcome::Good)
    }
}
