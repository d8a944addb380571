//! A place of the file: a path, or a server.

use std::{
    fs::{self, File},
    ops::Range,
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use verimount::Location;
use verimount_testkit::{HttpAnswer, HttpEnd, HttpPace, HttpRequest, HttpServer, Random};

use crate::image::Image;

/// How a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// It answers.
    Well,
    /// It answers, but not at once.
    Slow,
    /// One of ten answers breaks off.
    Shaky,
    /// All answers break off.
    Cut,
    /// It takes connections, and says nothing.
    Silent,
    /// It closes connections.
    Gone,
    /// It cannot answer now.
    Busy,
}

impl Health {
    /// In which the place still answers in time.
    pub(crate) const GOOD: [Self; 3] = [Self::Well, Self::Slow, Self::Shaky];

    pub(crate) const ALL: [Self; 7] = [
        Self::Well,
        Self::Slow,
        Self::Shaky,
        Self::Cut,
        Self::Silent,
        Self::Gone,
        Self::Busy,
    ];
}

pub(crate) enum Place {
    Here(PathBuf),
    There(HttpServer, Arc<Mutex<There>>),
    /// Nobody listens there.
    Nowhere,
}

pub(crate) struct There {
    bytes: Vec<u8>,
    health: Health,
    random: Random,
    pub(crate) ill_answers: u64,
}

impl Place {
    pub(crate) fn here(path: PathBuf, image: &Image) -> Self {
        fs::write(&path, &image.sealed).unwrap();
        Self::Here(path)
    }

    pub(crate) fn there(image: &Image, seed: u64) -> Self {
        let there = Arc::new(Mutex::new(There {
            bytes: image.sealed.clone(),
            health: Health::Well,
            random: Random::new(seed),
            ill_answers: 0,
        }));
        let answering = there.clone();
        let server = HttpServer::with_ends(&*image.sealed, move |_, request, right| {
            answering.lock().unwrap().answer(request, right)
        });
        Self::There(server, there)
    }

    pub(crate) fn location(&self) -> Location {
        match self {
            Self::Here(path) => path.into(),
            Self::There(server, _) => server.url("/file").parse().unwrap(),
            Self::Nowhere => "http://127.0.0.1:1/file".parse().unwrap(),
        }
    }

    pub(crate) fn set_health(&self, health: Health) {
        if let Self::There(_, there) = self {
            there.lock().unwrap().health = health;
        }
    }

    /// Makes a block wrong.
    pub(crate) fn damage(&self, block: &Range<usize>, random: &mut Random) {
        let at = block.start + random.below(block.len());
        let bit = 1 << random.below(8);
        match self {
            Self::Here(path) => {
                let file = File::options().read(true).write(true).open(path).unwrap();
                let mut byte = [0];
                file.read_exact_at(&mut byte, at as u64).unwrap();
                file.write_all_at(&[byte[0] ^ bit], at as u64).unwrap();
            }
            Self::There(_, there) => there.lock().unwrap().bytes[at] ^= bit,
            Self::Nowhere => {}
        }
    }

    /// Cuts a file off.
    pub(crate) fn truncate(&self, len: u64) {
        if let Self::Here(path) = self {
            let file = File::options().write(true).open(path).unwrap();
            file.set_len(len).unwrap();
        }
    }

    pub(crate) fn ill_answers(&self) -> u64 {
        match self {
            Self::There(_, there) => there.lock().unwrap().ill_answers,
            _ => 0,
        }
    }
}

impl There {
    fn answer(&mut self, request: &HttpRequest, mut right: HttpAnswer) -> HttpAnswer {
        if let Some(range) = &request.range
            && right.body.len() as u64 == range.end - range.start
        {
            let stored = &self.bytes[range.start as usize..range.end as usize];
            right.body.copy_from_slice(stored);
        }
        let ill = match self.health {
            Health::Well => return right,
            Health::Slow => {
                right.pace = Some(HttpPace {
                    piece: right.body.len() / 4 + 1,
                    pause: Duration::from_millis(20),
                });
                return right;
            }
            Health::Shaky if self.random.below(10) > 0 => return right,
            Health::Shaky | Health::Cut => {
                let len = self.random.below(right.body.len() + 1) / 2;
                right.cut(len, HttpEnd::Closed)
            }
            Health::Silent => right.cut(0, HttpEnd::Silent),
            Health::Gone => {
                right.end = HttpEnd::Unanswered;
                right
            }
            Health::Busy => right.only_status(503),
        };
        self.ill_answers += 1;
        ill
    }
}
