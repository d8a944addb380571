//! The tests that were skipped.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The file to which tests that are skipped add lines.
pub(crate) struct Skips(PathBuf);

impl Skips {
    /// An empty one in the folder for build results.
    pub(crate) fn new(target: &Path) -> Result<Self> {
        let path = target.join("skipped-tests");
        fs::write(&path, "").with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Prints how many tests were skipped, for each reason.
    pub(crate) fn print(&self) -> Result<()> {
        let text = fs::read_to_string(&self.0)?;
        // Of one test, several parts can be skipped for the same reason.
        let lines: BTreeSet<_> = text.lines().collect();
        let mut reasons = BTreeMap::<_, usize>::new();
        for (_, reason) in lines.iter().filter_map(|line| line.split_once('\t')) {
            *reasons.entry(reason).or_default() += 1;
        }
        println!("== Skipped: {}", lines.len());
        for (reason, count) in &reasons {
            println!("{count:4} {reason}");
        }
        if !reasons.is_empty() {
            println!("Their names are in {}", self.0.display());
        }
        Ok(())
    }
}
