use std::{
    collections::HashMap,
    ffi::OsString,
    fs::{self, OpenOptions},
    io,
    os::unix::{
        ffi::OsStringExt,
        fs::{OpenOptionsExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use verimount_image::{Inode, RomfsTree};
use verimount_names::printable;
use verimount_romfs::{Node, NodeId, NodeKind};

use crate::{
    Outcome,
    cat::copy_content,
    message::say,
    opened::Opened,
    options::{ReadArgs, TrustArgs},
    progress::bytes_bar,
};

/// Copy everything out of an image, verified, without mounting it
#[derive(Args)]
pub(crate) struct Extract {
    /// The image
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// The directory to fill: a new or an empty one
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    read: ReadArgs,
}

impl Extract {
    pub(crate) fn run(self) -> Result<Outcome> {
        let opened = Opened::new(&self.image, &self.trust, &self.read)?;
        let tree = opened.required_image()?;
        make_empty(&self.directory)?;
        let bar = bytes_bar(tree.image().size().into(), "extracting");
        let mut extraction = Extraction {
            tree: &tree,
            root: &self.directory,
            extracted: HashMap::new(),
            skipped: 0,
        };
        tree.image().walk(|path, node| {
            bar.inc(node.size.into());
            let target = extraction.root.join(path);
            extraction
                .entry(&target, node)
                .with_context(|| printable(&target).to_string())
        })?;
        bar.finish_and_clear();
        if extraction.skipped > 0 {
            let count = extraction.skipped;
            say(format_args!(
                "note: left out {count} device nodes, which only root can make"
            ));
        }
        Ok(Outcome::Good)
    }
}

/// In an empty directory that nobody else writes to, names without slashes that are given only
/// once each cannot lead outside.
fn make_empty(directory: &Path) -> Result<()> {
    let shown = || printable(directory).to_string();
    match fs::create_dir(directory) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match directory.read_dir().with_context(shown)?.next() {
                None => Ok(()),
                Some(_) => bail!("{} is not empty", printable(directory)),
            }
        }
        Err(error) => Err(error).with_context(shown),
    }
}

struct Extraction<'a> {
    tree: &'a RomfsTree,
    root: &'a Path,
    /// Where the files are that may have more names, all but directories.
    extracted: HashMap<NodeId, PathBuf>,
    skipped: u64,
}

impl Extraction<'_> {
    fn entry(&mut self, target: &Path, node: &Node) -> Result<()> {
        if node.kind == NodeKind::Directory {
            return Ok(fs::create_dir(target)?);
        }
        if let Some(first) = self.extracted.get(&node.id) {
            return Ok(fs::hard_link(first, target)?);
        }
        match node.kind {
            NodeKind::Directory => {}
            NodeKind::File => self.file(target, node)?,
            NodeKind::Symlink => {
                let mut content = Vec::new();
                copy_content(self.tree, inode(node), &mut content)?;
                symlink(OsString::from_vec(content), target)?;
            }
            NodeKind::BlockDevice { major, minor } => {
                self.special(target, FileType::BlockDevice, (major, minor))?;
            }
            NodeKind::CharDevice { major, minor } => {
                self.special(target, FileType::CharacterDevice, (major, minor))?;
            }
            NodeKind::Socket => self.special(target, FileType::Socket, (0, 0))?,
            NodeKind::Fifo => self.special(target, FileType::Fifo, (0, 0))?,
        }
        self.extracted.insert(node.id, target.to_owned());
        Ok(())
    }

    fn file(&self, target: &Path, node: &Node) -> Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(target)?;
        copy_content(self.tree, inode(node), &mut file)?;
        let permissions = fs::Permissions::from_mode(node.permissions().into());
        Ok(file.set_permissions(permissions)?)
    }

    fn special(&mut self, target: &Path, kind: FileType, device: (u16, u16)) -> Result<()> {
        let mode = Mode::from_raw_mode(0o600);
        let device = makedev(device.0.into(), device.1.into());
        match mknodat(CWD, target, kind, mode, device) {
            Err(rustix::io::Errno::PERM) => self.skipped += 1,
            other => other?,
        }
        Ok(())
    }
}

fn inode(node: &Node) -> Inode {
    Inode(node.id.get().into())
}
