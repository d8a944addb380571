//! One random sequence.

use std::{
    fmt::Display,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use verimount::{
    Cache, Content, Error, FileDigest, OpenOptions, Prefetch, ReadAt, ReadError, RemoteOptions,
};
use verimount_testkit::{Random, eventually};

use crate::{
    figures::Figures,
    image::{Image, files},
    lanes::Doing,
    server::{Illness, Server},
};

/// The deadline of reads, the shortest that there is.
const DEADLINE: Duration = Duration::from_secs(1);

/// Sizes of the cache, in bytes. It is often smaller than the image.
const CACHES: [u64; 5] = [0, 700_000, 1_500_000, 1 << 30, 1 << 30];

/// The longest read, in bytes.
const LONGEST: usize = 600_000;

/// How often all is read after the server has recovered: what fails then was begun before.
const ATTEMPTS: usize = 100;

/// A server, a cache, and a program that uses both.
struct Trial<'a> {
    seed: u64,
    random: Random,
    image: &'a Image,
    doing: &'a Doing,
    server: Server,
    folder: TempDir,
    cache_size: u64,
    /// What is mounted.
    mounted: Option<Mounted>,
    figures: Figures,
}

struct Mounted {
    opened: Content,
    cache: Option<Cache>,
}

/// Tries the sequence of this seed.
pub(crate) fn trial(seed: u64, image: &Arc<Image>, doing: &Doing) -> Figures {
    let mut random = Random::new(seed);
    let mut trial = Trial {
        seed,
        cache_size: random.choose(&CACHES),
        random,
        image,
        doing,
        server: Server::start(image, seed),
        folder: tempfile::tempdir().unwrap(),
        mounted: None,
        figures: Figures::default(),
    };
    if trial.random.coin() {
        trial.read_earlier();
    }
    if trial.random.coin() {
        trial.remount();
    }
    trial.fall_ill();
    for _ in 0..6 + trial.random.below(12) {
        trial.step();
    }
    trial.recover();
    trial.unmount();
    trial.end()
}

impl Trial<'_> {
    fn step(&mut self) {
        match self.random.below(100) {
            0..40 => self.read(),
            40..48 => self.hint(),
            48..58 => self.flip(),
            58..63 => self.evict(),
            63..68 => self.remove(),
            68..80 => self.remount(),
            80..97 => self.fall_ill(),
            _ => self.recover(),
        }
    }

    fn fall_ill(&mut self) {
        let illness = Illness::new(&mut self.random, self.image.sealed.len());
        self.server.fall_ill(illness);
    }

    fn begins(&self, what: &str) {
        let seed = self.seed;
        let again = format!("VERIMOUNT_SEED={seed} VERIMOUNT_FAULTS=1");
        self.doing.begins(format!("{what} ({again})"));
    }

    fn ended(&mut self, since: Instant) {
        self.figures.longest = self.figures.longest.max(since.elapsed());
    }

    /// Reads most of the earlier release, as somebody has done before the later one came.
    fn read_earlier(&mut self) {
        self.begins("reading the earlier release");
        let options = self.options(self.image.earlier_digest, self.cache());
        let earlier = Content::open(&*self.server.earlier(), &options).unwrap();
        let file = earlier.file();
        for start in (0..file.len() as usize).step_by(LONGEST) {
            let mut buf = vec![0; LONGEST.min(file.len() as usize - start)];
            if self.random.below(8) > 0 {
                file.read_exact_at(&mut buf, start as u64).unwrap();
                assert!(buf == self.image.earlier[start..][..buf.len()]);
            }
        }
    }

    fn options(&self, digest: FileDigest, cache: Option<Cache>) -> OpenOptions {
        let mut remote = RemoteOptions::default();
        remote.timeout = DEADLINE;
        OpenOptions::new()
            .digest(digest)
            .remote(remote)
            .cache(cache)
    }

    /// Opens the image as another process would that has the same cache.
    fn open(&mut self) -> Result<(), Error> {
        self.begins("opening");
        let since = Instant::now();
        let cache = self.cache();
        let options = self.options(self.image.digest, cache.clone());
        let opened = Content::open(&*self.server.url(), &options);
        self.ended(since);
        let opened = opened.inspect_err(|_| self.figures.not_opened += 1)?;
        self.figures.opened += 1;
        let opened = if self.random.coin() {
            opened.read_ahead()
        } else {
            opened
        };
        let what = [Prefetch::None, Prefetch::Metadata, Prefetch::All];
        let what = self.random.choose(&what);
        let is_useless = what == Prefetch::All && self.cache_size == 0;
        assert_eq!(opened.prefetch(what).is_err(), is_useless);
        self.mounted = Some(Mounted { opened, cache });
        Ok(())
    }

    fn unmount(&mut self) {
        self.begins("closing");
        let Some(mounted) = self.mounted.take() else {
            return;
        };
        // As a mount does at its end; what is merely dropped ends as well.
        if self.random.coin() {
            mounted.opened.close();
        }
        if let Some(cache) = &mounted.cache {
            self.figures.rejected += cache.stats().rejected;
            self.figures.evicted += cache.stats().evicted;
        }
    }

    fn remount(&mut self) {
        self.unmount();
        // It may fail as long as the server is ill.
        let _ = self.open();
    }

    /// The cache, if there is one, as another process sees it.
    fn cache(&self) -> Option<Cache> {
        let path = self.folder.path().join("cache");
        let open = || Cache::open(&path, Some(self.cache_size)).unwrap();
        (self.cache_size > 0).then(open)
    }

    /// Reads in up to four threads. Some reads fail; none gives wrong bytes.
    fn read(&mut self) {
        if self.mounted.is_none() {
            self.remount();
        }
        let Some(mounted) = &self.mounted else {
            return;
        };
        let size = self.image.content().len();
        let ranges: Vec<_> = (0..1 + self.random.below(4))
            .map(|_| {
                let start = self.random.below(size);
                let len = 1 + self.random.below(LONGEST.min(size - start));
                (start, len)
            })
            .collect();
        self.begins("reading");
        let since = Instant::now();
        let content = mounted.opened.file();
        let read = thread::scope(|scope| {
            let (content, image) = (&content, self.image);
            let readers = ranges
                .iter()
                .map(|&(start, len)| scope.spawn(move || image.is_right(content, start, len)));
            let readers: Vec<_> = readers.collect();
            let ended = readers.into_iter().map(|reader| reader.join().unwrap());
            ended.collect::<Vec<_>>()
        });
        for is_right in read {
            match is_right {
                Ok(is_right) => {
                    assert!(is_right, "wrong bytes, seed {}", self.seed);
                    self.figures.read += 1;
                }
                Err(_) => self.figures.failed += 1,
            }
        }
        self.ended(since);
    }

    fn hint(&mut self) {
        let size = self.image.content().len();
        let (offset, len) = (self.random.below(size), self.random.below(size));
        if let Some(mounted) = &self.mounted {
            mounted.opened.file().will_need(offset as u64, len as u64);
        }
    }

    /// Changes some bytes of the cache.
    fn flip(&mut self) {
        for path in self.objects() {
            let file = File::options().read(true).write(true).open(path).unwrap();
            let len = file.metadata().unwrap().len();
            if len == 0 {
                continue;
            }
            for _ in 0..1 + self.random.below(4) {
                let at = self.random.below(len as usize) as u64;
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).unwrap();
                let other = byte[0] ^ (1 << self.random.below(8));
                file.write_all_at(&[other], at).unwrap();
                self.figures.flipped += 1;
            }
        }
    }

    /// Empties the cache as another process does.
    fn evict(&mut self) {
        if let Some(cache) = self.cache() {
            cache.clear().unwrap();
        }
    }

    /// Removes a file of the cache, as somebody may who needs room.
    fn remove(&mut self) {
        let mut objects = self.objects();
        if !objects.is_empty() {
            let object = objects.swap_remove(self.random.below(objects.len()));
            fs::remove_file(object).unwrap();
        }
    }

    /// The files of the cache.
    fn objects(&self) -> Vec<PathBuf> {
        let objects = fs::read_dir(self.folder.path().join("cache/objects"));
        let paths = objects.into_iter().flatten();
        paths.map(|object| object.unwrap().path()).collect()
    }

    /// The server is well from now on. What fails then was begun before, and passes.
    fn recover(&mut self) {
        self.server.recover();
        self.begins("waiting for the last wrong answers");
        eventually("no wrong answer is sent", || !self.server.is_answering());
        if self.mounted.is_none() {
            let opened = self.open();
            self.succeeds(opened, "opening");
        }
        let mut read = self.reads_all();
        for _ in 0..ATTEMPTS {
            read = read.or_else(|_| self.reads_all());
        }
        self.succeeds(read, "reading when the server is well");
        for _ in 0..3 {
            self.flip();
            let read = self.reads_all();
            self.succeeds(read, "healing");
        }
        let mounted = self.mounted.as_ref().expect("it was opened");
        let shown = mounted.opened.image().and_then(files);
        let shown = self.succeeds(shown, "the tree");
        assert!(
            shown == self.image.files,
            "another tree, seed {}",
            self.seed
        );
    }

    #[track_caller]
    fn succeeds<T, E: Display>(&self, result: Result<T, E>, what: &str) -> T {
        result.unwrap_or_else(|error| panic!("{what}: {error}, seed {}", self.seed))
    }

    fn reads_all(&mut self) -> Result<(), ReadError> {
        let mounted = self.mounted.as_ref().expect("it was opened");
        self.begins("reading all");
        let since = Instant::now();
        let content = mounted.opened.file();
        let size = self.image.content().len();
        let read = (0..size).step_by(LONGEST).try_for_each(|start| {
            let len = LONGEST.min(size - start);
            let is_right = self.image.is_right(&content, start, len)?;
            assert!(is_right, "wrong bytes, seed {}", self.seed);
            Ok(())
        });
        match read {
            Ok(()) => self.figures.read += 1,
            Err(_) => self.figures.failed += 1,
        }
        self.ended(since);
        read
    }

    fn end(mut self) -> Figures {
        let (requests, wrong) = self.server.counts();
        let is_update = self.server.asked_for() < self.image.content().len() as u64;
        self.figures.updates = is_update.into();
        self.figures.requests = requests;
        self.figures.wrong_answers = wrong;
        self.figures.sequences = 1;
        self.figures
    }
}
