//! Reads the newer image through a cache that has the older one, from the same server.

use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use verimount_support::command;

use super::{
    fetchers::{OPENING, with_end},
    images::Images,
    site::Site,
};
use crate::{
    lab::{Lab, User, seconds, seconds_piped},
    mounts::Sealed,
    remote::server::Answered,
    report::{Bar, Compare, Report, figure},
    rounds::{Contest, Spread},
    table::Table,
};

/// How the name of the older image ends on the server.
const OLD: &str = ".old";

/// How much more may be fetched than the new blocks and the tree.
const MOST_BYTES: f64 = 1.25;

/// The largest older image, in bytes: it is read before each measurement.
const LARGEST: u64 = 1 << 30;

/// How the newer one is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The image as a file, in order.
    Whole,
    /// Its files, in the order of their directories.
    Walk,
}

impl Way {
    const ALL: [Self; 2] = [Self::Whole, Self::Walk];

    const fn name(self) -> &'static str {
        match self {
            Self::Whole => "the image as a file",
            Self::Walk => "tar of its files",
        }
    }

    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Whole => &["--as-file"],
            Self::Walk => &[],
        }
    }

    fn read(self, mount: &Path) -> Result<f64> {
        match self {
            Self::Whole => seconds(Command::new("cat").arg(only_file(mount)?)),
            // To what is not /dev/null, for which it would read nothing.
            Self::Walk => {
                let mut tar = Command::new("tar");
                tar.args(["--create", "--file=-", "--directory"]);
                seconds_piped(tar.arg(mount).arg("."), &mut Command::new("cat"))
            }
        }
    }

    /// The most requests, of what `pull --like` takes.
    fn most_requests(self, of_pull: u64) -> f64 {
        match self {
            Self::Whole => of_pull as f64 + 5.0,
            Self::Walk => of_pull as f64 * 1.5,
        }
    }
}

/// What a program was asked for.
#[derive(Debug, Clone, Copy)]
struct Cost {
    way: Way,
    is_today: bool,
    answered: Answered,
}

/// Measures it, if the image is not too large.
pub(super) fn run(lab: &Lab, report: &mut Report, site: &Site<'_>, images: &Images) -> Result<()> {
    if images.difference.size > LARGEST {
        return Ok(());
    }
    fs::copy(&images.old.source, with_end(&images.new.source, OLD))?;
    let costs = RefCell::new(Vec::new());
    let measure = |way: Way| {
        let (seconds, answered) = measure(lab, site, images, way)?;
        costs.borrow_mut().push(Cost {
            way,
            is_today: lab.is_today(),
            answered,
        });
        Ok(seconds)
    };
    let named = Way::ALL.map(|way| (way.name(), way));
    let samples = Contest::default().variants(named, measure).run_in(lab)?;
    let title = format!("{}, through a cache that has the older one", images.title);
    report.section(&title);
    say(report, images, &costs.into_inner())?;
    report.times(&format!("{title}: time"), &samples, Compare::Time)
}

fn say(report: &mut Report, images: &Images, costs: &[Cost]) -> Result<()> {
    let mut table = Table::new(["read", "MB", "requests", "before: MB", "requests"]);
    for way in Way::ALL {
        let [bytes, requests] = asked_for(costs, way, true).context("no rounds")?;
        let before = asked_for(costs, way, false);
        let before = before.map_or([None; 2], |before| before.map(Some));
        let shown = |spread: Option<Spread>, unit: f64| {
            spread.map_or("-".to_owned(), |spread| figure(spread.median / unit))
        };
        table.row([
            way.name().to_owned(),
            shown(Some(bytes), 1e6),
            shown(Some(requests), 1.0),
            shown(before[0], 1e6),
            shown(before[1], 1.0),
        ]);
        require(report, images, way, bytes, requests);
    }
    report.say(table);
    Ok(())
}

/// Bytes and requests of one program.
fn asked_for(costs: &[Cost], way: Way, is_today: bool) -> Option<[Spread; 2]> {
    let own = costs
        .iter()
        .filter(|cost| cost.way == way && cost.is_today == is_today);
    let bytes = own.clone().map(|cost| cost.answered.bytes as f64);
    let requests = own.map(|cost| cost.answered.requests as f64);
    Some([Spread::of(bytes)?, Spread::of(requests)?])
}

fn require(report: &mut Report, images: &Images, way: Way, bytes: Spread, requests: Spread) {
    let title = format!("{}, {}", images.title, way.name());
    let needed = images.difference.needed() as f64;
    report.require(
        &format!("{title}: bytes fetched through the cache / needed"),
        Bar::AtMost(MOST_BYTES),
        "x",
        bytes.times(needed.recip()),
    );
    let most = way.most_requests(images.difference.fetched_runs + OPENING);
    let text = format!("{title}: requests through the cache");
    report.require(&text, Bar::AtMost(most), "", requests);
}

/// Reads the newer one; returns the seconds that took, and what was asked for.
fn measure(lab: &Lab, site: &Site<'_>, images: &Images, way: Way) -> Result<(f64, Answered)> {
    let cache = lab.new_folder()?;
    let mount = |end: &str, digest: &str, options: &[&str]| {
        let sealed = Sealed {
            source: site.url(&images.on_server(end)).into(),
            digest: digest.to_owned(),
        };
        let cache = cache.path().display().to_string();
        sealed.mount(lab, User::Caller, &[options, &["--cache", &cache]].concat())
    };
    let older = mount(OLD, &images.old.digest, Way::Whole.options())?;
    Way::Whole.read(older.path())?;
    drop(older);
    images.make_cold(lab)?;
    site.server.take_answered()?;
    let newer = mount("", &images.new.digest, way.options())?;
    let seconds = way.read(newer.path())?;
    drop(newer);
    let answered = site.server.take_answered()?;
    // What was read is in the cache now, and is right.
    let newer = mount("", &images.new.digest, Way::Whole.options())?;
    let head = ["-n", &images.difference.size.to_string()];
    let mut compare = Command::new("cmp");
    compare
        .args(head)
        .arg(&images.new.source)
        .arg(only_file(newer.path())?);
    command::run(compare.stdout(Stdio::null()))?;
    Ok((seconds, answered))
}

fn only_file(mount: &Path) -> Result<PathBuf> {
    let file = fs::read_dir(mount)?.next().context("an empty mount")?;
    Ok(file?.path())
}
