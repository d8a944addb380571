use std::sync::{Arc, OnceLock};

use verimount_sync::Mutex;
use verimount_testkit::{HttpAnswer, HttpRequest, HttpServer, Random};

use crate::{fault::Fault, image::Image};

/// The path of the earlier release.
const EARLIER: &str = "/earlier";

/// A server of the image that can be ill, and the one that it redirects to.
pub(crate) struct Server {
    main: HttpServer,
    away: HttpServer,
    health: Arc<Health>,
}

/// What both servers do wrong.
struct Health {
    image: Arc<Image>,
    seed: u64,
    away: OnceLock<String>,
    illness: Mutex<Illness>,
    /// How many answers were wrong.
    wrong: Mutex<u64>,
}

/// What a server does wrong for some time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Illness {
    /// How many of 100 answers have a fault.
    rate: usize,
    /// Which faults these have.
    faults: Vec<Fault>,
    /// A byte of the file that is wrong in all answers.
    rotten: Option<u64>,
}

impl Illness {
    pub(crate) fn new(random: &mut Random, size: usize) -> Self {
        let faults = match random.below(3) {
            0 => Fault::ALL.to_vec(),
            kinds => (0..kinds).map(|_| random.choose(&Fault::ALL)).collect(),
        };
        let is_rotten = random.below(4) == 0;
        Self {
            rate: random.choose(&[5, 20, 50, 80, 100]),
            faults,
            rotten: is_rotten.then(|| random.below(size) as u64),
        }
    }
}

impl Server {
    /// A server that is well.
    pub(crate) fn start(image: &Arc<Image>, seed: u64) -> Self {
        let health = Arc::new(Health {
            image: image.clone(),
            seed,
            away: OnceLock::new(),
            illness: Mutex::default(),
            wrong: Mutex::default(),
        });
        let start = |salt: u64| {
            let health = health.clone();
            HttpServer::with_ends(&*image.sealed, move |number, request, right| {
                health.answer(number as u64 ^ salt, request, right)
            })
        };
        let (main, away) = (start(0), start(1 << 63));
        let set = health.away.set(away.url("/elsewhere"));
        set.expect("it is set only here");
        Self { main, away, health }
    }

    pub(crate) fn url(&self) -> String {
        self.main.url("/file")
    }

    pub(crate) fn fall_ill(&self, illness: Illness) {
        *self.health.illness.lock() = illness;
    }

    pub(crate) fn recover(&self) {
        self.fall_ill(Illness::default());
    }

    /// Where the earlier release is, which is always right.
    pub(crate) fn earlier(&self) -> String {
        self.main.url(EARLIER)
    }

    /// How many bytes of the later release it was asked for.
    pub(crate) fn asked_for(&self) -> u64 {
        let requests = self.main.requests().into_iter();
        let later = requests.filter(|request| request.path != EARLIER);
        let ranges = later.filter_map(|request| request.range);
        ranges.map(|range| range.end - range.start).sum()
    }

    /// Whether an answer is under way, which may be wrong.
    pub(crate) fn is_answering(&self) -> bool {
        self.main.answering() + self.away.answering() > 0
    }

    /// How many requests there were, and how many answers were wrong.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let requests = self.main.requests().len() + self.away.requests().len();
        (requests as u64, *self.health.wrong.lock())
    }
}

impl Health {
    fn answer(&self, number: u64, request: &HttpRequest, mut right: HttpAnswer) -> HttpAnswer {
        if request.path == EARLIER {
            return HttpAnswer::of(&self.image.earlier, request);
        }
        let illness = self.illness.lock().clone();
        let range = request.range.clone().unwrap_or_default();
        if let Some(at) = illness.rotten.filter(|at| range.contains(at)) {
            right.body[(at - range.start) as usize] ^= 0x20;
            *self.wrong.lock() += 1;
        }
        // What comes over other connections meanwhile does not change the answer to a request.
        let mut random = Random::new(self.seed ^ Random::new(number).number());
        if random.below(100) >= illness.rate {
            return right;
        }
        *self.wrong.lock() += 1;
        let away = self.away.get().expect("both servers listen");
        let fault = random.choose(&illness.faults);
        fault.spoil(right, request, &self.image.sealed, away, &mut random)
    }
}
