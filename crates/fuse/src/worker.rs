use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use rustix::io::Errno;
use zerocopy::transmute;

use crate::{
    Awake, FileSystem, HELD, Held,
    abandoned::take_back,
    abi::OutHeader,
    device::Device,
    dispatch::{Thread, dispatch},
    pool::Pool,
    queues::move_to,
    request::{Request, RequestCopy, ring_request},
    turns::{Turn, Waiting},
    watch::{ReplyChannel, RingRequest, Watch, Watched},
};

/// Creates the workers of a mount.
pub(crate) struct Workers<F: FileSystem> {
    pub(crate) fs: Arc<F>,
    pub(crate) awake: Option<Arc<Awake>>,
    /// `None` if killed callers cannot be found out.
    pub(crate) watch: Option<Arc<Watch>>,
    /// Whether the file system holds requests.
    pub(crate) holds: bool,
}

/// The state with which one thread answers requests.
pub(crate) struct Worker<F: FileSystem> {
    fs: Arc<F>,
    answers: Answers<F>,
    watched: Option<Watched>,
    holds: bool,
}

/// The outcome of a request.
enum Answered {
    /// This thread has answered it, if it needed an answer.
    Here,
    /// The caller was killed, or has waited for too long, and another thread has answered.
    Abandoned,
    /// The file system holds it.
    Held,
}

/// Calls the file system.
struct Answers<F: FileSystem> {
    fs: Arc<F>,
    awake: Option<Arc<Awake>>,
    thread: Thread<F::Scratch>,
    panicked: bool,
}

impl<F: FileSystem> Workers<F> {
    /// A worker for the calling thread, on which it must stay.
    pub(crate) fn worker(&self) -> Worker<F> {
        Worker {
            fs: self.fs.clone(),
            answers: Answers {
                fs: self.fs.clone(),
                awake: self.awake.clone(),
                thread: Thread::default(),
                panicked: false,
            },
            watched: self.watch.as_ref().map(Watch::seat),
            holds: self.holds,
        }
    }
}

impl<F: FileSystem> Worker<F> {
    /// Answers requests of at most `room` bytes from `device`, until the mount ends or another thread
    /// has replaced this one.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn serve_device(mut self, device: &Arc<Device>, room: usize) -> io::Result<()> {
        let mut buffer = vec![0; room];
        while let Some(len) = device.receive(&mut buffer)? {
            let Some(request) = parse(&buffer[..len]) else {
                continue;
            };
            let unique = request.header.unique;
            match self.answer_through(device, request) {
                Answered::Here => {}
                Answered::Abandoned => {
                    // Another thread has replaced this one.
                    self.watched.iter().for_each(Watched::is_back);
                    return Ok(());
                }
                // It must not, without a pool.
                Answered::Held => device.reply(unique, Err(Errno::IO)),
            }
        }
        Ok(())
    }

    /// Answers requests of at most `room` bytes from `device` as one of the threads of `pool`, so that no user's
    /// requests block another's, until the mount ends. An `added` thread also ends when there are enough without it.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn serve_fairly(
        mut self,
        device: &Arc<Device>,
        room: usize,
        pool: &Arc<Pool>,
        added: bool,
    ) -> io::Result<()> {
        let mut buffer = vec![0; room];
        loop {
            while let Some((turn, waiting)) = pool.begin_queued() {
                self.answer_waiting(waiting, pool);
                self.answer_queued(turn, pool);
                pool.idle();
            }
            let Some(len) = device.receive(&mut buffer)? else {
                return Ok(());
            };
            pool.busy();
            self.answer_in_turn(device, &buffer[..len], pool);
            while let Some((turn, waiting)) = pool.begin_ready() {
                self.answer_waiting(waiting, pool);
                self.answer_queued(turn, pool);
            }
            pool.idle();
            if added && pool.may_leave() {
                return Ok(());
            }
        }
    }

    /// Answers requests that were held and go on, until the mount ends.
    pub(crate) fn serve_ready(mut self, pool: &Arc<Pool>) {
        while let Some((turn, waiting)) = pool.await_ready() {
            self.answer_waiting(waiting, pool);
            self.answer_queued(turn, pool);
        }
    }

    /// Answers a request if it has a turn, and then the queued ones of the same user.
    fn answer_in_turn(&mut self, device: &Arc<Device>, received: &[u8], pool: &Arc<Pool>) {
        let Some(request) = parse(received) else {
            return;
        };
        let reads_alone = pool.is_all_busy();
        match pool.turns.begin(&request, received, device, reads_alone) {
            Some(turn) => {
                if let Answered::Held = self.answer_through(device, request.clone()) {
                    self.hold(Waiting::new(&request, received, device), pool);
                }
                self.answer_queued(turn, pool);
            }
            None => {
                if reads_alone {
                    pool.needs_more();
                }
                if let Some(watched) = &self.watched {
                    watched.waits();
                }
            }
        }
    }

    /// Answers the queued requests of the user whose turn has ended.
    fn answer_queued(&mut self, mut turn: Turn, pool: &Arc<Pool>) {
        while let Some((next, waiting)) = pool.turns.end(turn) {
            self.answer_waiting(waiting, pool);
            turn = next;
        }
    }

    fn answer_waiting(&mut self, waiting: Waiting, pool: &Arc<Pool>) {
        let Some(request) = parse(&waiting.request) else {
            return;
        };
        if let Answered::Held = self.answer_through(&waiting.device, request) {
            self.hold(waiting, pool);
        } else if waiting.was_held {
            self.fs.let_go(waiting.unique);
        }
    }

    /// Keeps a request until the file system says how it goes on.
    fn hold(&self, waiting: Waiting, pool: &Arc<Pool>) {
        let held = Held {
            request: waiting.unique,
            pool: pool.clone(),
        };
        pool.held.hold(Waiting {
            was_held: true,
            ..waiting
        });
        self.fs.held(held);
        self.watched.iter().for_each(Watched::waits);
    }

    fn answer_through(&mut self, device: &Arc<Device>, request: Request<'_>) -> Answered {
        let (header, is_answered) = (request.header, request.is_answered());
        let watched = self.watched.as_ref();
        let can_be_abandoned = request.can_be_abandoned();
        let watched = watched.filter(|_| can_be_abandoned || self.holds && is_answered);
        if let Some(watched) = watched {
            let channel = ReplyChannel::Device(device.clone());
            watched.hold(&header, channel, can_be_abandoned);
        }
        let answer = self.answers.answer(request);
        let is_abandoned = watched.is_some_and(|watched| watched.take().is_none());
        if is_abandoned {
            if answer == Err(HELD) {
                self.fs.let_go(header.unique);
            }
            take_back(&*self.fs, &header, answer.unwrap_or_default());
            return Answered::Abandoned;
        }
        if answer == Err(HELD) {
            return Answered::Held;
        }
        if is_answered {
            device.reply(header.unique, answer);
        }
        Answered::Here
    }

    /// Answers requests from a ring, beginning with `next`, until the mount ends or another thread has
    /// replaced this one.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn serve_ring(self, mut next: Option<RingRequest>) -> io::Result<()> {
        let Self {
            fs,
            mut answers,
            watched,
            ..
        } = self;
        let mut copy = RequestCopy::default();
        while let Some(received) = next {
            let abandonable = watched.as_ref().zip(copy.abandonable(&received));
            next = match abandonable {
                Some((watched, request)) => {
                    let header = request.header;
                    watched.hold(&header, ReplyChannel::Ring(received), true);
                    let answer = answers.answer(request);
                    let Some(ReplyChannel::Ring(received)) = watched.take() else {
                        take_back(&*fs, &header, answer.unwrap_or_default());
                        watched.is_back();
                        return Ok(());
                    };
                    commit(received, header.unique, answer)?
                }
                None => {
                    let (unique, answer) = match ring_request(&received) {
                        Some(request) => (request.header.unique, answers.answer(request)),
                        None => {
                            tracing::error!("malformed request from the kernel");
                            (0, Err(Errno::IO))
                        }
                    };
                    commit(received, unique, answer)?
                }
            };
        }
        Ok(())
    }

    /// Answers an abandoned request with an error, and replaces the thread that waits for storage.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn succeed(
        self,
        unique: u64,
        abandoned: ReplyChannel,
        room: usize,
    ) -> io::Result<()> {
        match abandoned {
            ReplyChannel::Device(device) => {
                device.reply(unique, Err(Errno::INTR));
                self.serve_device(&device, room)
            }
            ReplyChannel::Ring(request) => {
                move_to(request.queue());
                let next = commit(request, unique, Err(Errno::INTR))?;
                self.serve_ring(next)
            }
        }
    }
}

impl<F: FileSystem> Answers<F> {
    /// The answer to a request. A panic of the file system becomes an error: the caller must not wait
    /// for ever.
    fn answer(&mut self, request: Request<'_>) -> Result<&[u8], Errno> {
        if let Some(awake) = &self.awake {
            awake.request();
        }
        if self.panicked {
            // The panic may have left it inconsistent.
            self.thread = Thread::default();
        }
        let dispatch = AssertUnwindSafe(|| dispatch(&*self.fs, request, &mut self.thread));
        let answer = catch_unwind(dispatch);
        self.panicked = answer.is_err();
        answer.unwrap_or(Err(Errno::IO))
    }
}

/// Answers a request and waits for the next one on the same ring; `None` at the end of the mount.
fn commit(
    received: RingRequest,
    unique: u64,
    answer: Result<&[u8], Errno>,
) -> io::Result<Option<RingRequest>> {
    let fits = |answer: &&[u8]| answer.len() <= received.room();
    let answer = answer.and_then(|answer| Some(answer).filter(fits).ok_or(Errno::TOOBIG));
    let header = transmute!(OutHeader::of(unique, answer));
    received.answer(&header, answer.unwrap_or_default())
}

fn parse(received: &[u8]) -> Option<Request<'_>> {
    let request = Request::parse(received);
    if request.is_none() {
        tracing::error!(len = received.len(), "malformed request from the kernel");
    }
    request
}
