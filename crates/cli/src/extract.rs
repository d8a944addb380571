use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::{self, OpenOptions},
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::{OpenOptionsExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use verimount_image::{Inode, RomfsTree, Tree};
use verimount_names::printable;
use verimount_romfs::{Node, NodeId, NodeKind};
use verimount_source::Scratch;

use crate::{
    Outcome,
    cat::copy_content,
    message::say,
    opened::Opened,
    options::{ReadArgs, TrustArgs},
    progress::bytes_bar,
};

/// Copy everything out of an image, without mounting it
///
/// All that is read is verified; with --digest, --root-hash or --key also whether it is the right image.
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
            bytes_left: tree.image().size().into(),
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
    /// How many more bytes there can be in files. In an image no two files share a byte, so all of
    /// them together are smaller than it; if files overlap, a small image could fill any disk.
    bytes_left: u64,
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
        let left = self.bytes_left.checked_sub(node.size.into());
        self.bytes_left = left.context(
            "its data overlaps that of other files: with it they have more bytes than the image",
        )?;
        match node.kind {
            NodeKind::Directory => {}
            NodeKind::File => self.file(target, node)?,
            NodeKind::Symlink => {
                let mut scratch = Scratch::default();
                let content = self.tree.readlink(inode(node), &mut scratch)?;
                symlink(OsStr::from_bytes(content), target)?;
            }
            NodeKind::BlockDevice { major, minor } => {
                self.special(target, node, FileType::BlockDevice, (major, minor))?;
            }
            NodeKind::CharDevice { major, minor } => {
                self.special(target, node, FileType::CharacterDevice, (major, minor))?;
            }
            NodeKind::Socket => self.special(target, node, FileType::Socket, (0, 0))?,
            NodeKind::Fifo => self.special(target, node, FileType::Fifo, (0, 0))?,
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

    fn special(
        &mut self,
        target: &Path,
        node: &Node,
        kind: FileType,
        device: (u16, u16),
    ) -> Result<()> {
        let mode = Mode::from_raw_mode(node.permissions().into());
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
