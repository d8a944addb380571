//! A fresh minimal Debian, fetched once.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::command;

/// The release.
const SUITE: &str = "bookworm";

/// The folder with a Debian that nothing was done to, and nothing may be done to; fetched the first time, which needs root and
/// a network, into cargo's folder `target`.
///
/// # Errors
/// It cannot be fetched.
pub fn fetched(target: &Path) -> Result<PathBuf> {
    let kept = target.join("debian");
    let base = kept.join(SUITE);
    if base.exists() {
        return Ok(base);
    }
    fs::create_dir_all(&kept)?;
    // It has its name only once it is whole. If it does not become whole, something may still be mounted in it, so it stays.
    let partial = kept.join(format!("partial-{}", std::process::id()));
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.args(["--variant=minbase", SUITE]);
    command::run(debootstrap.arg(&partial))?;
    fs::rename(partial, &base)?;
    Ok(base)
}
