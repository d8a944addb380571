use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use anyhow::{Context, Result};
use verimount_names::printable;

/// A file that was not there before, for what must not take the place of anything; removed again
/// unless kept.
pub(crate) struct NewFile<'a> {
    file: File,
    path: &'a Path,
    kept: bool,
}

impl<'a> NewFile<'a> {
    /// A new, empty file, with these permissions before the user's mask.
    pub(crate) fn create(path: &'a Path, mode: u32) -> Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(mode).open(path);
        Ok(Self {
            file: file.with_context(|| printable(path).to_string())?,
            path,
            kept: false,
        })
    }

    /// Writes all of its content.
    pub(crate) fn write(&self, text: &str) -> Result<()> {
        (&self.file)
            .write_all(text.as_bytes())
            .with_context(|| printable(&self.path).to_string())
    }

    /// Makes it this long, with nothing but zeros in it, which take no storage.
    pub(crate) fn set_len(&self, len: u64) -> Result<()> {
        self.file
            .set_len(len)
            .with_context(|| printable(&self.path).to_string())
    }

    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(self.path);
        }
    }
}
