use std::io::{self, Write};

use anyhow::Result;
use clap::{Args, ValueHint};
use serde_json::{Value, json};
use verimount::{Difference, Location, diff};
use verimount_host::printable;

use crate::{
    Outcome,
    content_args::ContentArgs,
    json::shown,
    message::{counted, say, wrong_usage},
    options::location,
};

/// Say what of a sealed image or file is not in an older one: what pull --like would fetch
///
/// Only the Merkle trees are compared, and what names the files of an image is read. OLD is not
/// verified: what is wrong there would be fetched. The options say which content of NEW is trusted.
#[derive(Args)]
#[command(mut_arg("unverified", |arg| arg.hide(true)))]
pub(crate) struct Diff {
    /// The older sealed image or file, its URL, or its name in a registry or object store
    #[arg(value_name = "OLD", value_parser = location(), value_hint = ValueHint::AnyPath)]
    old: Location,
    /// The newer one
    #[arg(value_name = "NEW", value_parser = location(), value_hint = ValueHint::AnyPath)]
    new: Location,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    content: ContentArgs,
}

impl Diff {
    pub(crate) fn run(self) -> Result<Outcome> {
        if self.content.trust.is_unverified() {
            return Err(wrong_usage("--unverified contradicts diff"));
        }
        let new = self.content.open(&self.new)?;
        let options = self.content.reach(&self.old)?;
        let difference = diff(&self.old, &new, &options)?;
        if let Some(error) = &difference.unnamed {
            say(format_args!("note: not all files can be named: {error}"));
        }
        if !difference.names_all {
            say(format_args!("note: there are more files than are named"));
        }
        let json = self.json.then(|| self.to_json(&difference));
        Outcome::Good.report(json, |out| self.print(out, &difference))
    }

    fn to_json(&self, difference: &Difference) -> Value {
        json!({
            "old": self.old.to_string(),
            "new": self.new.to_string(),
            // Whether the trees are made with the same hash, block size and salt.
            "comparable": difference.is_comparable,
            "block_size": difference.block_size,
            "blocks": difference.blocks,
            "new_blocks": difference.new_blocks,
            "new_ranges": difference.new.len(),
            // Bytes of data, and of the tree.
            "size": difference.size,
            "tree_size": difference.tree_size,
            // Bytes that are fetched besides the tree, in how many ranges, and by how many requests.
            "fetched": difference.fetched,
            "fetched_ranges": difference.fetched_ranges,
            "requests": difference.requests,
            // The files with new contents, and whether these are all of them.
            "files": shown(&difference.files),
            "all_files": difference.names_all,
            // How many others have only metadata in new blocks.
            "other_files": difference.other_files,
            // Why some files are not named.
            "unnamed": difference.unnamed.as_ref().map(ToString::to_string),
        })
    }

    fn print(&self, out: &mut impl Write, difference: &Difference) -> io::Result<()> {
        if !difference.is_comparable {
            writeln!(
                out,
                "nothing is shared: the Merkle trees of {} and {} are made with another hash, block size or salt",
                self.old, self.new
            )?;
        }
        let Difference {
            new_blocks,
            blocks,
            block_size,
            ..
        } = difference;
        writeln!(
            out,
            "{new_blocks} of {blocks} blocks of {block_size} bytes are new, in {}",
            counted(difference.new.len() as u64, "range")
        )?;
        writeln!(
            out,
            "to fetch: {} bytes of {} in {}, and {} bytes of Merkle tree",
            difference.fetched,
            difference.size,
            counted(difference.requests, "request"),
            difference.tree_size
        )?;
        let (files, others) = (difference.files.len(), difference.other_files);
        if files > 0 || others > 0 {
            writeln!(
                out,
                "{} with contents in new blocks, {} with only metadata there:",
                counted(files as u64, "file"),
                counted(others as u64, "other")
            )?;
        }
        for path in &difference.files {
            writeln!(out, "  {}", printable(path))?;
        }
        Ok(())
    }
}
