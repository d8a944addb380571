use std::{fmt, io, os::fd::OwnedFd};

/// How a task is done.
type Run = dyn Fn(&[u8]) -> io::Result<Answer> + Send + Sync;

/// What a helper can be asked to do.
pub struct Task {
    pub(crate) name: &'static str,
    pub(crate) run: Box<Run>,
}

/// What a task returns.
#[derive(Debug, Default)]
pub struct Answer {
    /// As the task and who asks for it have agreed; at most 64 KiB.
    pub bytes: Vec<u8>,
    /// A file that was opened.
    pub file: Option<OwnedFd>,
}

impl Task {
    /// A task with this name. What it is given comes from a process that may have been taken over: it trusts nothing of it.
    pub fn new(
        name: &'static str,
        run: impl Fn(&[u8]) -> io::Result<Answer> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            run: Box::new(run),
        }
    }
}

impl Answer {
    /// Only bytes.
    pub fn of_bytes(bytes: Vec<u8>) -> Self {
        Self { bytes, file: None }
    }

    /// Only an opened file.
    pub fn of_file(file: OwnedFd) -> Self {
        Self {
            bytes: Vec::new(),
            file: Some(file),
        }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Task").field(&self.name).finish()
    }
}
