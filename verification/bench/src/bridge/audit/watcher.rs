//! A program that asks the kernel for each open in a mount, and records it before it goes on.

use std::{
    fs::{self, File, read_link},
    io::Write,
    os::fd::AsRawFd,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, anyhow};
use nix::sys::fanotify::{
    EventFFlags, Fanotify, FanotifyResponse, InitFlags, MarkFlags, MaskFlags, Response,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;
use tempfile::TempDir;
use verimount_support::command;

use crate::lab::Lab;

/// How often the watcher looks whether it is to end.
const PERIOD: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// A second mount of a directory, in which each open is recorded until this is dropped.
pub(super) struct Watcher {
    folder: TempDir,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Watcher {
    pub(super) fn start(lab: &Lab, source: &Path) -> Result<Self> {
        let folder = lab.new_folder()?;
        command::run(
            Command::new("mount")
                .arg("--bind")
                .arg(source)
                .arg(folder.path()),
        )?;
        let flags = InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_CLOEXEC;
        let events = EventFFlags::O_RDONLY | EventFFlags::O_LARGEFILE;
        let group = Fanotify::init(flags, events)?;
        let mark = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_MOUNT;
        group.mark(
            mark,
            MaskFlags::FAN_OPEN_PERM,
            File::open(folder.path())?,
            None::<&Path>,
        )?;
        let log = lab.path("watched.log");
        let _ = fs::remove_file(&log);
        let log = File::options().create(true).append(true).open(log)?;
        let ends = Arc::<AtomicBool>::default();
        let is_over = ends.clone();
        let thread = Some(thread::spawn(move || watch(&group, log, &is_over)));
        Ok(Self {
            folder,
            ends,
            thread,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn watch(group: &Fanotify, mut log: File, is_over: &AtomicBool) -> Result<()> {
    while !is_over.load(SeqCst) {
        let mut polled = [PollFd::new(group, PollFlags::IN)];
        if poll(&mut polled, Some(&PERIOD))? == 0 {
            continue;
        }
        for event in group.read_events()? {
            let Some(file) = event.fd() else { continue };
            let path = read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
            let time = SystemTime::now().duration_since(UNIX_EPOCH)?;
            let record = json!({
                "version": 1,
                "time": time.as_nanos() as u64,
                "operation": "open",
                "path": path.to_string_lossy(),
                "result": "allow",
                "pid": event.pid(),
            });
            log.write_all(format!("{record}\n").as_bytes())?;
            group.write_response(FanotifyResponse::new(file, Response::FAN_ALLOW))?;
        }
    }
    Ok(())
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.ends.store(true, SeqCst);
        let ended = self.thread.take().map(JoinHandle::join);
        if !matches!(ended, Some(Ok(Ok(())))) {
            eprintln!("{}", anyhow!("the watcher of opens failed"));
        }
        let _ = command::run(Command::new("umount").arg(self.folder.path()));
    }
}
