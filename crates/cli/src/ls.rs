use std::{
    io::{BufWriter, Write, stdout},
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use clap::Args;
use verimount_image::{Error as ImageError, RomfsTree};
use verimount_names::printable;
use verimount_romfs::{Node, NodeKind};

use crate::{
    Outcome,
    cat::resolve,
    opened::Opened,
    options::{ReadArgs, TrustArgs},
};

/// List what is in an image, without mounting it
///
/// All that is read is verified; with --digest, --root-hash or --key also whether it is the right image.
///
/// Each name takes one line: backslashes are written \\, line feeds \n, and other bytes that are no
/// plain text \xHH, which printf %b undoes. All commands write names like this.
#[derive(Args)]
pub(crate) struct Ls {
    /// The image
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Only this file or directory, and what is in it
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
        let opened = Opened::new(&self.image, &self.trust, &self.read)?;
        let tree = opened.required_image()?;
        let node = self.wanted(&tree)?;
        let path = self.path.strip_prefix("/").unwrap_or(&self.path);
        let path: PathBuf = path.components().collect();
        let mut out = BufWriter::new(stdout().lock());
        if node.id != tree.image().root() {
            self.print(&mut out, &path, &node)?;
        }
        if node.kind == NodeKind::Directory {
            tree.image().walk_below(node.id, path, |path, node| {
                self.print(&mut out, path, node)
                    .map_err(anyhow::Error::from)
            })?;
        }
        out.flush()?;
        Ok(Outcome::Good)
    }

    fn wanted(&self, tree: &RomfsTree) -> Result<Node> {
        match resolve(tree, &self.path) {
            Ok(inode) => Ok(tree.node(inode)?),
            Err(ImageError::NotFound | ImageError::NotADirectory) => bail!(
                "{}: there is no {}",
                printable(&self.image),
                printable(&self.path)
            ),
            Err(error) => Err(error.into()),
        }
    }

    fn print(&self, out: &mut impl Write, path: &Path, node: &Node) -> std::io::Result<()> {
        if self.long {
            let (letter, size) = match node.kind {
                NodeKind::Directory => ('d', "-".to_owned()),
                NodeKind::File => ('-', node.size.to_string()),
                NodeKind::Symlink => ('l', node.size.to_string()),
                NodeKind::BlockDevice { major, minor } => ('b', format!("{major},{minor}")),
                NodeKind::CharDevice { major, minor } => ('c', format!("{major},{minor}")),
                NodeKind::Socket => ('s', "-".to_owned()),
                NodeKind::Fifo => ('p', "-".to_owned()),
            };
            write!(out, "{letter} {:04o} {size:>12} ", node.permissions())?;
        }
        writeln!(out, "{}", printable(path))
    }
}
