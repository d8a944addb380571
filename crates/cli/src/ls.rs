mod date;
mod entry;
mod json;
mod long;

use std::{
    io::{BufWriter, Write, stdout},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

use anyhow::Result;
use clap::{Args, ValueHint};
use verimount::{DirEntry, Location};
use verimount_host::printable;

use self::{entry::Entry, json::JsonEntry, long::Long};
use crate::{
    Outcome,
    content_args::{ContentArgs, say_mirrors},
    json::json_line,
    options::location,
};

/// List the contents of an image, without mounting it
///
/// All data read is verified. Give --digest, --root-hash or --key to also make sure that it is the
/// right image.
///
/// Each name takes one line: a backslash is written as \\, a line feed as \n, and other unprintable
/// bytes as \xHH, which printf %b decodes. All commands print names this way.
#[derive(Args)]
pub(crate) struct Ls {
    /// The image, its URL, or its name in a registry or object store
    #[arg(value_name = "IMAGE", value_parser = location(), value_hint = ValueHint::AnyPath)]
    image: Location,
    /// List only this file or directory and its contents
    #[arg(value_name = "PATH", default_value = "/", hide_default_value = true)]
    path: PathBuf,
    /// Show each file like ls -ln --time-style=full-iso: type and permissions (a plus sign tells of an
    /// access control list), links, owner, group, size or device, modification time in UTC, path, and
    /// the target of a symbolic link
    #[arg(long, short)]
    long: bool,
    /// Show each file as a JSON object on a line of its own, with all attributes
    #[arg(long, conflicts_with = "long")]
    json: bool,
    /// Print each path as it is, without quoting it, and end it with a NUL byte, as xargs -0 reads it
    #[arg(long, short = '0', conflicts_with_all = ["long", "json"])]
    null: bool,
    #[command(flatten)]
    content: ContentArgs,
}

impl Ls {
    pub(crate) fn run(self) -> Result<Outcome> {
        let content = self.content.open(&self.image)?;
        let image = content.image()?;
        let path = self.path.strip_prefix("/").unwrap_or(&self.path);
        let path: PathBuf = path.components().collect();
        let mut out = BufWriter::new(stdout().lock());
        for entry in image.walk(&path)? {
            let entry = entry?;
            // The root has no name.
            if !entry.path().as_os_str().is_empty() {
                self.print(&mut out, &entry)?;
            }
        }
        out.flush()?;
        say_mirrors(&content);
        Ok(Outcome::Good)
    }

    fn print(&self, out: &mut impl Write, entry: &DirEntry) -> Result<()> {
        let path = entry.path();
        if self.null {
            out.write_all(path.as_os_str().as_bytes())?;
            return Ok(out.write_all(b"\0")?);
        }
        if !self.long && !self.json {
            return Ok(writeln!(out, "{}", printable(path))?);
        }
        let entry = Entry::read(entry)?;
        if self.json {
            writeln!(out, "{}", json_line(&JsonEntry::new(&entry))?)?;
        } else {
            writeln!(out, "{}", Long(&entry))?;
        }
        Ok(())
    }
}
