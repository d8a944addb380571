//! Runs programs and checks how they ended.

use std::{
    fmt,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use verimount_testenv::tools;

/// What takes longer hangs. This is far more than any test needs, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How a run ended.
pub struct Ended {
    command: String,
    /// Its exit status.
    pub status: ExitStatus,
    /// What it has printed.
    pub stdout: Vec<u8>,
    /// What it has said on standard error.
    pub stderr: String,
}

impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.command, self.status)?;
        writeln!(f, "stdout: {}", String::from_utf8_lossy(&self.stdout))?;
        write!(f, "stderr: {}", self.stderr)
    }
}

/// Runs a command to its end, with output captured unless it goes elsewhere already.
pub fn finish(mut command: Command) -> Ended {
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // So that a watchdog finds what the process has started, too.
    command.process_group(0);
    let described = format!("{command:?}");
    finish_spawned(command.spawn().unwrap(), described)
}

/// Runs a Python script, which can do what the standard library cannot; `None`, after a note, without Python.
pub fn python(script: &str, arguments: &[&Path]) -> Option<Ended> {
    let mut python = Command::new(tools::find("python3")?);
    python.args(["-c", script]).args(arguments);
    Some(finish(python))
}

/// Waits for a process; kills it and fails if that takes too long.
pub fn finish_spawned(child: Child, command: String) -> Ended {
    let watchdog = Watchdog::new(&child, PATIENCE);
    let output = child.wait_with_output().unwrap();
    assert!(!watchdog.has_bitten(), "{command} hangs");
    Ended {
        command,
        status: output.status,
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Kills a process that is still there after a while.
pub struct Watchdog {
    thread: Option<JoinHandle<bool>>,
    done: Option<Sender<()>>,
}

impl Watchdog {
    /// Watches a child for this time.
    pub fn new(child: &Child, patience: Duration) -> Self {
        let pid = Pid::from_child(child);
        let (done, is_done) = channel();
        let thread = thread::spawn(move || {
            let waited = is_done.recv_timeout(patience);
            let bites = waited == Err(RecvTimeoutError::Timeout);
            if bites {
                let _ = kill_process_group(pid, Signal::KILL);
                let _ = kill_process(pid, Signal::KILL);
            }
            bites
        });
        Self {
            thread: Some(thread),
            done: Some(done),
        }
    }

    /// Ends the watch; whether it had to kill.
    pub fn has_bitten(mut self) -> bool {
        drop(self.done.take());
        self.thread
            .take()
            .is_some_and(|thread| thread.join().unwrap())
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.done.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Ended {
    /// Checks that apply to every run.
    #[track_caller]
    fn is_orderly(&self, code: i32) -> &Self {
        assert_eq!(self.status.code(), Some(code), "{self:?}");
        self.does_not_panic()
    }

    #[track_caller]
    fn does_not_panic(&self) -> &Self {
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        self
    }

    /// It succeeded.
    #[track_caller]
    pub fn succeeds(&self) -> &Self {
        self.is_orderly(0)
    }

    /// It succeeded, and printed only notes on standard error.
    #[track_caller]
    pub fn succeeds_quietly(&self) -> &Self {
        assert!(self.errors().next().is_none(), "{self:?}");
        self.is_orderly(0)
    }

    /// All lines that are not just notes.
    fn errors(&self) -> impl Iterator<Item = &str> {
        let lines = self.stderr.lines();
        lines.filter(|line| !line.starts_with("note: "))
    }

    /// The data is bad or the work could not be done: one line with the reason. Which of the two it is, the tests
    /// of exit codes check.
    #[track_caller]
    pub fn fails(&self) -> &Self {
        self.does_not_panic();
        assert!(matches!(self.status.code(), Some(1 | 3)), "{self:?}");
        self.tells_one_reason()
    }

    /// A signal has interrupted it, and it says so in one line.
    #[track_caller]
    pub fn is_interrupted_by(&self, signal: Signal) -> &Self {
        self.is_orderly(128 + signal.as_raw());
        assert!(self.stderr.contains("interrupted"), "{self:?}");
        self.tells_one_reason()
    }

    /// One line of an error, and any notes.
    #[track_caller]
    fn tells_one_reason(&self) -> &Self {
        let errors: Vec<_> = self.errors().collect();
        let one_line = errors.len() == 1 && self.stderr.ends_with('\n');
        assert!(one_line && errors[0].starts_with("verimount: "), "{self:?}");
        let reasons: Vec<_> = errors[0].split(": ").collect();
        let says_it_twice = reasons.windows(2).any(|pair| pair[0] == pair[1]);
        assert!(!says_it_twice, "{self:?}");
        self
    }

    /// It fails, and the line contains this.
    #[track_caller]
    pub fn fails_saying(&self, words: &str) -> &Self {
        self.fails();
        assert!(self.stderr.contains(words), "no {words:?} in {self:?}");
        self
    }

    /// Its exit code is this one.
    #[track_caller]
    pub fn ends_with(&self, code: i32) -> &Self {
        self.is_orderly(code)
    }

    /// The data is bad, which is the result and not an error: exit code 1, all on standard output
    /// but notes.
    #[track_caller]
    pub fn reports_bad_data(&self) -> &Self {
        assert!(self.errors().next().is_none(), "{self:?}");
        self.is_orderly(1)
    }

    /// It was used wrongly: exit code 2, and nothing on standard output.
    #[track_caller]
    pub fn is_wrong_usage(&self) -> &Self {
        self.is_orderly(2);
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        assert!(self.stdout.is_empty(), "{self:?}");
        self
    }

    /// Its standard output contains this.
    #[track_caller]
    pub fn says(&self, words: &str) -> &Self {
        assert!(self.text().contains(words), "no {words:?} in {self:?}");
        self
    }

    /// Its standard error contains this.
    #[track_caller]
    pub fn notes(&self, words: &str) -> &Self {
        assert!(self.stderr.contains(words), "no {words:?} in {self:?}");
        self
    }

    /// Its standard output, as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap()
    }

    /// Its standard output, as text.
    #[track_caller]
    pub fn text(&self) -> &str {
        str::from_utf8(&self.stdout).unwrap()
    }

    /// The digest that its output starts with.
    #[track_caller]
    pub fn digest(&self) -> String {
        self.succeeds();
        let (digest, _) = self.text().split_once(' ').unwrap();
        assert!(digest.starts_with("sha"), "{self:?}");
        digest.to_owned()
    }
}
