use std::fs;

use anyhow::{Result, bail};

/// The version of a kernel, major and minor.
pub(super) type Version = (u32, u32);

/// The version of the running kernel.
pub(super) fn version() -> Result<Version> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut numbers = release.split('.').map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => bail!("Linux {release}"),
    }
}

/// Has the kernel forget all files that nobody uses.
pub(super) fn drop_caches() -> Result<()> {
    Ok(fs::write("/proc/sys/vm/drop_caches", "3")?)
}
