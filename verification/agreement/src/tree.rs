use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use verimount_support::command;
use verimount_testkit::{RichTree, ShownTree, shown};

/// Everything that EROFS stores.
const RICH: RichTree = RichTree {
    files: 1000,
    sizes: &[4095, 4096, 8192, 20_000, 65_536, 1_300_001],
};

/// How much is copied of this machine's files, in bytes.
const COPIED: u64 = 16 << 20;

/// A directory that images are made of.
pub(crate) struct Tree {
    name: &'static str,
    path: PathBuf,
    shown: ShownTree,
}

impl Tree {
    /// Files of all kinds, with everything that Linux stores of them.
    pub(crate) fn rich(folder: &Path) -> Result<Self> {
        let path = folder.join("rich");
        fs::create_dir(&path)?;
        RICH.grow(&path)?;
        Self::new("all kinds of files", path)
    }

    /// Many small files.
    pub(crate) fn of_documents(folder: &Path) -> Result<Self> {
        Self::copied("/usr/share/doc", folder.join("documents"), "documents")
    }

    /// Programs' libraries.
    pub(crate) fn of_libraries(folder: &Path) -> Result<Self> {
        Self::copied(
            "/usr/lib/x86_64-linux-gnu",
            folder.join("libraries"),
            "libraries",
        )
    }

    /// A copy of as many entries of a directory of this machine as are not too large together.
    fn copied(from: &str, path: PathBuf, name: &'static str) -> Result<Self> {
        fs::create_dir(&path)?;
        let entries = fs::read_dir(from).with_context(|| from.to_owned())?;
        let mut entries = entries
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>>>()?;
        entries.sort();
        let mut copied = 0;
        let mut copy = Command::new("cp");
        copy.arg("--archive");
        for entry in entries {
            let size = size_of(&entry)?;
            if size < COPIED / 4 && copied + size <= COPIED {
                copied += size;
                copy.arg(entry);
            }
        }
        command::run(copy.arg(&path))?;
        Self::new(name, path)
    }

    fn new(name: &'static str, path: PathBuf) -> Result<Self> {
        let shown = shown(&path)?;
        Ok(Self { name, path, shown })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What the directory shows.
    pub(crate) fn shown(&self) -> &ShownTree {
        &self.shown
    }

    /// Whether it has all kinds of files.
    pub(crate) fn is_rich(&self) -> bool {
        self.shown.values().any(|file| file.device != 0)
    }
}

/// The bytes in a file, or in all files below a directory.
fn size_of(path: &Path) -> Result<u64> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    fs::read_dir(path)?
        .map(|entry| size_of(&entry?.path()))
        .sum()
}
