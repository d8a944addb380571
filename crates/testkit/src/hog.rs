//! Scripts of another user, which are told when to go on.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdout, Command, Stdio},
};

use verimount_testenv::tools;

/// Python code that changes the user from root to `nobody`, after all modules are loaded: other users may
/// be unable to run Python or to load them.
const BECOME_NOBODY: &str = "
import os
def become_nobody():
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
";

/// A Python script of `nobody`'s. It prints a line when it has reached a point, and continues on request.
pub struct Hog {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Hog {
    /// Starts it after `become_nobody` is defined. `None` without Python.
    pub fn start(script: &str, arguments: &[&str]) -> Option<Self> {
        let mut python = Command::new(tools::find("python3")?);
        python
            .args(["-c", &[BECOME_NOBODY, script].concat()])
            .args(arguments);
        python.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Some(Self { child, said })
    }

    /// The next line that it prints.
    #[track_caller]
    pub fn says(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "it has ended");
        line.trim_end().to_owned()
    }

    /// Has it continue.
    pub fn tell(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    #[track_caller]
    /// Waits for its end, with success.
    pub fn ends_well(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
