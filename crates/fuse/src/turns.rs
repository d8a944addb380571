//! Limits how many requests of each user run at once; further ones are queued until one of them ends.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    mem,
    sync::Arc,
};

use verimount_sync::Mutex;

use crate::{
    Shares,
    abi::{SetattrIn, opcode},
    device::Device,
    request::Request,
    types::Valid,
};

/// The most requests of ordinary users that run at once in all lanes together.
pub(crate) const MAX_RUNNING: usize = {
    let (mut sum, mut lane) = (0, 0);
    while lane < Lane::ALL.len() {
        sum += Lane::ALL[lane].max_running();
        lane += 1;
    }
    sum
};

/// The kinds of requests that are limited, each on its own.
///
/// All others run at once: for most of them the kernel has locked a directory or a name, for which other
/// users would wait as well. They wait for nothing but storage.
///
/// A request must not be queued behind one that may wait for it. A request that runs waits for locks of
/// the source's file system, but for none of the mount's. So a caller for whom the kernel has locked a file
/// of the mount can be queued; one that has locked a file of the source only behind requests that need no
/// such lock. Page faults are of the second kind: they read whatever their process has locked. So reads have
/// another lane than requests that lock the source's files for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// Reads and writes, which wait for storage. The kernel limits background requests
    /// (`max_background`) for all users together, so these must not queue behind others.
    Data,
    /// Opens, also to truncate, which may wait until another process gives up its lease on the file.
    /// Meanwhile the kernel holds no lock, or only that of a file to which the user may write.
    Opens,
    /// Operations on open files and directories that may take as long as many reads and writes. Meanwhile
    /// the kernel has locked the file or directory that the user has open.
    Long,
}

/// All users' turns.
pub(crate) struct Turns(Mutex<[Queues; Lane::ALL.len()]>);

/// The requests of a lane.
struct Queues {
    running: Shares,
    waiting: HashMap<u32, VecDeque<Waiting>>,
    /// The bytes of the queued requests.
    bytes: Shares,
}

/// A queued request.
pub(crate) struct Waiting {
    /// The device to answer through.
    pub(crate) device: Arc<Device>,
    /// The whole request as received.
    pub(crate) request: Box<[u8]>,
    /// The request's number, and its caller's thread id.
    pub(crate) unique: u64,
    pub(crate) pid: u32,
    /// Whether the file system has held it.
    pub(crate) was_held: bool,
}

impl Waiting {
    /// The request that came as `received` through `device`.
    pub(crate) fn new(request: &Request<'_>, received: &[u8], device: &Arc<Device>) -> Self {
        Self {
            device: device.clone(),
            request: received.into(),
            unique: request.header.unique,
            pid: request.header.pid,
            was_held: false,
        }
    }
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
        Self(Mutex::new(Lane::ALL.map(Queues::new)))
    }

    /// The turn of a request, which came as `received` through `device`. `None` if it was queued; then
    /// [`Self::end`] returns it later. If this thread `reads_alone`, the request of a user who has one running is
    /// queued even if it is within their share: nobody would read the requests of others meanwhile.
    pub(crate) fn begin(
        &self,
        request: &Request<'_>,
        received: &[u8],
        device: &Arc<Device>,
        reads_alone: bool,
    ) -> Option<Turn> {
        let uid = request.header.uid;
        let Some(lane) = Lane::of(request) else {
            return Some(Turn(None));
        };
        let queues = &mut self.0.lock()[lane as usize];
        // Without a running request there is no `end` that would take one from the queue.
        let can_wait = queues.running.held(uid) > 0;
        let must_wait = can_wait && reads_alone;
        if !must_wait && queues.running.take(uid, 1) {
            return Some(Turn(Some(Counted { uid, lane })));
        }
        if !can_wait || !queues.bytes.take(uid, received.len()) {
            return Some(Turn(None));
        }
        let waiting = Waiting::new(request, received, device);
        queues.waiting.entry(uid).or_default().push_back(waiting);
        queues.check(uid);
        None
    }

    /// The turn of a request that was held. `None` if it was queued.
    pub(crate) fn begin_again(&self, waiting: Waiting) -> Option<(Turn, Waiting)> {
        let request = Request::parse(&waiting.request);
        let uid = request.as_ref().map_or(0, |request| request.header.uid);
        let Some(lane) = request.as_ref().and_then(Lane::of) else {
            return Some((Turn(None), waiting));
        };
        let queues = &mut self.0.lock()[lane as usize];
        if queues.running.take(uid, 1) {
            return Some((Turn(Some(Counted { uid, lane })), waiting));
        }
        if queues.running.held(uid) == 0 || !queues.bytes.take(uid, waiting.request.len()) {
            return Some((Turn(None), waiting));
        }
        queues.waiting.entry(uid).or_default().push_back(waiting);
        queues.check(uid);
        None
    }

    /// The turn of a queued request that is within its user's share after all, for another thread.
    pub(crate) fn begin_queued(&self) -> Option<(Turn, Waiting)> {
        let mut lanes = self.0.lock();
        Lane::ALL.into_iter().find_map(|lane| {
            let queues = &mut lanes[lane as usize];
            let uid = queues.user_with_room()?;
            let is_within = queues.running.take(uid, 1);
            debug_assert!(is_within, "there is room for a user's request");
            let next = queues.next(uid).filter(|_| is_within)?;
            Some((Turn(Some(Counted { uid, lane })), next))
        })
    }

    /// Whether there is such a request.
    pub(crate) fn can_begin_queued(&self) -> bool {
        let lanes = self.0.lock();
        lanes.iter().any(|queues| queues.user_with_room().is_some())
    }

    /// Notes that a request was answered. Returns the user's next queued request, whose turn it is.
    pub(crate) fn end(&self, turn: Turn) -> Option<(Turn, Waiting)> {
        let Counted { uid, lane } = turn.0?;
        let queues = &mut self.0.lock()[lane as usize];
        let next = queues.next(uid);
        if next.is_none() {
            queues.running.give_back(uid, 1);
        }
        queues.check(uid);
        Some((Turn(Some(Counted { uid, lane })), next?))
    }

    pub(crate) fn is_any_waiting(&self) -> bool {
        let lanes = self.0.lock();
        lanes.iter().any(|queues| !queues.waiting.is_empty())
    }

    /// Removes and returns the queued requests whose caller, given by its thread id, was killed. They have
    /// not begun, so it does not matter whether they [can be abandoned](Request::can_be_abandoned).
    pub(crate) fn take_killed(&self, is_killed: impl Fn(u32) -> bool) -> Vec<Waiting> {
        // The lock is not held during `is_killed`, which is slow.
        let mut waiting = self.callers();
        waiting.retain(|(_, pid)| is_killed(*pid));
        let killed: HashSet<_> = waiting.into_iter().map(|(unique, _)| unique).collect();
        if killed.is_empty() {
            return Vec::new();
        }
        let mut lanes = self.0.lock();
        let taken = lanes.iter_mut().map(|queues| queues.take_out(&killed));
        taken.collect::<Vec<_>>().into_iter().flatten().collect()
    }

    /// The numbers of the queued requests, and the thread ids of their callers.
    fn callers(&self) -> Vec<(u64, u32)> {
        let lanes = self.0.lock();
        let all = lanes
            .iter()
            .flat_map(|queues| queues.waiting.values().flatten());
        all.map(|waiting| (waiting.unique, waiting.pid)).collect()
    }
}

impl Lane {
    const ALL: [Self; 3] = [Self::Data, Self::Opens, Self::Long];

    fn of(request: &Request<'_>) -> Option<Self> {
        match request.header.opcode {
            opcode::READ | opcode::WRITE => Some(Self::Data),
            opcode::OPEN => Some(Self::Opens),
            opcode::SETATTR => Self::of_truncation(request),
            opcode::FSYNC
            | opcode::FSYNCDIR
            | opcode::FALLOCATE
            | opcode::LSEEK
            | opcode::COPY_FILE_RANGE
            | opcode::COPY_FILE_RANGE_64 => Some(Self::Long),
            _ => None,
        }
    }

    /// The lane of a change of attributes, which has one if it truncates: a file that is given by its name has
    /// to be opened for that.
    fn of_truncation(request: &Request<'_>) -> Option<Self> {
        let changes = request.clone().take::<SetattrIn>().ok()?;
        let valid = Valid::from_bits_retain(changes.valid);
        let lane = if valid.contains(Valid::FH) {
            Self::Long
        } else {
            Self::Opens
        };
        valid.contains(Valid::SIZE).then_some(lane)
    }

    /// How many requests of ordinary users run at once: a single user gets a third of them.
    const fn max_running(self) -> usize {
        match self {
            // 32 for one user are more than a disk can use.
            Self::Data | Self::Opens => 96,
            // Copies keep processors busy, and 16 of them for one user more than most machines have.
            Self::Long => 48,
        }
    }

    /// How much memory queued requests may take, in bytes; a single user gets a third of it. Requests beyond
    /// it run at once. It is not shared among lanes, so that queued writes cannot push others out.
    const fn max_waiting(self) -> usize {
        match self {
            // Sixteen of the largest writes of a user.
            Self::Data => 48 << 20,
            // More requests than a user usually may have threads: some fifty thousand, of 64 to 128 bytes.
            Self::Opens | Self::Long => 16 << 20,
        }
    }
}

impl Queues {
    fn new(lane: Lane) -> Self {
        Self {
            running: Shares::new(lane.max_running()),
            waiting: HashMap::new(),
            bytes: Shares::new(lane.max_waiting()),
        }
    }

    /// A user with queued requests whose share is not used up.
    fn user_with_room(&self) -> Option<u32> {
        let mut users = self.waiting.keys().copied();
        users.find(|uid| self.running.can_take(*uid, 1))
    }

    /// Takes a user's oldest request.
    fn next(&mut self, uid: u32) -> Option<Waiting> {
        let queue = self.waiting.get_mut(&uid)?;
        let next = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&uid);
        }
        self.bytes.give_back(uid, next.request.len());
        Some(next)
    }

    /// Removes and returns those of `requests` that are still queued.
    fn take_out(&mut self, requests: &HashSet<u64>) -> Vec<Waiting> {
        let mut all = Vec::new();
        self.waiting.retain(|uid, queue| {
            let is_meant = |request: &Waiting| requests.contains(&request.unique);
            let all_of_user = mem::take(queue).into_iter();
            let (out, left): (VecDeque<_>, _) = all_of_user.partition(is_meant);
            for request in &out {
                self.bytes.give_back(*uid, request.request.len());
            }
            all.extend(out);
            *queue = left;
            !queue.is_empty()
        });
        all
    }

    fn check(&self, uid: u32) {
        let queue = self.waiting.get(&uid);
        debug_assert!(queue.is_none_or(|queue| !queue.is_empty()));
        debug_assert_eq!(queue.is_some(), self.bytes.held(uid) > 0);
        debug_assert!(
            queue.is_none() || self.running.held(uid) > 0,
            "nobody would take a request from the queue"
        );
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

    /// How many requests a single user can have running in a lane.
    const fn share(lane: Lane) -> usize {
        lane.max_running() / 3
    }

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
        turns.begin(&Request::parse(request).unwrap(), request, &device(), false)
    }

    /// Begins as many requests as a user may have running in a lane.
    fn take_all(turns: &Turns, uid: u32, lane: Lane) -> Vec<Turn> {
        let opcode = match lane {
            Lane::Data => opcode::READ,
            Lane::Opens => opcode::OPEN,
            Lane::Long => opcode::FSYNC,
        };
        let one = request(uid, opcode, 0, &[]);
        let all = (0..share(lane)).map_while(|_| begin(turns, &one));
        let running: Vec<_> = all.collect();
        assert_eq!(running.len(), share(lane));
        running
    }

    /// A change of a file's length, given by its handle or by its name.
    fn truncation(uid: u32, by: Valid) -> Vec<u8> {
        let mut truncation = SetattrIn::new_zeroed();
        truncation.valid = (Valid::SIZE | by).bits();
        request(uid, opcode::SETATTR, 0, truncation.as_bytes())
    }

    #[test]
    fn requests_beyond_the_share_are_queued_in_order() {
        let turns = Turns::new();
        let mut running = take_all(&turns, USER, Lane::Opens);
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
        take_all(&turns, USER, Lane::Opens);
    }

    #[test]
    fn only_requests_of_the_same_kind_and_user_wait() {
        let turns = Turns::new();
        let _running = take_all(&turns, USER, Lane::Opens);
        assert!(begin(&turns, &truncation(USER, Valid::empty())).is_none());
        for request in [
            truncation(USER, Valid::FH),
            request(USER, opcode::SETATTR, 0, SetattrIn::new_zeroed().as_bytes()),
            request(USER, opcode::LOOKUP, 0, b"name\0"),
            request(USER, opcode::READ, 0, &[]),
            request(USER + 1, opcode::OPEN, 0, &[]),
            request(0, opcode::OPEN, 0, &[]),
        ] {
            assert!(begin(&turns, &request).is_some());
        }
    }

    #[test]
    fn long_operations_wait_for_one_another() {
        let turns = Turns::new();
        let _running = take_all(&turns, USER, Lane::Long);
        let waits = [
            opcode::FSYNC,
            opcode::FSYNCDIR,
            opcode::FALLOCATE,
            opcode::LSEEK,
            opcode::COPY_FILE_RANGE,
            opcode::COPY_FILE_RANGE_64,
        ];
        let waits = waits.map(|opcode| request(USER, opcode, 0, &[]));
        for request in waits.iter().chain([&truncation(USER, Valid::FH)]) {
            assert!(begin(&turns, request).is_none());
        }
        // A page fault reads whatever its process has locked.
        for runs in [opcode::READ, opcode::WRITE, opcode::OPEN] {
            assert!(begin(&turns, &request(USER, runs, 0, &[])).is_some());
        }
        assert!(begin(&turns, &request(USER + 1, opcode::FSYNC, 0, &[])).is_some());
    }

    #[test]
    fn queued_requests_of_killed_callers_are_removed() {
        let turns = Turns::new();
        let mut running = take_all(&turns, USER, Lane::Long);
        for unique in 1..=3 {
            // Once it has begun, it cannot be abandoned.
            let mut waits = request(USER, opcode::FALLOCATE, unique, &[]);
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
        assert_eq!(turns.0.lock()[Lane::Long as usize].bytes.held(USER), 0);
    }

    #[test]
    fn the_last_thread_runs_only_one_request_of_a_user() {
        let turns = Turns::new();
        let begin = |uid, opcode| {
            let bytes = request(uid, opcode, 0, &[]);
            turns.begin(&Request::parse(&bytes).unwrap(), &bytes, &device(), true)
        };
        let running = begin(USER, opcode::OPEN).unwrap();
        assert!(begin(USER, opcode::OPEN).is_none());
        // Of others, of another kind, or not limited.
        for (uid, opcode) in [
            (USER + 1, opcode::OPEN),
            (USER, opcode::READ),
            (USER, opcode::LOOKUP),
            (0, opcode::OPEN),
            (0, opcode::OPEN),
        ] {
            assert!(begin(uid, opcode).is_some());
        }
        // Another thread can run it.
        let (queued, _) = turns.begin_queued().unwrap();
        assert!(turns.begin_queued().is_none());
        assert!(turns.end(running).is_none());
        assert!(turns.end(queued).is_none());
    }

    #[test]
    fn a_user_without_a_running_request_is_never_queued() {
        let turns = Turns::new();
        let open = |uid| begin(&turns, &request(uid, opcode::OPEN, 0, &[]));
        // Many users, each of whom takes their whole share.
        for uid in USER..USER + Lane::Opens.max_running() as u32 {
            assert!(open(uid).is_some());
            while open(uid).is_some_and(|turn| turn.0.is_some()) {}
        }
        assert!(open(USER - 1).is_some());
    }

    #[test]
    fn requests_that_take_too_much_memory_are_not_queued() {
        let turns = Turns::new();
        let _running = take_all(&turns, USER, Lane::Data);
        let mut waiting = 0;
        for size in [1 << 20, 1 << 16, 1 << 12, 0] {
            let write = request(USER, opcode::WRITE, 0, &vec![0; size]);
            while begin(&turns, &write).is_none() {
                waiting += write.len();
            }
        }
        assert!((1..=Lane::Data.max_waiting() / 3).contains(&waiting));
        // Requests of other kinds have room of their own.
        let _running = take_all(&turns, USER, Lane::Opens);
        assert!(begin(&turns, &request(USER, opcode::OPEN, 0, &[])).is_none());
    }
}
