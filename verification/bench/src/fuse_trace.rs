//! The requests that the kernel sends to the daemon of a mount, traced in the kernel: for any daemon, over
//! any transport.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{self, Command},
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use verimount_support::command;

const TRACEFS: &str = "/sys/kernel/tracing";

/// The event, in a trace's folder. It exists since Linux 6.11.
const SENT: &str = "events/fuse/fuse_request_send";

/// How long it may take until a background request is sent.
const SETTLING: Duration = Duration::from_millis(20);

/// A trace of one mount, independent of other traces. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct FuseTrace(PathBuf);

/// The requests of some work, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    /// A program waits for the answer.
    pub(crate) awaited: Vec<String>,
    /// No program waits. FORGET belongs here, too, but the kernel does not trace it.
    pub(crate) unawaited: Vec<String>,
}

impl FuseTrace {
    /// The reason if [`Self::is_possible`] returns false.
    pub(crate) const OBSTACLE: &str = "needs root and a kernel that traces FUSE's requests";

    /// Whether requests can be traced here.
    pub(crate) fn is_possible() -> bool {
        let event = Path::new(TRACEFS).join(SENT);
        event.exists() || (mount_tracefs().is_ok() && event.exists())
    }

    /// Prepares to trace the mount on `point`.
    pub(crate) fn new(point: &Path) -> Result<Self> {
        // The kernel identifies the connection by the mount's device number, whose major part is 0.
        let connection = rustix::fs::minor(fs::metadata(point)?.dev());
        let name = format!("instances/verimount-bench-{}", process::id());
        let folder = Path::new(TRACEFS).join(name);
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let trace = Self(folder);
        trace.set("tracing_on", "0")?;
        let filter = format!("connection == {connection}");
        trace.set(&format!("{SENT}/filter"), &filter)?;
        trace.set(&format!("{SENT}/enable"), "1")?;
        Ok(trace)
    }

    /// The requests of `work`. Its result is kept until they have been counted.
    pub(crate) fn requests_of<T>(&self, work: impl FnOnce() -> io::Result<T>) -> Result<Requests> {
        self.set("trace", "")?;
        self.set("tracing_on", "1")?;
        let _kept = work()?;
        thread::sleep(SETTLING);
        self.set("tracing_on", "0")?;
        let trace = fs::read_to_string(self.0.join("trace"))?;
        Ok(Requests::parse(&trace))
    }

    fn set(&self, file: &str, text: &str) -> Result<()> {
        let file = self.0.join(file);
        fs::write(&file, text).with_context(|| file.display().to_string())
    }
}

impl Drop for FuseTrace {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

/// It stays mounted: on most machines it always is.
fn mount_tracefs() -> Result<()> {
    let mut mount = Command::new("mount");
    command::run(mount.args(["-t", "tracefs", "tracefs", TRACEFS]))
}

impl Requests {
    /// Reads the lines of a trace, each with `opcode 14 (FUSE_OPEN)` in it.
    fn parse(trace: &str) -> Self {
        let mut requests = Self::default();
        for line in trace.lines() {
            let Some((_, opcode)) = line.split_once(" opcode ") else {
                continue;
            };
            let name = opcode.split(['(', ')']).nth(1).unwrap_or(opcode);
            let name = name.trim_start_matches("FUSE_").to_owned();
            match &name[..] {
                "RELEASE" | "RELEASEDIR" => requests.unawaited.push(name),
                _ => requests.awaited.push(name),
            }
        }
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_from_a_trace() {
        let trace = "\
# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
             cat-714     [001] .....   102.300012: fuse_request_send: connection 47 req 12 opcode 14 (FUSE_OPEN) len 48 
             cat-714     [000] .....   102.300170: fuse_request_send: connection 47 req 14 opcode 18 (FUSE_RELEASE) len 64 
             cat-714     [000] .....   102.300190: fuse_request_send: connection 47 req 16 opcode 99 (0x63) len 64 
";
        let requests = Requests::parse(trace);
        assert_eq!(requests.awaited, ["OPEN", "0x63"]);
        assert_eq!(requests.unawaited, ["RELEASE"]);
    }
}
