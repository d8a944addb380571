//! One random sequence.

use std::{
    fs::{self, File},
    ops::Range,
    os::unix::fs::FileExt,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use verimount::{Cache, Content, OpenOptions, ReadAt, RemoteOptions};
use verimount_testkit::Random;

use crate::{
    figures::Figures,
    image::{BLOCK, Image},
    lanes::Doing,
    place::{Health, Place},
};

/// How long reads may take: longer than anything here does but what waits for a place that never answers.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The longest read, in bytes.
const LONGEST: usize = 200_000;

/// Places of a file, and a program that reads it.
struct Trial<'a> {
    seed: u64,
    random: Random,
    image: &'a Image,
    doing: &'a Doing,
    folder: TempDir,
    places: Vec<Place>,
    /// For each block, the place that has it right and answers.
    keepers: Vec<usize>,
    repairs: bool,
    caches: bool,
    opened: Option<Content>,
    figures: Figures,
}

/// Tries the sequence of this seed.
pub(crate) fn trial(seed: u64, image: &Arc<Image>, doing: &Doing) -> Figures {
    let mut trial = Trial::new(seed, image, doing);
    trial.fall_ill();
    for _ in 0..4 + trial.random.below(10) {
        trial.step();
    }
    trial.end()
}

impl<'a> Trial<'a> {
    fn new(seed: u64, image: &'a Image, doing: &'a Doing) -> Self {
        let mut random = Random::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let count = 1 + random.below(3);
        let kept: Vec<usize> = if random.coin() {
            vec![random.below(count)]
        } else {
            (0..count).collect()
        };
        let places = (0..count).map(|number| match random.below(8) {
            0 if !kept.contains(&number) => Place::Nowhere,
            0..4 => Place::here(folder.path().join(format!("file{number}")), image),
            _ => Place::there(image, random.number()),
        });
        let places: Vec<_> = places.collect();
        let keepers = image
            .blocks()
            .iter()
            .map(|_| random.choose(&kept))
            .collect();
        Self {
            seed,
            repairs: random.coin(),
            caches: random.coin(),
            random,
            image,
            doing,
            folder,
            places,
            keepers,
            opened: None,
            figures: Figures::default(),
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..45 => self.read(),
            45..65 => self.damage(),
            65..85 => self.fall_ill(),
            85..92 => self.flip_cache(),
            _ => self.close(),
        }
    }

    fn begins(&self, what: &str) {
        let again = format!("VERIMOUNT_SEED={} VERIMOUNT_MIRROR_FAULTS=1", self.seed);
        self.doing.begins(format!("{what} ({again})"));
    }

    /// Whether a place has blocks that no other one need have.
    fn is_keeper(&self, place: usize) -> bool {
        self.keepers.contains(&place)
    }

    fn open(&mut self) {
        self.begins("opening");
        let cache = self.folder.path().join("cache");
        let cache = self
            .caches
            .then(|| Cache::open(cache, Some(1 << 30)).unwrap());
        let mut remote = RemoteOptions::default();
        remote.timeout = TIMEOUT;
        let options = OpenOptions::new()
            .digest(self.image.digest)
            .repair(self.repairs)
            .remote(remote)
            .cache(cache);
        let mirrors = self.places.iter().skip(1).map(Place::location);
        let options = mirrors.fold(options, OpenOptions::mirror);
        let since = Instant::now();
        let opened = Content::open(self.places[0].location(), &options);
        let opened = opened.unwrap_or_else(|error| panic!("{error}, seed {}", self.seed));
        self.ended(since);
        self.opened = Some(opened);
        self.figures.opened += 1;
    }

    /// Ends it as a mount does, and finishes what is being repaired.
    fn close(&mut self) {
        self.begins("closing");
        if let Some(opened) = self.opened.take() {
            if self.places.len() > 1 {
                let stats = opened.mirror_stats().expect("it has mirrors");
                self.figures.healed += stats.healed;
            }
            opened.close();
            drop(opened);
            self.assert_repaired_rightly();
        }
    }

    fn ended(&mut self, since: Instant) {
        self.figures.longest = self.figures.longest.max(since.elapsed());
    }

    /// Reads in up to three threads.
    fn read(&mut self) {
        if self.opened.is_none() {
            self.open();
        }
        let size = self.image.size;
        let ranges = (0..1 + self.random.below(3)).map(|_| {
            let start = self.random.below(size);
            start..start + 1 + self.random.below(LONGEST.min(size - start))
        });
        let ranges: Vec<_> = ranges.collect();
        self.read_ranges(&ranges);
    }

    fn read_ranges(&mut self, ranges: &[Range<usize>]) {
        self.begins("reading");
        let since = Instant::now();
        let file = self.opened.as_ref().expect("it is open").file();
        thread::scope(|scope| {
            let (file, image, seed) = (&file, self.image, self.seed);
            for range in ranges {
                scope.spawn(move || {
                    let mut buf = vec![0; range.len()];
                    let read = file.read_exact_at(&mut buf, range.start as u64);
                    read.unwrap_or_else(|error| panic!("{error}, seed {seed}"));
                    assert!(
                        buf == image.sealed[range.clone()],
                        "wrong bytes, seed {seed}"
                    );
                });
            }
        });
        self.figures.reads += ranges.len() as u64;
        self.ended(since);
    }

    /// Makes some blocks wrong where others have them right.
    fn damage(&mut self) {
        let blocks = self.image.blocks();
        for _ in 0..1 + self.random.below(20) {
            let block = self.random.below(blocks.len());
            let place = self.random.below(self.places.len());
            if self.keepers[block] != place && !self.is_truncated(place) {
                self.places[place].damage(&blocks[block], &mut self.random);
                self.figures.damaged += 1;
            }
        }
    }

    fn is_truncated(&self, place: usize) -> bool {
        let Place::Here(path) = &self.places[place] else {
            return false;
        };
        fs::metadata(path).unwrap().len() < self.image.sealed.len() as u64
    }

    fn fall_ill(&mut self) {
        for place in 0..self.places.len() {
            let health = if self.is_keeper(place) {
                self.random.choose(&Health::GOOD)
            } else {
                self.random.choose(&Health::ALL)
            };
            self.places[place].set_health(health);
            if !self.is_keeper(place) && self.random.below(8) == 0 {
                let len = self.random.below(self.image.sealed.len());
                if !self.is_truncated(place) {
                    self.places[place].truncate(len as u64);
                }
            }
        }
    }

    fn flip_cache(&mut self) {
        let Ok(objects) = fs::read_dir(self.folder.path().join("cache/objects")) else {
            return;
        };
        for object in objects {
            let path = object.unwrap().path();
            let file = File::options().read(true).write(true).open(path).unwrap();
            let len = file.metadata().unwrap().len() as usize;
            for _ in 0..if len > 0 { 4 } else { 0 } {
                let at = self.random.below(len) as u64;
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).unwrap();
                file.write_all_at(&[byte[0] ^ 4], at).unwrap();
                self.figures.flipped += 1;
            }
        }
    }

    /// What is repaired is right, and nothing else is written: each sector of a file is as it was, or right.
    fn assert_repaired_rightly(&self) {
        for place in 0..self.places.len() {
            if let Place::Here(path) = &self.places[place]
                && !self.is_truncated(place)
            {
                let stored = fs::read(path).unwrap();
                let pairs = stored.iter().zip(&self.image.sealed);
                let wrong = pairs.filter(|(stored, right)| stored != right).count() as u64;
                assert!(wrong <= self.figures.damaged, "seed {}", self.seed);
                assert_eq!(stored.len(), self.image.sealed.len(), "seed {}", self.seed);
            }
        }
    }

    /// Everything is read once more.
    fn end(mut self) -> Figures {
        self.close();
        self.open();
        let size = self.image.size;
        let starts = (0..size).step_by(LONGEST);
        let ranges = starts.map(|start| start / BLOCK * BLOCK..size.min(start + LONGEST));
        for range in ranges.collect::<Vec<_>>().chunks(1) {
            self.read_ranges(range);
        }
        let opened = self.opened.as_ref().expect("it is open");
        if let Some(stats) = opened.mirror_stats() {
            self.figures.repaired += stats.ranges_repaired;
        }
        self.close();
        let ill = self.places.iter().map(Place::ill_answers);
        self.figures.ill_answers = ill.sum();
        self.figures.sequences = 1;
        self.figures
    }
}
