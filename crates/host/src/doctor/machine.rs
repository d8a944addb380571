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
    const ABOUT: &str = "SHA-256";
    let features = fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut features = features.split_whitespace();
    Some(if features.any(|feature| SHA256.contains(&feature)) {
        Diagnosis::good(ABOUT, "the processor has instructions for it")
    } else {
        Diagnosis::limited(
            ABOUT,
            "the processor has no instructions for it: verifying takes several times as long",
            "a processor with SHA extensions; in a virtual machine, the host's processor model",
        )
    })
}

/// In virtual machines only.
fn idle_processors() -> Option<Diagnosis> {
    const ABOUT: &str = "idle processors";
    let setting = fs::read_to_string(HALT_POLL_SETTING).ok()?;
    let is_guest = fs::read_to_string("/proc/cpuinfo")
        .ok()?
        .contains(" hypervisor");
    let waits: u64 = setting.trim().parse().ok()?;
    if !is_guest {
        return None;
    }
    Some(if waits >= HALT_POLL {
        Diagnosis::good(ABOUT, "they wait for work before they halt")
    } else {
        Diagnosis::limited(
            ABOUT,
            "a virtual machine: an idle processor halts at once, and each request waits until the host wakes it",
            format!("echo {HALT_POLL} > {HALT_POLL_SETTING}; or the option --awake"),
        )
    })
}

/// The limit of this process's control group or of one above it.
fn memory() -> Diagnosis {
    const ABOUT: &str = "memory";
    match memory_limit() {
        Some(limit) if limit < LEAST_MEMORY => Diagnosis::limited(
            ABOUT,
            format!("this control group may use {} MiB", limit >> 20),
            format!(
                "MemoryMax= of the service, or --memory of the container: {} MiB or more",
                LEAST_MEMORY >> 20
            ),
        ),
        Some(limit) => Diagnosis::good(
            ABOUT,
            format!("this control group may use {} MiB", limit >> 20),
        ),
        None => Diagnosis::good(ABOUT, "no limit"),
    }
}

fn open_files() -> Diagnosis {
    const ABOUT: &str = "open files";
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    if limit < LEAST_FILES {
        Diagnosis::limited(
            ABOUT,
            format!("a process may have {limit}"),
            format!("ulimit -n {LEAST_FILES}, or LimitNOFILE= of the service"),
        )
    } else {
        Diagnosis::good(ABOUT, "enough")
    }
}
