//! The images of a pair.

use std::{path::Path, process::Command};

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;
use verimount_support::command;

use super::pairs::Pair;
use crate::{
    lab::{Format, Lab, User, seconds},
    mounts::Sealed,
};

/// The size of their blocks, in bytes.
pub(super) const BLOCK: u64 = 4096;

/// How contents are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Lz4,
    Zstd,
}

impl Compression {
    pub(super) const ALL: [Self; 3] = [Self::None, Self::Lz4, Self::Zstd];

    fn name(self) -> &'static str {
        match self {
            Self::None => "uncompressed",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// The images of a pair. They are removed when this is dropped, with all that is beside them.
pub(super) struct Images {
    pub(super) title: String,
    /// The older one is here.
    pub(super) old: Sealed,
    /// The newer one on the servers.
    pub(super) new: Sealed,
    /// How they differ.
    pub(super) difference: Difference,
    /// Whether other programs are compared: uncompressed, what cannot be compressed is the same.
    pub(super) is_compared: bool,
    served: TempDir,
    _kept: TempDir,
}

impl Images {
    /// The file name of both: by that, rsync knows that one is like the other.
    pub(super) const NAME: &str = "updated.img";

    pub(super) fn build(lab: &Lab, pair: &Pair, compression: Compression) -> Result<Self> {
        let (kept, served) = (lab.new_folder()?, TempDir::new_in(lab.path("www"))?);
        let build = |tree, folder: &TempDir| {
            let image = folder.path().join(Self::NAME);
            Sealed::built(&mut build(lab, tree, compression, &image), image)
        };
        let (old, new) = (build(&pair.old, &kept)?, build(&pair.new, &served)?);
        Ok(Self {
            title: format!("{}, {}", pair.name, compression.name()),
            difference: Difference::of(lab, &old, &new)?,
            old,
            new,
            is_compared: pair.is_compressible || compression == Compression::None,
            served,
            _kept: kept,
        })
    }

    /// The path on the servers of the newer image, or of what has its name and this `end`.
    pub(super) fn on_server(&self, end: &str) -> String {
        let folder = self.served.path().file_name().unwrap_or_default();
        format!("{}/{}{end}", folder.display(), Self::NAME)
    }

    /// Puts the newer one into the page cache, from which servers send it, and nothing else.
    pub(super) fn make_cold(&self, lab: &Lab) -> Result<()> {
        lab.make_cold(0)?;
        seconds(Command::new("cat").arg(&self.new.source))?;
        Ok(())
    }
}

/// A command that builds and seals an image.
pub(super) fn build(lab: &Lab, tree: &Path, compression: Compression, image: &Path) -> Command {
    let mut build = lab.build(Format::Erofs, tree, image);
    if compression != Compression::None {
        build.args(["--compress", compression.name()]);
    }
    build
}

/// What `verimount diff` says, in bytes or blocks.
pub(super) struct Difference {
    pub(super) size: u64,
    pub(super) new_blocks: u64,
    pub(super) runs: u64,
    /// The runs that are left when gaps are closed, without what opening fetches.
    pub(super) fetched_runs: u64,
    tree: u64,
}

impl Difference {
    fn of(lab: &Lab, old: &Sealed, new: &Sealed) -> Result<Self> {
        let mut diff = lab.verimount(User::Caller);
        diff.args(["diff", "--json", "--digest", &new.digest]);
        diff.args([&old.source, &new.source]);
        let said: Value = serde_json::from_str(&command::stdout(&mut diff)?)?;
        let figure = |name: &str| {
            let figure = said.get(name).and_then(Value::as_u64);
            figure.with_context(|| format!("no {name} in {said}"))
        };
        Ok(Self {
            size: figure("size")?,
            new_blocks: figure("new_blocks")?,
            runs: figure("new_ranges")?,
            fetched_runs: figure("fetched_ranges")?,
            tree: figure("tree_size")?,
        })
    }

    /// What has to be fetched: the new blocks and the tree.
    pub(super) fn needed(&self) -> u64 {
        self.new_blocks * BLOCK + self.tree
    }
}
