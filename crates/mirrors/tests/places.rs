//! Reads through several places, of which some fail or are wrong.

use std::{
    io,
    ops::Range,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use verimount_cache::{Cache, Cached, Key, Part};
use verimount_mirrors::{MirrorStats, Mirrored, Mirrors, PlaceKind};
use verimount_source::{Ask, Fetch, Given, Hint, ReadError, stream_in_pieces};
use verimount_sync::Mutex;
use verimount_testkit::{Doubtful, noise};

const SIZE: usize = 100_000;

/// What Linux says of a bad sector.
const EIO: i32 = 5;

const TIMEOUT: Duration = Duration::from_secs(4);

/// A copy that can be damaged, fail, and be mended.
struct Copy {
    bytes: Mutex<Vec<u8>>,
    /// It cannot even be opened.
    fails: AtomicBool,
    /// Reads of any of these bytes fail.
    unreadable: Mutex<Vec<usize>>,
    asked: AtomicUsize,
    /// Writes of any of these bytes fail in this way.
    unwritable: Mutex<Option<(Range<usize>, io::ErrorKind)>>,
    writes: AtomicUsize,
}

impl Copy {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            bytes: Mutex::new(noise(SIZE, 1)),
            fails: AtomicBool::new(false),
            unreadable: Mutex::default(),
            asked: AtomicUsize::new(0),
            unwritable: Mutex::default(),
            writes: AtomicUsize::new(0),
        })
    }

    fn damage(&self, range: Range<usize>) {
        self.bytes.lock()[range]
            .iter_mut()
            .for_each(|byte| *byte ^= 1);
    }

    fn set_failing(&self, fails: bool) {
        self.fails.store(fails, SeqCst);
    }
}

impl Fetch for Copy {
    fn length(&self) -> u64 {
        SIZE as u64
    }

    fn fetch(&self, buf: &mut [u8], offset: u64, _: Ask<'_>) -> Result<Given, ReadError> {
        self.asked.fetch_add(1, SeqCst);
        let range = offset as usize..offset as usize + buf.len();
        let is_bad = self.unreadable.lock().iter().any(|at| range.contains(at));
        let failed = ReadError::io(offset, buf.len());
        if self.fails.load(SeqCst) {
            return Err(failed(io::Error::other("it is to fail")));
        }
        if is_bad {
            return Err(failed(io::Error::from_raw_os_error(EIO)));
        }
        buf.copy_from_slice(&self.bytes.lock()[offset as usize..][..buf.len()]);
        Ok(Given::default())
    }

    fn stream(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        stream_in_pieces(self, range, take)
    }

    fn hint(&self, _: Range<u64>, _: Hint) {}

    fn distrust(&self, _: Range<u64>, _: &Given) -> u32 {
        0
    }

    fn mend(&self, right: &[u8], offset: u64) -> io::Result<()> {
        self.writes.fetch_add(1, SeqCst);
        let offset = offset as usize;
        if let Some((range, kind)) = &*self.unwritable.lock()
            && offset < range.end
            && offset + right.len() > range.start
        {
            return Err((*kind).into());
        }
        self.bytes.lock()[offset..][..right.len()].copy_from_slice(right);
        Ok(())
    }
}

fn mirrored(mirrors: &Arc<Mirrors>, copies: &[Arc<Copy>]) -> Mirrored {
    let copies = copies.iter().map(|copy| copy.clone() as _);
    mirrors.part("data", copies.collect())
}

/// Reads and verifies as a reader with blocks of 1000 bytes does.
fn read(source: &Mirrored, range: Range<usize>) -> Result<(), Option<ReadError>> {
    let right = noise(SIZE, 1);
    let mut buf = vec![0; range.len()];
    let mut given = source.fetch(&mut buf, range.start as u64, Ask::default())?;
    let mut left = u32::MAX;
    loop {
        let wrong =
            |block: &usize| buf[*block..block + 1000] != right[range.start + block..][..1000];
        let wrong: Vec<usize> = (0..buf.len()).step_by(1000).filter(wrong).collect();
        if wrong.is_empty() {
            source.mend(&buf, range.start as u64).unwrap();
            return Ok(());
        }
        let at = |block: usize| (range.start + block) as u64;
        let told = wrong
            .iter()
            .map(|block| source.distrust(at(*block)..at(*block) + 1000, &given));
        if left > 0 {
            left = told.max().unwrap().min(left);
        }
        if left == 0 {
            return Err(None);
        }
        left -= 1;
        for block in wrong {
            let buf = &mut buf[block..block + 1000];
            let ask = Ask::after(&given);
            given.add(source.fetch(buf, at(block), ask)?);
        }
    }
}

fn of(stats: &MirrorStats, count: fn(&verimount_mirrors::PlaceStats) -> u64) -> Vec<u64> {
    stats.places.iter().map(count).collect()
}

#[test]
fn only_what_is_wrong_comes_from_another_place() {
    let copies = [Copy::new(), Copy::new()];
    copies[0].damage(5_500..5_600);
    copies[0].damage(20_000..20_001);
    copies[1].damage(6_000..15_000);
    let places = ["a", "b"].map(|name| (name, PlaceKind::Near));
    let mirrors = Mirrors::new(places, TIMEOUT, false);
    let source = mirrored(&mirrors, &copies);
    read(&source, 0..SIZE).unwrap();
    let stats = mirrors.stats();
    assert_eq!(of(&stats, |place| place.wrong), [2, 0]);
    assert_eq!(of(&stats, |place| place.asked), [1, 2]);
    // The place that is known to be wrong is not asked for that again.
    read(&source, 5_000..6_000).unwrap();
    assert_eq!(copies[0].asked.load(SeqCst), 1);
    assert_eq!(mirrors.stats().healed, 3);
}

#[test]
fn what_is_wrong_everywhere_fails_after_as_many_reads_as_there_may_be() {
    let copies = [Copy::new(), Copy::new(), Copy::new()];
    copies.iter().for_each(|copy| copy.damage(3_000..3_001));
    let places = ["a", "b", "c"].map(|name| (name, PlaceKind::Far));
    let source = mirrored(&Mirrors::new(places, TIMEOUT, false), &copies);
    assert!(matches!(read(&source, 3_000..4_000), Err(None)));
    let asked = || {
        copies
            .iter()
            .map(|copy| copy.asked.load(SeqCst))
            .sum::<usize>()
    };
    assert_eq!(asked(), 6);
    assert!(matches!(read(&source, 3_000..4_000), Err(None)));
    assert_eq!(asked(), 7);
    read(&source, 4_000..5_000).unwrap();
}

/// Far places of the same content share what a cache keeps of it, in granules that are larger than what is verified at once.
#[test]
fn what_one_place_gave_wrong_is_not_taken_for_what_others_give() {
    let copies = [Copy::new(), Copy::new()];
    copies[0].damage(5_000..5_001);
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path(), None).unwrap();
    let object = cache.object(&Key::new("sha256-1").unwrap(), Part::Data, SIZE as u64);
    let object = object.unwrap();
    let cached = copies
        .iter()
        .map(|copy| -> Arc<dyn Fetch> { Arc::new(Cached::new(copy.clone(), object.clone())) });
    let mirrors = Mirrors::new(
        ["a", "b"].map(|name| (name, PlaceKind::Far)),
        TIMEOUT,
        false,
    );
    let source = mirrors.part("data", cached.collect());
    read(&source, 0..10_000).unwrap();
    // Anew, as the first place gives what is before it.
    object.reject(0..SIZE as u64);
    read(&source, 0..10_000).unwrap();
    assert_eq!(of(&mirrors.stats(), |place| place.wrong), [1, 0]);
}

/// It is damaged, and not only that the others do not answer.
#[test]
fn what_is_wrong_and_cannot_be_read_elsewhere_is_wrong() {
    for other in [PlaceKind::Near, PlaceKind::Far] {
        let copies = [Copy::new(), Copy::new()];
        copies[0].damage(3_000..3_001);
        copies[1].set_failing(true);
        let mirrors = Mirrors::new(
            [("a", PlaceKind::Near), ("b", other)],
            Duration::ZERO,
            false,
        );
        let source = mirrored(&mirrors, &copies);
        for _ in 0..3 {
            assert!(matches!(read(&source, 3_000..4_000), Err(None)));
        }
        let asked = copies[0].asked.load(SeqCst);
        assert!(asked <= 6, "{asked}");
        assert_eq!(mirrors.stats().healed, 0);
        copies[1].set_failing(false);
        read(&source, 3_000..4_000).unwrap();
    }
}

/// The first of them is waited for; whoever verifies a read gets the others right after it.
#[test]
fn many_wrong_blocks_wait_once_for_one_who_does_not_answer() {
    const TIMEOUT: Duration = Duration::from_millis(500);
    let copies = [Copy::new(), Copy::new()];
    let wrong = (0..SIZE).step_by(5_000);
    let count = wrong.clone().count();
    wrong.for_each(|at| copies[0].damage(at..at + 1));
    copies[1].set_failing(true);
    let mirrors = Mirrors::new(
        [("a", PlaceKind::Near), ("b", PlaceKind::Far)],
        TIMEOUT,
        false,
    );
    let source = mirrored(&mirrors, &copies);
    assert!(matches!(read(&source, 0..SIZE), Err(None)));
    let asked = copies[1].asked.load(SeqCst);
    assert!(asked <= 4 * count, "{asked}");
}

#[test]
fn a_far_place_that_fails_rests_until_it_answers() {
    let copies = [Copy::new(), Copy::new()];
    let places = ["a", "b"].map(|name| (name, PlaceKind::Far));
    let mirrors = Mirrors::new(places, TIMEOUT, false);
    let source = mirrored(&mirrors, &copies);
    copies[0].set_failing(true);
    (0..10).for_each(|_| read(&source, 0..1000).unwrap());
    assert_eq!(of(&mirrors.stats(), |place| place.asked), [1, 10]);
    assert!(mirrors.stats().places[0].rests);
    copies[0].set_failing(false);
    // It is looked at when it has rested.
    verimount_testkit::eventually("it is well again", || {
        read(&source, 0..1000).unwrap();
        !mirrors.stats().places[0].rests
    });
    let before = copies[1].asked.load(SeqCst);
    read(&source, 0..1000).unwrap();
    assert_eq!(copies[1].asked.load(SeqCst), before);
}

#[test]
fn a_place_that_rests_is_asked_if_the_others_fail() {
    let copies = [Copy::new(), Copy::new()];
    let mirrors = Mirrors::new(
        [("a", PlaceKind::Far), ("b", PlaceKind::Near)],
        TIMEOUT,
        false,
    );
    let source = mirrored(&mirrors, &copies);
    copies[0].set_failing(true);
    read(&source, 0..1000).unwrap();
    copies[0].set_failing(false);
    copies[1].set_failing(true);
    read(&source, 0..1000).unwrap();
    assert_eq!(of(&mirrors.stats(), |place| place.failed), [1, 1]);
}

#[test]
fn a_wrong_place_is_asked_again_if_it_was_blamed_for_another() {
    let copies = [Copy::new(), Copy::new()];
    copies[1].damage(0..1);
    let places = ["a", "b"].map(|name| (name, PlaceKind::Near));
    let source = mirrored(&Mirrors::new(places, TIMEOUT, false), &copies);
    // As a cache above that was damaged: what was read here is right.
    let given = source.fetch(&mut [0; 1000], 0, Ask::default()).unwrap();
    assert!(source.distrust(0..1000, &given) > 0);
    read(&source, 0..1000).unwrap();
}

/// Both are in what one read is for.
#[test]
fn what_cannot_be_read_in_one_block_is_read_in_the_others() {
    let copies = [Copy::new(), Copy::new(), Copy::new()];
    *copies[0].unreadable.lock() = vec![12_288, 50_000];
    *copies[1].unreadable.lock() = vec![20_480];
    *copies[2].unreadable.lock() = (0..SIZE).step_by(1000).collect();
    let places = ["a", "b", "c"].map(|name| (name, PlaceKind::Near));
    let mirrors = Mirrors::new(places, TIMEOUT, true);
    let source = mirrored(&mirrors, &copies);
    read(&source, 0..SIZE).unwrap();
    mirrors.finish_repairs();
    let stats = mirrors.stats();
    // Only the blocks that cannot be read are replaced.
    assert_eq!(of(&stats, |place| place.bytes_repaired), [8192, 0, 0]);
}

#[test]
fn a_block_that_can_be_read_nowhere_fails_and_the_others_do_not() {
    let copies = [Copy::new(), Copy::new()];
    *copies[0].unreadable.lock() = vec![40_960];
    *copies[1].unreadable.lock() = vec![20_480, 40_961];
    let places = ["a", "b"].map(|name| (name, PlaceKind::Near));
    let source = mirrored(&Mirrors::new(places, TIMEOUT, false), &copies);
    assert!(matches!(read(&source, 0..SIZE), Err(Some(_))));
    read(&source, 0..40_000).unwrap();
    read(&source, 46_000..SIZE).unwrap();
    // Wrong bytes are told of rather than that they cannot be read elsewhere.
    copies[0].unreadable.lock().clear();
    copies[0].damage(40_960..40_961);
    for _ in 0..3 {
        assert!(matches!(read(&source, 40_000..50_000), Err(None)));
    }
}

#[test]
fn what_cannot_be_opened_is_not_read_in_parts() {
    let copies = [Copy::new(), Copy::new()];
    copies[0].set_failing(true);
    let places = ["a", "b"].map(|name| (name, PlaceKind::Near));
    let source = mirrored(&Mirrors::new(places, TIMEOUT, false), &copies);
    read(&source, 0..SIZE).unwrap();
    assert_eq!(copies[0].asked.load(SeqCst), 1);
}

/// At most two requests for each block of 4 KiB, and another place is asked for all of it at once.
#[test]
fn a_place_that_cannot_be_read_at_all_is_not_asked_without_end() {
    let copies = [Copy::new(), Copy::new()];
    let is_unreadable = |copy: &Copy| *copy.unreadable.lock() = (0..SIZE).step_by(1000).collect();
    is_unreadable(&copies[0]);
    let places = ["a", "b"].map(|name| (name, PlaceKind::Near));
    let source = mirrored(&Mirrors::new(places, TIMEOUT, false), &copies);
    read(&source, 0..SIZE).unwrap();
    assert!(copies[0].asked.load(SeqCst) <= 2 * SIZE.div_ceil(4096));
    assert_eq!(copies[1].asked.load(SeqCst), 1);
    is_unreadable(&copies[1]);
    assert!(matches!(read(&source, 0..SIZE), Err(Some(_))));
    assert!(copies[0].asked.load(SeqCst) <= 4 * SIZE.div_ceil(4096));
    assert!(copies[1].asked.load(SeqCst) <= 1 + 2 * SIZE.div_ceil(4096));
}

/// The only right place gives wrong bytes once, to two readers that read before either says so.
#[test]
fn readers_who_got_the_same_wrong_bytes_have_one_complaint() {
    let copies = [Copy::new(), Copy::new()];
    copies.iter().for_each(|copy| copy.damage(0..1));
    let places = ["a", "b"].map(|name| (name, PlaceKind::Far));
    let mirrors = Mirrors::new(places, TIMEOUT, false);
    let source = mirrored(&mirrors, &copies);
    let both = Barrier::new(2);
    let reader = || {
        let mut has_hope = true;
        for _place in 0..2 {
            both.wait();
            let given = source.fetch(&mut [0; 1000], 0, Ask::default()).unwrap();
            both.wait();
            has_hope &= source.distrust(0..1000, &given) > 0;
        }
        if both.wait().is_leader() {
            copies[1].damage(0..1);
        }
        both.wait();
        assert!(has_hope);
        read(&source, 0..1000).unwrap();
    };
    thread::scope(|scope| {
        scope.spawn(reader);
        scope.spawn(reader);
    });
    assert_eq!(of(&mirrors.stats(), |place| place.wrong), [2, 1]);
}

/// As what came damaged from a server is in memory for a while.
#[test]
fn a_place_is_told_what_it_had_wrong_and_asked_again() {
    let doubtful = Arc::new(Doubtful::copy(noise(SIZE, 1), [5_000]));
    let failing = Copy::new();
    failing.set_failing(true);
    let places = ["a", "b"].map(|name| (name, PlaceKind::Near));
    let source = Mirrors::new(places, TIMEOUT, false).part("data", vec![doubtful.clone(), failing]);
    read(&source, 0..10_000).unwrap();
    assert_eq!(doubtful.distrusted(), 1);
}

#[test]
fn wrong_and_unreadable_ranges_are_replaced() {
    let copies = [Copy::new(), Copy::new()];
    copies[0].damage(500..1_200);
    let places = ["a", "b"].map(|name| (name, PlaceKind::Near));
    let mirrors = Mirrors::new(places, TIMEOUT, true);
    let source = mirrored(&mirrors, &copies);
    read(&source, 0..10_000).unwrap();
    copies[0].set_failing(true);
    copies[0].damage(30_000..30_001);
    read(&source, 30_000..32_000).unwrap();
    copies[0].set_failing(false);
    mirrors.finish_repairs();
    assert!(*copies[0].bytes.lock() == noise(SIZE, 1));
    let stats = mirrors.stats();
    assert_eq!(of(&stats, |place| place.bytes_repaired), [4_000, 0]);
    // What was replaced is read from there again.
    let before = copies[1].asked.load(SeqCst);
    read(&source, 0..40_000).unwrap();
    assert_eq!(copies[1].asked.load(SeqCst), before);
}

/// As after a damaged transfer, or a read that failed once.
#[test]
fn what_is_right_by_now_is_not_replaced() {
    let copies = [Copy::new(), Copy::new()];
    copies[0].damage(500..501);
    let places = ["a", "b"].map(|name| (name, PlaceKind::Near));
    let mirrors = Mirrors::new(places, TIMEOUT, true);
    let source = mirrored(&mirrors, &copies);
    let mut buf = [0; 1000];
    let given = source.fetch(&mut buf, 0, Ask::default()).unwrap();
    copies[0].damage(500..501);
    assert!(source.distrust(0..1000, &given) > 0);
    read(&source, 0..1000).unwrap();
    mirrors.finish_repairs();
    assert_eq!(copies[0].writes.load(SeqCst), 0);
    let stats = mirrors.stats();
    assert_eq!(stats.ranges_repaired, 0);
    assert_eq!(of(&stats, |place| place.bytes_repaired), [0, 0]);
    // It is asked again.
    let before = copies[1].asked.load(SeqCst);
    read(&source, 0..1000).unwrap();
    assert_eq!(copies[1].asked.load(SeqCst), before);
}

#[test]
fn a_range_that_cannot_be_written_keeps_no_other_from_being_repaired() {
    let copies = [Copy::new(), Copy::new()];
    for block in [2, 5, 8] {
        copies[0].damage(block * 1000..block * 1000 + 1);
    }
    *copies[0].unwritable.lock() = Some((5_000..6_000, io::ErrorKind::Other));
    let places = ["a", "b"].map(|name| (name, PlaceKind::Near));
    let mirrors = Mirrors::new(places, TIMEOUT, true);
    let source = mirrored(&mirrors, &copies);
    read(&source, 0..10_000).unwrap();
    mirrors.finish_repairs();
    assert_eq!(mirrors.stats().ranges_repaired, 2);
    // Later it is tried again.
    *copies[0].unwritable.lock() = None;
    read(&source, 0..10_000).unwrap();
    mirrors.finish_repairs();
    assert!(*copies[0].bytes.lock() == noise(SIZE, 1));
}

/// As the file with the tree may be, if that is not the one with the data.
#[test]
fn a_copy_that_cannot_be_written_is_tried_once_and_others_there_are_repaired() {
    let (data, trees) = ([Copy::new(), Copy::new()], [Copy::new(), Copy::new()]);
    *trees[0].unwritable.lock() = Some((0..SIZE, io::ErrorKind::PermissionDenied));
    for copy in [&data[0], &trees[0]] {
        (0..SIZE)
            .step_by(2000)
            .for_each(|at| copy.damage(at..at + 1));
    }
    let places = ["a", "b"].map(|name| (name, PlaceKind::Near));
    let mirrors = Mirrors::new(places, TIMEOUT, true);
    read(&mirrored(&mirrors, &trees), 0..SIZE).unwrap();
    read(&mirrored(&mirrors, &data), 0..SIZE).unwrap();
    mirrors.finish_repairs();
    assert_eq!(trees[0].writes.load(SeqCst), 1);
    assert!(*data[0].bytes.lock() == noise(SIZE, 1));
}

#[test]
fn nothing_is_replaced_unless_that_is_wanted() {
    let copies = [Copy::new(), Copy::new()];
    copies[0].damage(500..501);
    let places = ["a", "b"].map(|name| (name, PlaceKind::Near));
    let mirrors = Mirrors::new(places, TIMEOUT, false);
    read(&mirrored(&mirrors, &copies), 0..10_000).unwrap();
    mirrors.finish_repairs();
    assert!(*copies[0].bytes.lock() != noise(SIZE, 1));
}

/// What is in a cache says nothing about the place.
#[test]
fn a_place_that_rests_is_not_well_because_a_cache_has_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path().join("cache"), None).unwrap();
    let key = Key::new("content").unwrap();
    let object = cache.object(&key, Part::Data, SIZE as u64).unwrap();
    let copies = [Copy::new(), Copy::new()];
    let cached = Arc::new(Cached::new(copies[0].clone(), object));
    cached.fetch(&mut [0], 0, Ask::default()).unwrap();
    copies[0].set_failing(true);
    let mirrors = Mirrors::new(
        [("a", PlaceKind::Far), ("b", PlaceKind::Near)],
        TIMEOUT,
        false,
    );
    let source = mirrors.part("data", vec![cached, copies[1].clone()]);
    mirrors.could_not_open(0, &"it is to rest");
    thread::sleep(Duration::from_millis(600));
    read(&source, 0..1000).unwrap();
    assert!(mirrors.stats().places[0].rests);
}

/// Ranges that are alike wait to be written: of two places, and of data and tree.
#[test]
fn what_is_wrong_in_several_copies_is_replaced_in_each() {
    let [first, data, tree] = [(); 3].map(|()| [(); 3].map(|()| Copy::new()));
    let places = ["a", "b", "c"].map(|name| (name, PlaceKind::Near));
    let mirrors = Mirrors::new(places, TIMEOUT, true);
    // Its repair waits for this lock, and all others for it.
    let waiting = first[0].unwritable.lock();
    first[0].damage(0..1);
    read(&mirrored(&mirrors, &first), 0..1000).unwrap();
    for copy in [&data[0], &data[1]] {
        copy.damage(0..2000);
    }
    tree[0].damage(1000..3000);
    read(&mirrored(&mirrors, &data), 0..2000).unwrap();
    read(&mirrored(&mirrors, &tree), 1000..3000).unwrap();
    drop(waiting);
    mirrors.finish_repairs();
    for copy in first.iter().chain(&data).chain(&tree) {
        assert!(*copy.bytes.lock() == noise(SIZE, 1));
    }
}

#[test]
#[should_panic(expected = "copy.length() == copies[0].length()")]
fn copies_have_the_same_size() {
    let places = ["a", "b"].map(|name| (name, PlaceKind::Near));
    let copies: [Arc<dyn Fetch>; 2] = [Copy::new(), Arc::new(noise(SIZE - 1, 1))];
    Mirrors::new(places, TIMEOUT, false).part("data", copies.into());
}

#[test]
fn nothing_is_replaced_at_a_far_place() {
    let copies = [Copy::new(), Copy::new()];
    copies[0].damage(500..501);
    let places = [("a", PlaceKind::Far), ("b", PlaceKind::Near)];
    let mirrors = Mirrors::new(places, TIMEOUT, true);
    read(&mirrored(&mirrors, &copies), 0..10_000).unwrap();
    mirrors.finish_repairs();
    assert_eq!(copies[0].writes.load(SeqCst), 0);
}

/// A buffer into which nothing was read has zeros, too.
#[test]
fn zeros_that_cannot_be_read_are_replaced() {
    let copies = [Copy::new(), Copy::new()];
    for copy in &copies {
        copy.bytes.lock()[..4096].fill(0);
    }
    copies[0].unreadable.lock().push(5);
    let places = ["a", "b"].map(|name| (name, PlaceKind::Near));
    let mirrors = Mirrors::new(places, TIMEOUT, true);
    let source = mirrored(&mirrors, &copies);
    let mut buf = [1; 4096];
    source.fetch(&mut buf, 0, Ask::default()).unwrap();
    assert_eq!(buf, [0; 4096]);
    source.mend(&buf, 0).unwrap();
    mirrors.finish_repairs();
    assert_eq!(copies[0].writes.load(SeqCst), 1);
}
