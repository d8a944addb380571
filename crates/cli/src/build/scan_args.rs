use std::env;

use anyhow::Result;
use clap::Args;
use verimount::{
    Timestamp,
    options::{AttributeChoice, Exclude, Links, Owner, ScanOptions, Times, Whiteouts},
};

use super::time::{parse_epoch, parse_time};
use crate::{message::wrong_usage, options::one_of};

/// The variable of reproducible builds.
const SOURCE_DATE_EPOCH: &str = "SOURCE_DATE_EPOCH";

/// What of a directory or archive is taken, and what is changed in it.
#[derive(Args)]
pub(crate) struct ScanArgs {
    /// Leave out what matches GLOB, with all that is in it. GLOB is the path below DIR or in TAR: * and ? match within a name, **
    /// any number of directories. May be given several times
    #[arg(long, value_name = "GLOB", value_parser = parse_pattern)]
    exclude: Vec<String>,
    /// The modification time of everything, in seconds since 1970; by default the files' own, but none
    /// later than SOURCE_DATE_EPOCH if the environment has it
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_negative_numbers = true, conflicts_with = "model_signature")]
    mtime: Option<Timestamp>,
    /// Owner and group of everything, by their numbers
    #[arg(long, value_name = "UID:GID", conflicts_with = "model_signature")]
    owner: Option<Owner>,
    /// Make root the owner and group of everything
    #[arg(long, conflicts_with_all = ["owner", "model_signature"])]
    all_root: bool,
    /// The extended attributes to keep: all that are visible, those of users, or none. Access control lists and file
    /// capabilities are extended attributes, too; without its list, a file allows nobody more
    #[arg(long, value_name = "WHICH", default_value = "all", conflicts_with = "model_signature", value_parser = one_of(AttributeChoice::ALL, AttributeChoice::name))]
    xattrs: AttributeChoice,
    /// What the whiteouts of a container layer become in an image of its archive: those of overlayfs, for which the image
    /// is a lower layer, or files as they are. Those of a whole container image are always applied
    #[arg(long, value_name = "HOW", default_value = "overlay", value_parser = one_of(Whiteouts::ALL, Whiteouts::name))]
    whiteouts: Whiteouts,
    /// Follow the symbolic links in DIR, also out of it: what they lead to is in the image in their place
    #[arg(long)]
    dereference: bool,
}

/// Checks a pattern by itself, so that the wrong one is named.
fn parse_pattern(text: &str) -> Result<String, String> {
    match Exclude::new([text]) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

impl ScanArgs {
    pub(crate) fn options(&self) -> Result<ScanOptions> {
        let root = Owner { uid: 0, gid: 0 };
        Ok(ScanOptions {
            exclude: Exclude::new(&self.exclude).map_err(wrong_usage)?,
            times: self.times()?,
            owner: self.owner.or(self.all_root.then_some(root)),
            attributes: self.xattrs,
            whiteouts: self.whiteouts,
            links: if self.dereference {
                Links::Followed
            } else {
                Links::Kept
            },
            ..ScanOptions::default()
        })
    }

    fn times(&self) -> Result<Times> {
        if let Some(time) = self.mtime {
            return Ok(Times::All(time));
        }
        match env::var_os(SOURCE_DATE_EPOCH) {
            Some(latest) => match parse_epoch(&latest) {
                Some(latest) => Ok(Times::AtMost(latest)),
                None => Err(wrong_usage(format_args!(
                    "{SOURCE_DATE_EPOCH} is not a number of seconds since 1970"
                ))),
            },
            None => Ok(Times::Kept),
        }
    }
}
