use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use rustix::io::Errno;
use verimount_sys::WaitingFuseRing;
use zerocopy::transmute;

use crate::{
    Awake, FileSystem,
    abi::OutHeader,
    device::Device,
    dispatch::{Thread, dispatch},
    pool::Pool,
    request::Request,
};

/// What one thread answers requests with.
pub(crate) struct Worker<F: FileSystem> {
    fs: Arc<F>,
    awake: Option<Arc<Awake>>,
    thread: Thread<F::Scratch>,
    panicked: bool,
}

impl<F: FileSystem> Worker<F> {
    /// To be made by its thread, to which what it keeps may be bound.
    pub(crate) fn new(fs: Arc<F>, awake: Option<Arc<Awake>>) -> Self {
        Self {
            fs,
            awake,
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
            if let Some(request) = parse(&buffer[..len]) {
                self.answer_through(device, request);
            }
        }
        Ok(())
    }

    /// The same, as one of the threads of `pool`, so that no user's requests hold up another's. If it
    /// was `added`, until there are enough without it.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn serve_fairly(
        mut self,
        device: &Arc<Device>,
        room: usize,
        pool: &Pool,
        added: bool,
    ) -> io::Result<()> {
        let mut buffer = vec![0; room];
        while let Some(len) = device.receive(&mut buffer)? {
            pool.busy();
            self.answer_in_turn(device, &buffer[..len], pool);
            pool.idle();
            if added && pool.may_leave() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Answers a request if its turn has come, and then those of the same user that had to wait.
    fn answer_in_turn(&mut self, device: &Arc<Device>, received: &[u8], pool: &Pool) {
        let Some(request) = parse(received) else {
            return;
        };
        let Some(mut turn) = pool.turns.begin(&request, received, device) else {
            return;
        };
        self.answer_through(device, request);
        while let Some((next, waiting)) = pool.turns.end(turn) {
            pool.done();
            if let Some(request) = parse(&waiting.request) {
                self.answer_through(&waiting.device, request);
            }
            turn = next;
        }
    }

    fn answer_through(&mut self, device: &Device, request: Request<'_>) {
        let (unique, is_answered) = (request.header.unique, request.is_answered());
        let answer = self.answer(request);
        if is_answered {
            device.reply(unique, answer);
        }
    }

    /// Answers what comes through `ring`, until the mount ends.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn serve_ring(mut self, ring: WaitingFuseRing<Arc<Device>>) -> io::Result<()> {
        let mut next = ring.wait()?;
        while let Some(received) = next {
            let (header, operation) = (received.header(), received.operation());
            let request = Request::parse_parts(header, operation, received.payload());
            let (unique, answer) = match request {
                Some(request) => (request.header.unique, self.answer(request)),
                None => {
                    tracing::error!("the kernel sent a request that is none");
                    (0, Err(Errno::IO))
                }
            };
            let fits = |answer: &&[u8]| answer.len() <= received.room();
            let answer = answer.and_then(|answer| Some(answer).filter(fits).ok_or(Errno::TOOBIG));
            let header = transmute!(OutHeader::of(unique, answer));
            next = received.answer(&header, answer.unwrap_or_default())?;
        }
        Ok(())
    }

    /// The answer to a request, even if the file system panics: its caller must not wait for ever.
    fn answer(&mut self, request: Request<'_>) -> Result<&[u8], Errno> {
        if let Some(awake) = &self.awake {
            awake.request();
        }
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

fn parse(received: &[u8]) -> Option<Request<'_>> {
    let request = Request::parse(received);
    if request.is_none() {
        tracing::error!(
            len = received.len(),
            "the kernel sent a request that is none"
        );
    }
    request
}
