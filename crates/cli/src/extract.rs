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
use rustix::fs::{CWD, FileType as SystemType, Mode, mknodat};
use verimount_names::printable;
use verimount_source::Scratch;
use verimount_tree::{Attr, FileType, NodeId, Permissions, Tree, walk};

use crate::{
    Outcome,
    cat::copy_content,
    message::say,
    opened::open,
    options::{ReadArgs, TrustArgs},
    progress::bytes_bar,
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
        let tree = opened.tree()?;
        make_empty(&self.directory)?;
        let size = tree.usage().bytes;
        let bar = bytes_bar(size, "extracting");
        let mut extraction = Extraction {
            tree: &*tree,
            root: &self.directory,
            bytes_left: size,
            extracted: HashMap::new(),
            skipped: 0,
        };
        walk(&*tree, NodeId::ROOT, PathBuf::new(), |path, attr| {
            bar.inc(attr.size);
            let target = extraction.root.join(path);
            extraction
                .entry(&target, attr)
                .with_context(|| printable(&target).to_string())
        })?;
        bar.finish_and_clear();
        if extraction.skipped > 0 {
            let count = extraction.skipped;
            say(format_args!(
                "note: skipped {count} device nodes, which only root can create"
            ));
        }
        Ok(Outcome::Good)
    }
}

/// Creates the directory, or checks that it is empty. In an empty directory that nobody else writes
/// to, unique names without slashes cannot lead outside.
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
    tree: &'a dyn Tree,
    root: &'a Path,
    /// The remaining limit on file data, in bytes. In a valid image files do not overlap, so
    /// together they are smaller than the image; with overlapping files, a small image could fill
    /// any disk.
    bytes_left: u64,
    /// The path of each extracted node except directories, for further hard links to it.
    extracted: HashMap<NodeId, PathBuf>,
    skipped: u64,
}

impl Extraction<'_> {
    fn entry(&mut self, target: &Path, attr: &Attr) -> Result<()> {
        if attr.is_directory() {
            return Ok(fs::create_dir(target)?);
        }
        if let Some(first) = self.extracted.get(&attr.node) {
            return Ok(fs::hard_link(first, target)?);
        }
        let left = self.bytes_left.checked_sub(attr.size);
        self.bytes_left = left.context(
            "its data overlaps that of other files: together they exceed the size of the image",
        )?;
        match attr.file_type {
            FileType::Directory => {}
            FileType::RegularFile => self.file(target, attr)?,
            FileType::Symlink => {
                let mut scratch = Scratch::default();
                let content = self.tree.readlink(attr.node, &mut scratch)?;
                symlink(OsStr::from_bytes(content), target)?;
            }
            FileType::BlockDevice => self.special(target, attr, SystemType::BlockDevice)?,
            FileType::CharDevice => self.special(target, attr, SystemType::CharacterDevice)?,
            FileType::Socket => self.special(target, attr, SystemType::Socket)?,
            FileType::Fifo => self.special(target, attr, SystemType::Fifo)?,
        }
        self.extracted.insert(attr.node, target.to_owned());
        Ok(())
    }

    fn file(&self, target: &Path, attr: &Attr) -> Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(target)?;
        copy_content(self.tree, attr.node, &mut file)?;
        Ok(file.set_permissions(fs::Permissions::from_mode(mode(attr)))?)
    }

    fn special(&mut self, target: &Path, attr: &Attr, file_type: SystemType) -> Result<()> {
        let mode = Mode::from_raw_mode(mode(attr));
        match mknodat(CWD, target, file_type, mode, attr.rdev.encoded().into()) {
            Err(rustix::io::Errno::PERM) => self.skipped += 1,
            other => other?,
        }
        Ok(())
    }
}

/// The permissions that a copy gets. It belongs to who makes it, so set-id bits would be theirs.
fn mode(attr: &Attr) -> u32 {
    let copied = attr.permissions.intersection(Permissions::new(0o777));
    copied.bits().into()
}
