//! Whose requests are answered at once, and whose wait until one of the same user's has been.

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

/// How many requests of ordinary users are answered at once in each lane: one user has a third of
/// them, more than a disk has any use for.
const MAX_RUNNING: usize = 96;

/// How much memory the requests that wait may take, in bytes: a third of it holds one user's sixteen
/// largest writes, or a hundred thousand opens. What comes beyond that does not wait.
const MAX_WAITING: usize = 48 << 20;

/// Requests that take turns with others of their kind.
///
/// All others are answered at once: the kernel has locked a directory or a name for most of them, for
/// which other users would wait, too. They wait for storage at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// Reading and writing, which wait for storage. The kernel limits how much of it may be under way
    /// that nobody waits for (`max_background`), for all users together: so it must not stand behind
    /// opens.
    Data,
    /// Opening files, also to truncate them, which waits for whoever has a lease on the file. The
    /// kernel has locked nothing, or only a file that the user may write to.
    Opens,
}

/// The users' turns.
pub(crate) struct Turns(Mutex<State>);

struct State {
    data: Queues,
    opens: Queues,
    /// The bytes of the requests that wait.
    waiting: Shares,
}

struct Queues {
    running: Shares,
    waiting: HashMap<u32, VecDeque<Waiting>>,
}

/// A request that waits.
pub(crate) struct Waiting {
    /// What it is to be answered through.
    pub(crate) device: Arc<Device>,
    /// All of it.
    pub(crate) request: Box<[u8]>,
    /// Its number, and its caller's.
    pub(crate) unique: u64,
    pid: u32,
}

/// The right to answer a request now. It must be [ended](Turns::end).
#[must_use]
pub(crate) struct Turn(Option<Counted>);

/// What a turn takes away from its user's others.
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

    /// The turn of a request, which came as `received` through `device`. If there is none, the request
    /// is kept, and comes back from [`Self::end`].
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
        // One who has nothing under way would wait for ever.
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

    /// Notes that a request was answered. If the same user has one that waits, its turn has come.
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

    /// Takes out the requests that wait and whose caller, by its number, was killed.
    pub(crate) fn take_killed(&self, is_killed: impl Fn(u32) -> bool) -> Vec<Waiting> {
        // To ask takes long: meanwhile others need this.
        let mut waiting = self.state().callers();
        waiting.retain(|(_, pid)| is_killed(*pid));
        let killed: HashSet<_> = waiting.into_iter().map(|(unique, _)| unique).collect();
        match killed.is_empty() {
            true => Vec::new(),
            false => self.state().take_out(&killed),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic comes between two changes that belong together.
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
    /// The queues of a lane, and the memory that all requests that wait share.
    fn lane(&mut self, lane: Lane) -> (&mut Queues, &mut Shares) {
        let queues = match lane {
            Lane::Data => &mut self.data,
            Lane::Opens => &mut self.opens,
        };
        (queues, &mut self.waiting)
    }
}

impl State {
    /// The requests that wait, each by its number, and their callers.
    fn callers(&self) -> Vec<(u64, u32)> {
        let lanes = [&self.data, &self.opens].into_iter();
        let all = lanes.flat_map(|queues| queues.waiting.values().flatten());
        all.map(|waiting| (waiting.unique, waiting.pid)).collect()
    }

    /// Takes out those of `requests` that still wait.
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

/// Whether a request changes the length of a file that its caller has not opened.
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

    /// The request of a user that has waited longest.
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

    /// A user who is not the one who runs the tests.
    const USER: u32 = 4_000_000_000;

    /// As many as one user has under way.
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

    /// Opens as much as a user may have under way.
    fn open_all(turns: &Turns, uid: u32) -> Vec<Turn> {
        let open = request(uid, opcode::OPEN, 0, &[]);
        let running: Vec<_> = (0..SHARE).map_while(|_| begin(turns, &open)).collect();
        assert_eq!(running.len(), SHARE);
        running
    }

    #[test]
    fn requests_beyond_the_share_come_back_in_order() {
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
        // When all have ended, nothing is held any more.
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
    fn who_is_killed_waits_no_longer() {
        let turns = Turns::new();
        let mut running = open_all(&turns, USER);
        for unique in 1..=3 {
            let mut waits = request(USER, opcode::OPEN, unique, &[]);
            // Its caller has the same number.
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
    fn nobody_waits_who_has_nothing_under_way() {
        let turns = Turns::new();
        let open = |uid| begin(&turns, &request(uid, opcode::OPEN, 0, &[]));
        // Each of so many users takes as much as there is for them.
        for uid in USER..USER + MAX_RUNNING as u32 {
            assert!(open(uid).is_some());
            while open(uid).is_some_and(|turn| turn.0.is_some()) {}
        }
        assert!(open(USER - 1).is_some());
    }

    #[test]
    fn what_would_take_too_much_memory_does_not_wait() {
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
