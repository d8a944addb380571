//! Archives of files with access control lists.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Result;
use verimount_testkit::Random;

use super::{
    Written, is_users, listed,
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
        let number = random.below(self.writers.len());
        let writer = &mut self.writers[number];
        let members = members(random, writer.escapes());
        let tree = empty(&self.folder, "tree")?;
        let unpacked = empty(&self.folder, "unpacked")?;
        make(&members, &tree)?;
        let archive = self.folder.join("lists.tar");
        let with_lists = writer.write(random, &members, &archive, [&tree, &unpacked])?;
        let (mut expected, written) = (listed(with_lists)?, listed(&tree)?);
        for (path, found) in &mut expected {
            // bsdtar unpacks an odd name twice, as it is and as it is written.
            let own = written.get(path).map(|own| &own.attributes);
            let attributes = &mut found.attributes;
            attributes
                .retain(|name, _| !is_users(name) || own.is_some_and(|own| own.contains_key(name)));
        }
        Ok(Written {
            seed,
            writer: writer.name,
            bytes: fs::read(&archive)?,
            expected,
        })
    }
}

fn empty(folder: &Path, name: &str) -> io::Result<PathBuf> {
    let directory = folder.join(name);
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir(&directory)?;
    Ok(directory)
}
