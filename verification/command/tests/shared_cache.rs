//! Two daemons, as two processes, with one cache that is smaller than what they read.

use std::{sync::atomic::Ordering::SeqCst, thread::JoinHandle};

use crate::common::{daemon::metric, nginx::Nginx};
use crate::prelude::*;

/// How often a daemon is killed.
const ROUNDS: &str = "VERIMOUNT_KILL_ROUNDS";

const SIZE: usize = 6_000_000;

/// The longest read, in bytes.
const LONGEST: usize = 500_000;

/// Reads a mounted file at random places until that is ended or fails.
struct Reader {
    thread: JoinHandle<io::Result<()>>,
    is_over: Arc<AtomicBool>,
    reads: Arc<AtomicU64>,
}

impl Reader {
    fn start(file: &Path, expected: &Arc<Vec<u8>>, seed: u64) -> Self {
        let file = File::open(file).unwrap();
        let (is_over, reads) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let thread = thread::spawn({
            let (is_over, reads, expected) = (is_over.clone(), reads.clone(), expected.clone());
            move || {
                let mut random = Random::new(seed);
                while !is_over.load(SeqCst) {
                    let start = random.below(SIZE);
                    let len = random.below(LONGEST.min(SIZE - start));
                    let mut buf = vec![0; len];
                    file.read_exact_at(&mut buf, start as u64)?;
                    assert!(buf == expected[start..start + len], "wrong bytes");
                    // So that the next read is not of the kernel's cache.
                    forget(&file);
                    reads.fetch_add(1, SeqCst);
                }
                Ok(())
            }
        });
        Self {
            thread,
            is_over,
            reads,
        }
    }

    fn waits_for(&self, reads: u64) {
        let before = self.reads.load(SeqCst);
        eventually("something is read", || {
            self.thread.is_finished() || self.reads.load(SeqCst) >= before + reads
        });
    }

    /// Whether all reads succeeded.
    ///
    /// # Panics
    /// If one gave wrong bytes.
    fn ends(self) -> io::Result<()> {
        self.is_over.store(true, SeqCst);
        self.thread.join().unwrap()
    }
}

fn forget(file: &File) {
    let advice = rustix::fs::Advice::DontNeed;
    rustix::fs::fadvise(file, 0, None, advice).unwrap();
}

#[test]
fn one_of_two_daemons_is_killed() {
    let world = needs!(World::with_mount_point());
    let file = world.write("file", noise(SIZE, 1));
    let digest = verimount(args!["seal --append", &file]).digest();
    let expected = Arc::new(fs::read(&file).unwrap());
    let server = needs!(Nginx::start(&world));
    let (url, cache) = (server.url("file"), world.path("cache"));
    let other = world.directory("other");
    let mount = |mnt: &Path| {
        let cache = cache.to_str().unwrap();
        let options = ["--digest", &digest, "--cache", cache, "--cache-size", "3M"];
        Daemon::mount(Path::new(&url), mnt, &options)
    };
    let rounds = env::var(ROUNDS).map_or(6, |rounds| rounds.parse().unwrap());
    let mut random = Random::new(seed());
    let (mut survivor, mnt) = (mount(&other), world.path("mnt"));
    survivor.bites_after(Duration::from_secs(100 + 10 * rounds));
    let start = |mounted: &Daemon, random: &mut Random| {
        [(); 2].map(|()| Reader::start(&mounted.path("file"), &expected, random.number()))
    };
    let readers = start(&survivor, &mut random);
    for round in 0..rounds {
        let mut killed = mount(&mnt);
        let doomed = start(&killed, &mut random);
        doomed[0].waits_for(1 + random.below(20) as u64);
        killed.signal(Signal::KILL);
        killed.wait();
        for reader in doomed {
            // It fails when the mount is gone, as `ends` comes later or not.
            let _ = reader.ends();
        }
        drop(killed);
        readers[0].waits_for(1);
        assert!(
            !readers.iter().any(|reader| reader.thread.is_finished()),
            "round {round}"
        );
    }
    let last = mount(&mnt);
    let final_readers = start(&last, &mut random);
    final_readers[0].waits_for(20);
    readers[0].waits_for(20);
    for mounted in [&survivor, &last] {
        // Each makes room for what it stores, unless the other has just done so.
        eventually("it evicts", || {
            let mut all = readers.iter().chain(&final_readers);
            assert!(all.all(|reader| !reader.thread.is_finished()));
            metric(mounted.directory(), "cache_evicted_bytes_total") > 0
        });
    }
    for reader in readers.into_iter().chain(final_readers) {
        reader.ends().unwrap();
    }
    for mounted in [survivor, last] {
        assert_eq!(metric(mounted.directory(), "mismatches_total"), 0);
        assert_eq!(metric(mounted.directory(), "cache_failures_total"), 0);
        mounted.unmount();
    }
}
