//! Comparable cold page caches.

use std::{
    env,
    fs::{self, File},
    io::Write,
    process::Command,
};

use anyhow::{Context, Result};
use verimount_support::command;

/// The hidden task that [`touch_memory`] is.
const TOUCH_MEMORY: &str = "touch-memory";

/// Empties the page cache and the caches of names, then makes `bytes` of memory ready to use.
///
/// A virtual machine may have returned its free pages to its host. Getting them back takes up to a second
/// per GiB, at random, which would be added to the next run. So the memory is touched and freed just
/// before the run that will fill it.
pub(crate) fn make_cold(bytes: u64) -> Result<()> {
    rustix::fs::sync();
    let mut caches = File::options()
        .write(true)
        .open("/proc/sys/vm/drop_caches")?;
    caches.write_all(b"3").context("dropping caches")?;
    // In a separate process, because only its end certainly frees the memory.
    let bytes = bytes.min(available_memory()? / 10 * 7);
    let mut toucher = Command::new(env::current_exe()?);
    command::run(toucher.args([TOUCH_MEMORY, &bytes.to_string()]))
}

/// Writes to every page of `bytes` of memory.
pub(crate) fn touch_memory(bytes: usize) {
    std::hint::black_box(vec![1_u8; bytes]);
}

/// Bytes of memory available without swapping.
fn available_memory() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    kernel_bytes(&text, "MemAvailable:").context("no MemAvailable in /proc/meminfo")
}

/// The amount that follows `key` in a file of /proc, in bytes.
pub(crate) fn kernel_bytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_from_proc() {
        let text = "MemTotal:       24684084 kB\nMemFree:  1 kB\nThreads: 3\n";
        assert_eq!(kernel_bytes(text, "MemFree:"), Some(1024));
        assert_eq!(kernel_bytes(text, "Threads:"), None);
        assert_eq!(kernel_bytes(text, "VmHWM:"), None);
    }
}
