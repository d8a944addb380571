use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use rustix::io::Errno;

use crate::{
    FileSystem,
    device::Device,
    dispatch::{Thread, dispatch},
    request::Request,
};

/// What one thread answers requests with.
pub(crate) struct Worker<F: FileSystem> {
    fs: Arc<F>,
    thread: Thread<F::Scratch>,
    panicked: bool,
}

impl<F: FileSystem> Worker<F> {
    /// To be made by its thread, to which what it keeps may be bound.
    pub(crate) fn new(fs: Arc<F>) -> Self {
        Self {
            fs,
            thread: Thread::default(),
            panicked: false,
        }
    }

    /// Answers what comes from `device`, in at most `room` bytes, until the mount ends.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn serve_device(mut self, device: &Device, room: usize) -> io::Result<()> {
        let mut buffer = vec![0; room];
        while let Some(len) = device.receive(&mut buffer)? {
            let Some(request) = Request::parse(&buffer[..len]) else {
                tracing::error!(len, "the kernel sent a request that is none");
                continue;
            };
            let (unique, is_answered) = (request.header.unique, request.is_answered());
            let answer = self.answer(request);
            if is_answered {
                device.reply(unique, answer);
            }
        }
        Ok(())
    }

    /// The answer to a request, even if the file system panics: its caller must not wait for ever.
    fn answer(&mut self, request: Request<'_>) -> Result<&[u8], Errno> {
        if self.panicked {
            // What the thread kept may be half done.
            self.thread = Thread::default();
        }
        let dispatch = AssertUnwindSafe(|| dispatch(&*self.fs, request, &mut self.thread));
        let answer = catch_unwind(dispatch);
        self.panicked = answer.is_err();
        answer.unwrap_or(Err(Errno::IO))
    }
}
