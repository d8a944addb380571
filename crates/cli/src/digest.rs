use std::{
    io::{Write, stdout},
    path::{Path, PathBuf},
};

use anyhow::Result;
use clap::Args;
use verimount::{DigestOptions, FoundFormat, FoundSeal, OpenOptions, describe, digest};
use verimount_host::printable;

use crate::{
    Outcome,
    interrupt::go_on,
    message::{say, say_failed},
    options::TreeArgs,
    progress::watch,
};

/// Print fs-verity digests of files, as `fsverity digest` does
#[derive(Args)]
pub(crate) struct Digest {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print only the hexadecimal digest
    #[arg(long)]
    compact: bool,
    #[command(flatten)]
    tree_args: TreeArgs,
}

impl Digest {
    pub(crate) fn run(self) -> Result<Outcome> {
        let mut outcome = Outcome::Good;
        for file in &self.files {
            let options = DigestOptions {
                params: self.tree_args.params(),
                watcher: watch()?,
            };
            let written = match digest(file, &options) {
                Ok(digest) => {
                    note_seal(file);
                    if self.compact {
                        writeln!(stdout(), "{}", digest.digest())
                    } else {
                        writeln!(stdout(), "{digest} {}", printable(file))
                    }
                }
                Err(error) if go_on().is_break() => return Err(error.into()),
                // Continue with the other files after an error.
                Err(error) => {
                    let error = error.into();
                    outcome = Outcome::of(&error);
                    say_failed(&error);
                    continue;
                }
            };
            if written.is_err() {
                return outcome.reported(written);
            }
        }
        Ok(outcome)
    }
}

/// Says of a file that ends with a seal that readers accept another digest.
fn note_seal(file: &Path) {
    let found = describe(file, &OpenOptions::new()).ok();
    let Some(FoundSeal {
        format: FoundFormat::FsVerity(sealed),
        sidecar: None,
        ..
    }) = found.and_then(|found| found.seal)
    else {
        return;
    };
    say(format_args!(
        "note: {} ends with a seal, and this is the digest of all of it; --digest takes that of its content, {}",
        printable(file),
        sealed.file_digest()
    ));
}
