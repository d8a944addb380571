//! Programs that fetch the newer image, for which the older one is here.

use std::{
    cell::RefCell,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result};
use verimount_support::command;

use super::{images::Images, site::Site};
use crate::{
    lab::{Lab, User, ensure_same_file, has},
    remote::server::Answered,
    report::{Bar, Report, figure, range},
    rounds::{Contest, Samples, Spread},
    table::Table,
};

/// How much more may be fetched than the new blocks and the tree.
const MOST_BYTES: f64 = 1.15;

/// The largest image for zsync, in bytes: of 10 GiB it took more than ten minutes of processor time, for 2.6 million blocks.
const MOST_FOR_ZSYNC: u64 = 2 << 30;

/// Requests that open an image and fetch its tree.
pub(super) const OPENING: u64 = 3;

/// A way to fetch it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fetcher {
    Curl,
    Ours,
    Zsync,
    Rsync,
    Casync,
    Desync,
}

/// What it took.
#[derive(Debug, Clone, Copy)]
struct Cost {
    bytes: u64,
    /// `None` for what does not ask by HTTP.
    requests: Option<u64>,
}

impl Fetcher {
    const ALL: [Self; 6] = [
        Self::Curl,
        Self::Ours,
        Self::Zsync,
        Self::Rsync,
        Self::Casync,
        Self::Desync,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Curl => "curl, all of it",
            Self::Ours => "verimount pull --like",
            Self::Zsync => "zsync",
            Self::Rsync => "rsync",
            Self::Casync => "casync",
            Self::Desync => "desync",
        }
    }

    /// The programs it needs; the first one fetches.
    const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Curl => &["curl"],
            Self::Ours => &["verimount"],
            Self::Zsync => &["zsync", "zsyncmake"],
            Self::Rsync => &["rsync"],
            Self::Casync => &["casync"],
            Self::Desync => &["desync", "casync"],
        }
    }

    fn is_here(self) -> bool {
        self == Self::Ours || self.programs().iter().all(|program| has(program))
    }

    /// Makes what it needs besides the images.
    fn prepare(self, images: &Images) -> Result<()> {
        let (old, new) = (&images.old.source, &images.new.source);
        let mut make = Command::new(self.programs().last().unwrap_or(&""));
        match self {
            Self::Curl | Self::Ours | Self::Rsync => return Ok(()),
            Self::Zsync => {
                make.args(["-b", "4096", "-u", Images::NAME, "-o"]);
                make.arg(with_end(new, ZSYNC)).arg(new);
            }
            Self::Casync => {
                make.arg("make")
                    .arg(option("--store", &with_end(new, STORE)));
                make.arg(with_end(new, INDEX)).arg(new);
            }
            // It has the newer one's chunks from casync, but needs to know those of the older one.
            Self::Desync => {
                make = Command::new(self.programs()[0]);
                make.arg("make").arg(with_end(old, INDEX)).arg(old);
            }
        }
        command::run(make.stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// The command that fetches the newer image.
    fn fetch(self, lab: &Lab, site: &Site<'_>, images: &Images, to: &Path) -> Command {
        let old = &images.old.source;
        let url = |end: &str| site.url(&images.on_server(end));
        let mut command = match self {
            Self::Ours => lab.verimount(User::Caller),
            _ => Command::new(self.programs()[0]),
        };
        match self {
            Self::Curl => command
                .args(["--silent", "--show-error", "--fail", &url("")])
                .arg("--output"),
            Self::Ours => command
                .args(["pull", "--digest", &images.new.digest, "--like"])
                .arg(old)
                .arg(url("")),
            Self::Zsync => command
                .args(["-q", "-i"])
                .arg(old)
                .arg(url(ZSYNC))
                .arg("-o"),
            Self::Rsync => command
                .args(["--stats", "--no-human-readable", "--ignore-times"])
                .args(["--no-whole-file", "--block-size=4096"])
                .arg(option("--copy-dest", old.parent().unwrap_or(old)))
                .arg(site.rsync_url(&images.on_server(""))),
            Self::Casync => command
                .args(["extract", "--store", &url(STORE), "--seed"])
                .arg(old)
                .arg(url(INDEX)),
            Self::Desync => command
                .args(["extract", "--store", &url(STORE), "--seed"])
                .arg(with_end(old, INDEX))
                .arg(url(INDEX)),
        };
        command.arg(to);
        command
    }

    /// Fetches it; returns the seconds that took, and what was asked for.
    fn measure(self, lab: &Lab, site: &Site<'_>, images: &Images) -> Result<(f64, Cost)> {
        let to = lab.path("fetched").join(Images::NAME);
        images.make_cold(lab)?;
        site.server.take_answered()?;
        let mut fetch = self.fetch(lab, site, images, &to);
        let start = Instant::now();
        let said = command::stdout(fetch.stderr(Stdio::null()))?;
        let seconds = start.elapsed().as_secs_f64();
        let Answered { requests, bytes } = site.server.take_answered()?;
        ensure_same_file(User::Caller, &images.new.source, &to)?;
        fs::remove_file(&to)?;
        let cost = match self {
            Self::Rsync => Cost {
                bytes: received(&said)?,
                requests: None,
            },
            _ => Cost {
                bytes,
                requests: Some(requests),
            },
        };
        Ok((seconds, cost))
    }
}

/// How the names of what is made end.
const ZSYNC: &str = ".zsync";
const INDEX: &str = ".caibx";
const STORE: &str = ".castr";

pub(super) fn with_end(image: &Path, end: &str) -> PathBuf {
    let mut path = image.as_os_str().to_owned();
    path.push(end);
    path.into()
}

fn option(name: &str, value: &Path) -> OsString {
    let mut option = OsString::from(format!("{name}="));
    option.push(value);
    option
}

/// The bytes that rsync received and sent.
fn received(said: &str) -> Result<u64> {
    let bytes = |what: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(what));
        anyhow::Ok(
            line.context("rsync does not say how much it received")?
                .trim()
                .parse::<u64>()?,
        )
    };
    Ok(bytes("Total bytes received:")? + bytes("Total bytes sent:")?)
}

/// Those that are here and compared.
fn compared(images: &Images) -> impl Iterator<Item = Fetcher> {
    let is_compared = |fetcher: Fetcher| match fetcher {
        Fetcher::Ours => true,
        Fetcher::Zsync if images.difference.size > MOST_FOR_ZSYNC => false,
        _ => images.is_compared && fetcher.is_here(),
    };
    Fetcher::ALL
        .into_iter()
        .filter(move |fetcher| is_compared(*fetcher))
}

/// Makes what they need besides the images.
pub(super) fn prepare(images: &Images) -> Result<()> {
    compared(images).try_for_each(|fetcher| fetcher.prepare(images))
}

/// Measures them.
pub(super) fn run(lab: &Lab, report: &mut Report, site: &Site<'_>, images: &Images) -> Result<()> {
    let costs = RefCell::new(Vec::new());
    let named = compared(images).map(|fetcher| (fetcher.name(), fetcher));
    let measure = |fetcher: Fetcher| {
        let (seconds, cost) = fetcher.measure(lab, site, images)?;
        if lab.is_today() {
            costs.borrow_mut().push((fetcher, cost));
        }
        Ok(seconds)
    };
    let samples = Contest::default().variants(named, measure).run_in(lab)?;
    say(report, site, images, &samples, &costs.borrow())
}

fn say(
    report: &mut Report,
    site: &Site<'_>,
    images: &Images,
    samples: &Samples,
    costs: &[(Fetcher, Cost)],
) -> Result<()> {
    let mut table = Table::new(["program", "median s", "min..max s", "MB", "requests"]);
    for name in samples.names() {
        let time = samples.spread(name)?;
        let own = || {
            costs
                .iter()
                .filter(|(fetcher, _)| fetcher.name() == name)
                .map(|(_, cost)| cost)
        };
        let bytes = own().map(|cost| cost.bytes as f64);
        let requests = own()
            .filter_map(|cost| cost.requests)
            .map(|count| count as f64);
        let shown = |figures: Option<Spread>| {
            figures.map_or("-".to_owned(), |spread| figure(spread.median))
        };
        let (bytes, requests) = (Spread::of(bytes), Spread::of(requests));
        table.row([
            name.to_owned(),
            figure(time.median),
            range(time),
            shown(bytes.map(|bytes| bytes.times(1e-6))),
            shown(requests),
        ]);
        if name == Fetcher::Ours.name()
            && let (Some(bytes), Some(requests)) = (bytes, requests)
        {
            require(report, site, images, bytes, requests);
        }
    }
    report.table(
        &format!("{}, {}", images.title, site.name),
        table,
        "s",
        samples,
    )
}

fn require(report: &mut Report, site: &Site<'_>, images: &Images, bytes: Spread, requests: Spread) {
    let text = format!("{}, {}: bytes fetched / needed", images.title, site.name);
    let needed = images.difference.needed() as f64;
    report.require(
        &text,
        Bar::AtMost(MOST_BYTES),
        "x",
        bytes.times(needed.recip()),
    );
    let text = format!("{}, {}: requests", images.title, site.name);
    let most = images.difference.fetched_runs + OPENING;
    report.require(&text, Bar::AtMost(most as f64), "", requests);
}
