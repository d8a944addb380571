//! Archives of files with access control lists.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Result;
use verimount_testkit::Random;

use super::{
    Written, listed,
    member::{make, members},
    writer::Writer,
};

/// Makes archives in a folder.
pub(super) struct Maker {
    folder: PathBuf,
    writers: Vec<Writer>,
}

impl Maker {
    pub(super) fn new(folder: &Path, name: &str) -> Result<Self> {
        let folder = folder.join(name);
        fs::create_dir(&folder)?;
        let writers = Writer::all(&folder)?;
        Ok(Self { folder, writers })
    }

    /// Writes the archive of a seed.
    pub(super) fn write(&mut self, seed: u64) -> Result<Written> {
        let random = &mut Random::new(seed);
        let members = members(random);
        let tree = self.empty("tree")?;
        let unpacked = self.empty("unpacked")?;
        make(&members, &tree)?;
        let archive = self.folder.join("lists.tar");
        let number = random.below(self.writers.len());
        let writer = &mut self.writers[number];
        let with_lists = writer.write(random, &members, &archive, [&tree, &unpacked])?;
        Ok(Written {
            seed,
            writer: writer.name,
            bytes: fs::read(&archive)?,
            expected: listed(with_lists)?,
        })
    }

    fn empty(&self, name: &str) -> io::Result<PathBuf> {
        let directory = self.folder.join(name);
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir(&directory)?;
        Ok(directory)
    }
}
