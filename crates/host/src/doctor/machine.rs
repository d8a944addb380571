//! Processors and memory.

use std::fs;

use rustix::process::{Resource, getrlimit};
use verimount_nbd::memory_limit;

use super::Diagnosis;

/// Instructions for SHA-256, as Linux names them: x86, and Arm.
const SHA256: [&str; 2] = ["sha_ni", "sha2"];

/// How long an idle processor of a guest should wait before it halts, in nanoseconds: waking it takes that long.
const HALT_POLL: u64 = 200_000;

/// Where the kernel of a guest is told that.
const HALT_POLL_SETTING: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";

/// The least memory that a mount should be left, in bytes.
const LEAST_MEMORY: u64 = 128 << 20;

/// The least number of open files that a mount should be left.
const LEAST_FILES: u64 = 1024;

pub(super) fn examine() -> Vec<Diagnosis> {
    let processors = hashing().into_iter().chain(idle_processors());
    processors.chain([memory(), open_files()]).collect()
}

fn hashing() -> Option<Diagnosis> {
    let features = fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut features = features.split_whitespace();
    let is_fast = features.any(|feature| SHA256.contains(&feature));
    let slow = (
        "the processor has no instructions for it: verifying takes several times as long",
        "a processor with SHA extensions; in a virtual machine, the host's processor model",
    );
    let fast = "the processor has instructions for it";
    Some(Diagnosis::judged("SHA-256", is_fast, fast, slow))
}

/// In virtual machines only.
fn idle_processors() -> Option<Diagnosis> {
    let setting = fs::read_to_string(HALT_POLL_SETTING).ok()?;
    let is_guest = fs::read_to_string("/proc/cpuinfo")
        .ok()?
        .contains(" hypervisor");
    let waits: u64 = setting.trim().parse().ok()?;
    if !is_guest {
        return None;
    }
    let halts = (
        "a virtual machine: an idle processor halts at once, and each request waits until the host wakes it",
        format!("echo {HALT_POLL} > {HALT_POLL_SETTING}; or the option --awake"),
    );
    let (is_good, good) = (waits >= HALT_POLL, "they wait for work before they halt");
    Some(Diagnosis::judged("idle processors", is_good, good, halts))
}

/// The limit of this process's control group or of one above it.
fn memory() -> Diagnosis {
    const ABOUT: &str = "memory";
    let Some(limit) = memory_limit() else {
        return Diagnosis::good(ABOUT, "no limit");
    };
    let text = format!("this control group may use {} MiB", limit >> 20);
    let cure = format!(
        "MemoryMax= of the service, or --memory of the container: {} MiB or more",
        LEAST_MEMORY >> 20
    );
    let little = (text.clone(), cure);
    Diagnosis::judged(ABOUT, limit >= LEAST_MEMORY, text, little)
}

fn open_files() -> Diagnosis {
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let few = (
        format!("a process may have {limit}"),
        format!("ulimit -n {LEAST_FILES}, or LimitNOFILE= of the service"),
    );
    Diagnosis::judged("open files", limit >= LEAST_FILES, "enough", few)
}
