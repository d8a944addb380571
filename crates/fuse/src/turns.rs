//! Limits how many requests of each user run at once; further ones are queued until one of them ends.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    Shares,
    abi::{SetattrIn, opcode},
    device::Device,
    request::Request,
    types::Valid,
};

/// How many requests of ordinary users run at once in each lane: a single user gets a third of them,
/// which is more than a disk can use.
const MAX_RUNNING: usize = 96;

/// How much memory queued requests may take, in bytes. A single user gets a third of it, enough for
/// sixteen of the largest writes or a hundred thousand opens. Requests beyond it run at once.
const MAX_WAITING: usize = 48 << 20;

/// The kinds of requests that are limited, each on its own.
///
/// All others run at once: for most of them the kernel has locked a directory or a name, for which other
/// users would wait as well. They wait for nothing but storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// Reads and writes, which wait for storage. The kernel limits background requests
    /// (`max_background`) for all users together, so these must not queue behind opens.
    Data,
    /// Opens, also to truncate, which may wait until another process gives up its lease on the file.
    /// Meanwhile the kernel holds no lock, or only that of a file to which the user may write.
    Opens,
}

/// All users' turns.
pub(crate) struct Turns(Mutex<State>);

struct State {
    data: Queues,
    opens: Queues,
    /// The bytes of the queued requests.
    waiting: Shares,
}

struct Queues {
    running: Shares,
    waiting: HashMap<u32, VecDeque<Waiting>>,
}

/// A queued request.
pub(crate) struct Waiting {
    /// The device to answer through.
    pub(crate) device: Arc<Device>,
    /// The whole request as received.
    pub(crate) request: Box<[u8]>,
    /// The request's number, and its caller's thread id.
    pub(crate) unique: u64,
    pid: u32,
}

/// The right to run a request now. It must be [ended](Turns::end).
#[must_use]
pub(crate) struct Turn(Option<Counted>);

/// A unit of a user's share in a lane.
struct Counted {
    uid: u32,
    lane: Lane,
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State {
            data: Queues::new(),
            opens: Queues::new(),
            waiting: Shares::new(MAX_WAITING),
        }))
    }

    /// The turn of a request, which came as `received` through `device`. `None` if it was queued; then
    /// [`Self::end`] returns it later.
    pub(crate) fn begin(
        &self,
        request: &Request<'_>,
        received: &[u8],
        device: &Arc<Device>,
    ) -> Option<Turn> {
        let uid = request.header.uid;
        let Some(lane) = Lane::of(request) else {
            return Some(Turn(None));
        };
        let mut state = self.state();
        let (queues, waiting) = state.lane(lane);
        if queues.running.take(uid, 1) {
            return Some(Turn(Some(Counted { uid, lane })));
        }
        // Without a running request there is no `end` that would take it from the queue.
        if queues.running.held(uid) == 0 || !waiting.take(uid, received.len()) {
            return Some(Turn(None));
        }
        let waiting = Waiting {
            device: device.clone(),
            request: received.into(),
            unique: request.header.unique,
            pid: request.header.pid,
        };
        queues.waiting.entry(uid).or_default().push_back(waiting);
        None
    }

    /// Notes that a request was answered. Returns the user's next queued request, whose turn it is.
    pub(crate) fn end(&self, turn: Turn) -> Option<(Turn, Waiting)> {
        let Counted { uid, lane } = turn.0?;
        let mut state = self.state();
        let (queues, waiting) = state.lane(lane);
        match queues.next(uid) {
            Some(next) => {
                waiting.give_back(uid, next.request.len());
                Some((Turn(Some(Counted { uid, lane })), next))
            }
            None => {
                queues.running.give_back(uid, 1);
                None
            }
        }
    }

    pub(crate) fn is_any_waiting(&self) -> bool {
        let state = self.state();
        let mut lanes = [&state.data, &state.opens].into_iter();
        lanes.any(|queues| !queues.waiting.is_empty())
    }

    /// Removes and returns the queued requests whose caller, given by its thread id, was killed.
    pub(crate) fn take_killed(&self, is_killed: impl Fn(u32) -> bool) -> Vec<Waiting> {
        // The lock is not held during `is_killed`, which is slow.
        let mut waiting = self.state().callers();
        waiting.retain(|(_, pid)| is_killed(*pid));
        let killed: HashSet<_> = waiting.into_iter().map(|(unique, _)| unique).collect();
        match killed.is_empty() {
            true => Vec::new(),
            false => self.state().take_out(&killed),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave it inconsistent: nothing panics between changes that belong together.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    fn of(request: &Request<'_>) -> Option<Self> {
        match request.header.opcode {
            opcode::READ | opcode::WRITE => Some(Self::Data),
            opcode::OPEN => Some(Self::Opens),
            opcode::SETATTR if opens_to_truncate(request) => Some(Self::Opens),
            _ => None,
        }
    }
}

impl State {
    /// The queues of a lane, and the shares of the memory of all queued requests.
    fn lane(&mut self, lane: Lane) -> (&mut Queues, &mut Shares) {
        let queues = match lane {
            Lane::Data => &mut self.data,
            Lane::Opens => &mut self.opens,
        };
        (queues, &mut self.waiting)
    }
}

impl State {
    /// The numbers of the queued requests, and the thread ids of their callers.
    fn callers(&self) -> Vec<(u64, u32)> {
        let lanes = [&self.data, &self.opens].into_iter();
        let all = lanes.flat_map(|queues| queues.waiting.values().flatten());
        all.map(|waiting| (waiting.unique, waiting.pid)).collect()
    }

    /// Removes and returns those of `requests` that are still queued.
    fn take_out(&mut self, requests: &HashSet<u64>) -> Vec<Waiting> {
        let mut all = Vec::new();
        for lane in [Lane::Data, Lane::Opens] {
            let (queues, waiting) = self.lane(lane);
            queues.waiting.retain(|uid, queue| {
                let is_meant = |request: &Waiting| requests.contains(&request.unique);
                let all_of_user = mem::take(queue).into_iter();
                let (out, left): (VecDeque<_>, _) = all_of_user.partition(is_meant);
                for request in &out {
                    waiting.give_back(*uid, request.request.len());
                }
                all.extend(out);
                *queue = left;
                !queue.is_empty()
            });
        }
        all
    }
}

/// Whether a request truncates a file by name, so that it has to be opened for that.
fn opens_to_truncate(request: &Request<'_>) -> bool {
    let changes = request.clone().take::<SetattrIn>();
    changes.is_ok_and(|changes| {
        let valid = Valid::from_bits_retain(changes.valid);
        valid.contains(Valid::SIZE) && !valid.contains(Valid::FH)
    })
}

impl Queues {
    fn new() -> Self {
        Self {
            running: Shares::new(MAX_RUNNING),
            waiting: HashMap::new(),
        }
    }

    /// Takes a user's oldest request.
    fn next(&mut self, uid: u32) -> Option<Waiting> {
        let queue = self.waiting.get_mut(&uid)?;
        let next = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&uid);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, mem::offset_of};

    use zerocopy::{FromZeros, IntoBytes};

    use super::*;
    use crate::abi::InHeader;

    /// A user other than the one who runs the tests.
    const USER: u32 = 4_000_000_000;

    /// How many requests a single user can have running.
    const SHARE: usize = MAX_RUNNING / 3;

    fn device() -> Arc<Device> {
        Arc::new(Device::new(File::open("/dev/null").unwrap().into()))
    }

    fn request(uid: u32, opcode: u32, unique: u64, arguments: &[u8]) -> Vec<u8> {
        let mut header = InHeader::new_zeroed();
        header.len = (size_of::<InHeader>() + arguments.len()) as u32;
        header.uid = uid;
        header.opcode = opcode;
        header.unique = unique;
        [header.as_bytes(), arguments].concat()
    }

    fn begin(turns: &Turns, request: &[u8]) -> Option<Turn> {
        turns.begin(&Request::parse(request).unwrap(), request, &device())
    }

    /// Begins as many opens as a user may have running.
    fn open_all(turns: &Turns, uid: u32) -> Vec<Turn> {
        let open = request(uid, opcode::OPEN, 0, &[]);
        let running: Vec<_> = (0..SHARE).map_while(|_| begin(turns, &open)).collect();
        assert_eq!(running.len(), SHARE);
        running
    }

    #[test]
    fn requests_beyond_the_share_are_queued_in_order() {
        let turns = Turns::new();
        let mut running = open_all(&turns, USER);
        let waiting: Vec<_> = (1..=2)
            .map(|unique| request(USER, opcode::OPEN, unique, &[]))
            .collect();
        for request in &waiting {
            assert!(begin(&turns, request).is_none());
        }
        for request in &waiting {
            let (turn, next) = turns.end(running.pop().unwrap()).unwrap();
            assert_eq!(*next.request, **request);
            running.push(turn);
        }
        // When all have ended, the whole share is free again.
        assert!(running.into_iter().all(|turn| turns.end(turn).is_none()));
        open_all(&turns, USER);
    }

    #[test]
    fn only_requests_of_the_same_kind_and_user_wait() {
        let turns = Turns::new();
        let _running = open_all(&turns, USER);
        let mut truncation = SetattrIn::new_zeroed();
        truncation.valid = Valid::SIZE.bits();
        let waits = request(USER, opcode::SETATTR, 0, truncation.as_bytes());
        assert!(begin(&turns, &waits).is_none());
        truncation.valid |= Valid::FH.bits();
        for request in [
            request(USER, opcode::SETATTR, 0, truncation.as_bytes()),
            request(USER, opcode::LOOKUP, 0, b"name\0"),
            request(USER, opcode::READ, 0, &[]),
            request(USER + 1, opcode::OPEN, 0, &[]),
            request(0, opcode::OPEN, 0, &[]),
        ] {
            assert!(begin(&turns, &request).is_some());
        }
    }

    #[test]
    fn queued_requests_of_killed_callers_are_removed() {
        let turns = Turns::new();
        let mut running = open_all(&turns, USER);
        for unique in 1..=3 {
            let mut waits = request(USER, opcode::OPEN, unique, &[]);
            // The caller's thread id is the same number.
            let pid = offset_of!(InHeader, pid);
            waits[pid..pid + 4].copy_from_slice(&(unique as u32).to_ne_bytes());
            assert!(begin(&turns, &waits).is_none());
        }
        assert!(turns.take_killed(|_| false).is_empty());
        let killed = turns.take_killed(|pid| pid == 2);
        assert_eq!(killed.len(), 1);
        assert_eq!(killed[0].unique, 2);
        for unique in [1, 3] {
            let (_turn, next) = turns.end(running.pop().unwrap()).unwrap();
            assert_eq!(next.unique, unique);
        }
        assert!(!turns.is_any_waiting());
        assert_eq!(turns.state().waiting.held(USER), 0);
    }

    #[test]
    fn a_user_without_a_running_request_is_never_queued() {
        let turns = Turns::new();
        let open = |uid| begin(&turns, &request(uid, opcode::OPEN, 0, &[]));
        // Many users, each of whom takes their whole share.
        for uid in USER..USER + MAX_RUNNING as u32 {
            assert!(open(uid).is_some());
            while open(uid).is_some_and(|turn| turn.0.is_some()) {}
        }
        assert!(open(USER - 1).is_some());
    }

    #[test]
    fn requests_that_take_too_much_memory_are_not_queued() {
        let turns = Turns::new();
        let write = request(USER, opcode::WRITE, 0, &vec![0; 1 << 20]);
        let mut waiting = 0;
        for _ in 0..SHARE {
            assert!(begin(&turns, &write).is_some());
        }
        while begin(&turns, &write).is_none() {
            waiting += write.len();
        }
        assert!((1..=MAX_WAITING / 3).contains(&waiting));
    }
}
