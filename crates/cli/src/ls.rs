use std::{
    io::{BufWriter, Write, stdout},
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use clap::Args;
use verimount_names::printable;
use verimount_tree::{Attr, Error as TreeError, FileType, NodeId, Tree, resolve, walk};

use crate::{
    Outcome,
    opened::open,
    options::{ReadArgs, TrustArgs},
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
    /// The image
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// List only this file or directory and its contents
    #[arg(value_name = "PATH", default_value = "/", hide_default_value = true)]
    path: PathBuf,
    /// Show types, permissions and sizes
    #[arg(long, short)]
    long: bool,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    read: ReadArgs,
}

impl Ls {
    pub(crate) fn run(self) -> Result<Outcome> {
        let opened = open(&self.image, &self.trust, &self.read)?;
        let tree = opened.tree()?;
        let attr = self.wanted(&*tree)?;
        let path = self.path.strip_prefix("/").unwrap_or(&self.path);
        let path: PathBuf = path.components().collect();
        let mut out = BufWriter::new(stdout().lock());
        if attr.node != NodeId::ROOT {
            self.print(&mut out, &path, &attr)?;
        }
        if attr.is_directory() {
            walk(&*tree, attr.node, path, |path, attr| {
                self.print(&mut out, path, attr)
                    .map_err(anyhow::Error::from)
            })?;
        }
        out.flush()?;
        Ok(Outcome::Good)
    }

    fn wanted(&self, tree: &dyn Tree) -> Result<Attr> {
        match resolve(tree, &self.path) {
            Ok(node) => Ok(tree.attr(node)?),
            Err(TreeError::NotFound | TreeError::NotADirectory) => bail!(
                "{}: no such file or directory in the image: {}",
                printable(&self.image),
                printable(&self.path)
            ),
            Err(error) => Err(error.into()),
        }
    }

    fn print(&self, out: &mut impl Write, path: &Path, attr: &Attr) -> std::io::Result<()> {
        if self.long {
            let device = || format!("{},{}", attr.rdev.major(), attr.rdev.minor());
            let (letter, size) = match attr.file_type {
                FileType::Directory => ('d', "-".to_owned()),
                FileType::RegularFile => ('-', attr.size.to_string()),
                FileType::Symlink => ('l', attr.size.to_string()),
                FileType::BlockDevice => ('b', device()),
                FileType::CharDevice => ('c', device()),
                FileType::Socket => ('s', "-".to_owned()),
                FileType::Fifo => ('p', "-".to_owned()),
            };
            let permissions = attr.permissions.bits();
            write!(out, "{letter} {permissions:04o} {size:>12} ")?;
        }
        writeln!(out, "{}", printable(path))
    }
}
