//! Injects a failing write or flush at any point while several threads use a volume.
//!
//! Confirmed flushes are durable when the volume is opened again, even if the machine crashes as
//! well. Once the failure made a request fail, no write or flush succeeds, and earlier writes can
//! still be read.

use std::{
    ops::{ControlFlow, Range},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use verimount_integrity::{Devices, Error, Mode, Volume};
use verimount_testkit::{Failing, Outage, OutageKind, Panicked, Random, Recording, go_on};

use crate::{
    SECTOR, check, expected, for_all_seeds,
    model::{Model, Stamp, bytes_of},
    mostly,
    report::Report,
    run,
    scenario::{Action, Memory, Scenario, in_order},
    waiter::Waiter,
};

/// The maximum number of writer threads; each writes to its own part of the volume.
const MAX_WRITERS: usize = 3;

/// The size of such a part in sectors: whole blocks of any block size.
const PART: usize = 24;

/// The maximum number of threads that only flush.
const MAX_FLUSHERS: usize = 2;

/// The number of flushes of each such thread.
const FLUSHES: usize = 6;

#[test]
fn flushed_writes_survive_a_failure_at_any_point() {
    let report = for_all_seeds(|seed, report| {
        let history = History::new(seed);
        for kind in OutageKind::ALL {
            // Until nothing fails.
            let mut good = 0;
            while history.fail(kind, good, report) {
                good += 1;
            }
        }
        report.count_seed();
    });
    println!("failures instead of crashes, {report}");
}

/// A request that waits for a failing one fails too, even if nothing is left for it to do.
#[test]
fn requests_that_wait_for_a_failing_one_are_refused() {
    let waits = AtomicUsize::new(0);
    for_all_seeds(|seed, _| {
        let history = History::new(seed);
        for request in [Change::flush(), Change::write_everywhere()] {
            let mut good = 0;
            while history.fail_with_waiter(&request, good, &waits) {
                good += 1;
            }
        }
    });
    assert!(waits.into_inner() > 0, "no thread has waited");
}

/// A flush that waits for another flush still covers writes made after that one began.
#[test]
fn a_waiting_flush_covers_all_earlier_writes() {
    let waits = AtomicUsize::new(0);
    for_all_seeds(|seed, _| {
        let scenario = Scenario::new(seed);
        let before = scenario.formatted();
        let mut good = 0;
        while flush_while_flushing(&scenario, &before, good, &waits) {
            good += 1;
        }
    });
    assert!(waits.into_inner() > 0, "no thread has waited");
}

/// Writes and flushes while an earlier flush is in progress, and then crashes the machine. Returns
/// whether there was such a flush.
fn flush_while_flushing(
    scenario: &Scenario,
    before: &[Vec<u8>],
    good: u64,
    waits: &AtomicUsize,
) -> bool {
    let [early, late] = [Change::write(0..PART), Change::write(PART..2 * PART)];
    let recording = Recording::new(before.to_vec());
    let waiter = Arc::new(Waiter::default());
    let action = {
        let waiter = waiter.clone();
        move || waiter.begin()
    };
    let outage = Arc::new(Outage::new(OutageKind::Pause, good).with_action(action));
    let options = scenario.open_options(scenario.mode);
    let volume = Volume::open(devices(&recording, &outage), &options).unwrap();
    let flushed = thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            waiter.run(|| {
                late.make(&volume).unwrap();
                volume.flush().unwrap();
                recording.crash_now()
            })
        });
        let ready = waiter.wait_until_ready();
        early.make(&volume).unwrap();
        volume.flush().unwrap();
        drop(ready);
        waiting.join().unwrap_or_else(|panic| resume_unwind(panic))
    });
    waits.fetch_add(waiter.has_waited().into(), SeqCst);
    if let Some(crash) = flushed {
        let mut model = expected(scenario, before, scenario.mode);
        early.note(&mut model);
        late.note(&mut model);
        model.flush();
        check(scenario, &model, &crash.nothing_survives(), scenario.mode);
    }
    outage.has_begun()
}

/// The actions of several threads on a volume, generated from a seed. The order in which the
/// requests reach the storage differs from run to run.
struct History {
    seed: u64,
    scenario: Scenario,
    before: Vec<Vec<u8>>,
    /// The initial contents of the volume.
    model: Model,
    writers: Vec<Vec<Action>>,
    flushers: usize,
    is_closed: bool,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let scenario = Scenario::new(seed);
        let before = used(&scenario, &mut random);
        let writers = (0..1 + random.below(MAX_WRITERS))
            .map(|number| actions(&scenario, number, &mut random))
            .collect();
        Self {
            seed,
            model: expected(&scenario, &before, scenario.mode),
            scenario,
            before,
            writers,
            flushers: random.below(MAX_FLUSHERS + 1),
            is_closed: random.coin(),
        }
    }

    /// Runs the history on failing devices, and checks what is left. Returns whether the failure
    /// occurred.
    fn fail(&self, kind: OutageKind, good: u64, report: &Report) -> bool {
        let recording = Recording::new(self.before.clone());
        let outage = Arc::new(Outage::new(kind, good));
        let result = catch_unwind(AssertUnwindSafe(|| {
            let model = self.model_after(&recording, &outage, kind);
            report.count_point(&model);
            let mut random = Random::new(self.seed ^ good << 32);
            let crash = recording.crash_now();
            for state in [crash.all_survives(), crash.any_state(&mut random)] {
                report.count_state(&model);
                let mode = mostly(model.mode, &mut random);
                check(&self.scenario, &model, &state, mode);
            }
        }));
        result.unwrap_or_else(|panic| {
            eprintln!("with a failure, {outage:?}, in {} mode", self.scenario.mode);
            resume_unwind(panic)
        });
        outage.has_begun()
    }

    /// Runs the history in one thread until the failure, while another thread begins a request.
    /// Returns whether the failure occurred.
    fn fail_with_waiter(&self, request: &Change, good: u64, waits: &AtomicUsize) -> bool {
        let waiter = Arc::new(Waiter::default());
        let action = {
            let waiter = waiter.clone();
            move || waiter.begin()
        };
        let recording = Recording::new(self.before.clone());
        let outage = Arc::new(Outage::new(OutageKind::Once, good).with_action(action));
        let options = self.scenario.open_options(self.scenario.mode);
        let Ok(volume) = Volume::open(devices(&recording, &outage), &options) else {
            return true;
        };
        thread::scope(|scope| {
            let waiting = scope.spawn(|| waiter.run(|| request.make(&volume)));
            let ready = waiter.wait_until_ready();
            let session = Session::new(&volume);
            let changes = self.writers.iter().flatten().cloned();
            for action in changes {
                let change = Change { action, stamp: 1 };
                if !session.succeeds(|volume| change.make(volume)) {
                    break;
                }
                // Even if the other thread received the storage's error, the change must fail.
                assert!(!outage.has_begun(), "{:?} gave no error", change.action);
            }
            drop(ready);
            let result = waiting.join().unwrap_or_else(|panic| resume_unwind(panic));
            if waiter.has_waited() {
                waits.fetch_add(1, SeqCst);
                let is_refused = matches!(result, Some(Err(Error::Latched(_))));
                assert!(
                    is_refused,
                    "{:?} gave {result:?} after {good}",
                    request.action
                );
            }
        });
        outage.has_begun()
    }

    /// Uses the volume, and returns what it may hold then.
    fn model_after(&self, recording: &Recording, outage: &Arc<Outage>, kind: OutageKind) -> Model {
        let mut model = self.model.clone();
        let options = self.scenario.open_options(self.scenario.mode);
        let opened = unless_panicked(|| Volume::open(devices(recording, outage), &options));
        let Some(Ok(volume)) = opened else {
            assert!(outage.has_begun(), "it cannot be opened");
            return model;
        };
        model.is_recalculating = volume.recalculation_sector().is_some();
        let session = Session::new(&volume);
        let changes: Vec<Vec<Change>> = thread::scope(|scope| {
            let session = &session;
            let writers: Vec<_> = (0..)
                .zip(&self.writers)
                .map(|(number, actions)| {
                    let random = Random::new(self.seed ^ number << 32);
                    scope.spawn(move || Writer::new(session, number as usize, random).run(actions))
                })
                .collect();
            for _ in 0..self.flushers {
                scope.spawn(|| (0..FLUSHES).for_each(|_| session.flush()));
            }
            let join = |writer: thread::ScopedJoinHandle<'_, _>| {
                writer.join().unwrap_or_else(|panic| resume_unwind(panic))
            };
            writers.into_iter().map(join).collect()
        });
        let Session {
            is_refusing,
            done,
            confirmed,
            ..
        } = session;
        let mut confirmed = confirmed.map(AtomicUsize::into_inner);
        let is_refusing = is_refusing.into_inner();
        assert!(!is_refusing || volume.failure().is_some());
        if self.is_closed && matches!(unless_panicked(|| volume.close()), Some(Ok(()))) {
            assert!(!is_refusing, "closed after a failure");
            confirmed = done.map(AtomicUsize::into_inner);
        }
        for (changes, confirmed) in changes.iter().zip(confirmed) {
            let confirmed = changes.iter().take(confirmed);
            confirmed.for_each(|change| change.note(&mut model));
        }
        model.flush();
        if kind == OutageKind::Panic && model.mode == Mode::Bitmap {
            // The volume stays in use without knowing that a block may lack a valid tag. After a
            // crash it has one.
            model.mode = Mode::Direct;
            model.is_recalculating = true;
        }
        for (changes, confirmed) in changes.iter().zip(confirmed) {
            let others = changes.iter().skip(confirmed);
            others.for_each(|change| change.note(&mut model));
        }
        model.mode = self.scenario.mode;
        model
    }
}

/// A volume shared by several threads.
struct Session<'a> {
    volume: &'a Volume,
    /// A request has failed because of the injected failure.
    is_refusing: AtomicBool,
    /// The number of successful changes of each writer.
    done: [AtomicUsize; MAX_WRITERS],
    /// The number of those that were flushed.
    confirmed: [AtomicUsize; MAX_WRITERS],
}

impl<'a> Session<'a> {
    fn new(volume: &'a Volume) -> Self {
        Self {
            volume,
            is_refusing: AtomicBool::new(false),
            done: Default::default(),
            confirmed: Default::default(),
        }
    }

    /// Whether a request succeeds. None may succeed after one has failed.
    fn succeeds(&self, request: impl FnOnce(&Volume) -> Result<(), Error>) -> bool {
        let is_refusing = self.is_refusing.load(SeqCst);
        match unless_panicked(|| request(self.volume)) {
            Some(Ok(())) => {
                assert!(!is_refusing, "a request succeeded after a failure");
                true
            }
            Some(Err(Error::Latched(_))) => {
                self.is_refusing.store(true, SeqCst);
                false
            }
            Some(Err(error)) => panic!("{error}"),
            None => false,
        }
    }

    fn flush(&self) {
        self.flushes(Volume::flush);
    }

    /// Whether a request that makes everything durable succeeds.
    fn flushes(&self, request: impl FnOnce(&Volume) -> Result<(), Error>) -> bool {
        let done = self.done.each_ref().map(|done| done.load(SeqCst));
        let succeeds = self.succeeds(request);
        if succeeds {
            for (confirmed, done) in self.confirmed.iter().zip(done) {
                confirmed.fetch_max(done, SeqCst);
            }
        }
        succeeds
    }
}

/// A change that a writer attempted.
struct Change {
    action: Action,
    stamp: Stamp,
}

impl Change {
    fn flush() -> Self {
        Self {
            action: Action::Flush,
            stamp: 0,
        }
    }

    fn write(sectors: Range<usize>) -> Self {
        Self {
            action: Action::Write(sectors),
            stamp: 1,
        }
    }

    /// A write to all parts. It begins and ends inside a block if blocks are larger than a sector.
    fn write_everywhere() -> Self {
        Self::write(1..MAX_WRITERS * PART - 1)
    }

    fn note(&self, model: &mut Model) {
        match self.action.clone() {
            Action::Write(range) | Action::Zero(range) => model.write(range, self.stamp),
            Action::Discard(range) => model.discard(range),
            Action::Accept(range) => model.rewrite(range),
            Action::Flush | Action::Recalculate | Action::Reopen(_) => {}
        }
    }

    fn make(&self, volume: &Volume) -> Result<(), Error> {
        let place = |range: &Range<usize>| {
            [range.start, range.len()].map(|sectors| (sectors * SECTOR) as u64)
        };
        match &self.action {
            Action::Write(range) => {
                let bytes: Vec<u8> = range
                    .clone()
                    .flat_map(|sector| bytes_of(self.stamp, sector))
                    .collect();
                volume.write_at(&bytes, place(range)[0])
            }
            Action::Zero(range) => {
                let [offset, len] = place(range);
                volume.write_zeroes(offset, len)
            }
            Action::Discard(range) => {
                let [offset, len] = place(range);
                volume.discard(offset, len)
            }
            Action::Accept(range) => volume.accept_unverified(range.start as u64..range.end as u64),
            Action::Flush => volume.flush(),
            Action::Recalculate => volume.recalculate(&mut go_on),
            Action::Reopen(_) => Ok(()),
        }
    }
}

/// A writer thread.
struct Writer<'a> {
    session: &'a Session<'a>,
    number: usize,
    random: Random,
    /// The successful changes, and the first failed one.
    changes: Vec<Change>,
    /// The expected contents of its part, where known.
    contents: Vec<Option<Stamp>>,
    has_failed: bool,
}

impl<'a> Writer<'a> {
    fn new(session: &'a Session<'a>, number: usize, random: Random) -> Self {
        Self {
            session,
            number,
            random,
            changes: Vec::new(),
            contents: vec![None; PART],
            has_failed: false,
        }
    }

    fn run(mut self, actions: &[Action]) -> Vec<Change> {
        for action in actions {
            let has_panicked = self.has_failed && !self.session.is_refusing.load(SeqCst);
            match action {
                // The contents before this change are unknown.
                _ if has_panicked => return self.changes,
                Action::Flush => self.session.flush(),
                Action::Recalculate => {
                    let progress = &mut |_| ControlFlow::Continue(());
                    let done = unless_panicked(|| self.session.volume.recalculate(progress));
                    // There may be nothing to do, even after a failure.
                    if let Some(Err(error)) = done {
                        self.session.succeeds(|_| Err(error));
                    }
                }
                action => self.change(action.clone()),
            }
            self.read();
        }
        self.changes
    }

    fn change(&mut self, action: Action) {
        let stamp = match action {
            Action::Write(_) => (self.random.number() as Stamp >> 1).max(1),
            _ => 0,
        };
        let change = Change { action, stamp };
        let succeeds = match change.action {
            Action::Accept(_) => self.session.flushes(|volume| change.make(volume)),
            _ => self.session.succeeds(|volume| change.make(volume)),
        };
        if self.has_failed {
            return;
        }
        self.has_failed = !succeeds;
        if succeeds {
            self.session.done[self.number].fetch_add(1, SeqCst);
        }
        self.note(&change);
        self.changes.push(change);
    }

    /// Records the contents to be read from here on.
    fn note(&mut self, change: &Change) {
        let block = self.session.volume.superblock().shape.block_size.sectors() as usize;
        let (sectors, stamp) = match change.action.clone() {
            Action::Write(range) | Action::Zero(range) => (range, Some(change.stamp)),
            Action::Discard(range) => {
                let start = range.start.next_multiple_of(block);
                (start..(range.end / block * block).max(start), Some(0))
            }
            _ => return,
        };
        // After a failed change, any part of it may be stored, and any block may mismatch.
        let (sectors, stamp) = if self.has_failed {
            (0..0, None)
        } else {
            (sectors, stamp)
        };
        for sector in sectors {
            self.contents[sector - self.number * PART] = stamp;
        }
    }

    /// Checks that own writes can be read, whatever has failed in other threads.
    fn read(&self) {
        if self.has_failed {
            return;
        }
        let first = self.number * PART;
        let mut bytes = vec![0; PART * SECTOR];
        let read = self
            .session
            .volume
            .read_at(&mut bytes, (first * SECTOR) as u64);
        read.unwrap();
        let sectors = (first..)
            .zip(bytes.chunks_exact(SECTOR))
            .zip(&self.contents);
        for ((sector, found), expected) in sectors {
            let is_right = expected.is_none_or(|stamp| found == bytes_of(stamp, sector));
            assert!(is_right, "sector {sector} has wrong contents");
        }
    }
}

/// The result of `action`; `None` if the storage panicked.
fn unless_panicked<T>(action: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(action)) {
        Ok(result) => Some(result),
        Err(panic) if panic.is::<Panicked>() => None,
        Err(panic) => resume_unwind(panic),
    }
}

/// A volume that was used, and in most cases not closed.
fn used(scenario: &Scenario, random: &mut Random) -> Vec<Vec<u8>> {
    let memory = Memory::new(scenario.formatted());
    let volume = scenario.open(memory.devices(), scenario.mode);
    let sectors = volume.size() as usize / SECTOR;
    assert!(sectors * 3 / 4 >= MAX_WRITERS * PART, "it is too small");
    for _ in 0..4 {
        let start = random.below(MAX_WRITERS * PART - 8);
        let stamp = (random.number() as Stamp >> 1).max(1);
        run::write(&volume, start..start + 1 + random.below(8), stamp);
        if random.coin() {
            volume.flush().unwrap();
        }
    }
    // In direct mode, unflushed writes could not be read.
    if scenario.mode == Mode::Direct || random.below(4) == 0 {
        volume.close().unwrap();
    }
    memory.contents()
}

/// The actions of a writer, all in its own part.
fn actions(scenario: &Scenario, writer: usize, random: &mut Random) -> Vec<Action> {
    let moved = |range: Range<usize>| range.start + writer * PART..range.end + writer * PART;
    // A scenario never writes the last quarter.
    let actions = scenario.actions(PART * 4 / 3, random).into_iter();
    actions
        .filter_map(|action| match action {
            Action::Write(range) => Some(Action::Write(moved(range))),
            Action::Zero(range) => Some(Action::Zero(moved(range))),
            Action::Discard(range) => Some(Action::Discard(moved(range))),
            Action::Accept(range) => Some(Action::Accept(moved(range))),
            Action::Flush | Action::Recalculate => Some(action),
            Action::Reopen(_) => None,
        })
        .collect()
}

fn devices(recording: &Recording, outage: &Arc<Outage>) -> Devices {
    in_order(
        recording
            .devices()
            .map(|device| Arc::new(Failing::new(device, outage.clone()))),
    )
}
