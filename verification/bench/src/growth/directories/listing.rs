//! `ls -f` of a whole directory.

use std::{path::Path, process::Command};

use anyhow::Result;

use super::{NATIVE, OURS, Subject};
use crate::{
    lab::{Lab, seconds},
    report::{Bar, Compare, Report},
    rounds::{Contest, Spread},
};

/// The most time that listing an image may take, as a multiple of the directory's time.
const MOST: f64 = 3.0;

/// The most time for the largest directory, as a multiple of the smallest one's, which has a tenth of the
/// names.
const MOST_GROWTH: f64 = 12.0;

/// The state of the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The directory and the image; the mount is new.
    Warm,
    Cold,
}

/// Compares listing each image, in a new mount each time, with listing its directory.
pub(super) fn run(lab: &Lab, report: &mut Report, subjects: &[Subject]) -> Result<()> {
    for state in [State::Warm, State::Cold] {
        if state == State::Cold && !lab.is_root() {
            report.leave_out("Cold `ls -f` of one directory", Lab::NEEDS_ROOT);
            continue;
        }
        let spreads = subjects
            .iter()
            .map(|subject| compare(lab, report, subject, state));
        let spreads: Vec<_> = spreads.collect::<Result<_>>()?;
        if let ([smallest, .., largest], [small, .., large]) = (subjects, &spreads[..]) {
            let [smallest, largest] = [smallest, largest].map(Subject::label);
            let text = format!("{state:?} `ls -f` of {largest}: time / of {smallest}");
            report.require(&text, Bar::AtMost(MOST_GROWTH), "x", ratio(*large, *small));
        }
    }
    Ok(())
}

/// Returns the image's time in seconds.
fn compare(lab: &Lab, report: &mut Report, subject: &Subject, state: State) -> Result<Spread> {
    let native = || list(lab, subject.directory.path(), state);
    let ours = || subject.in_image(lab, |image| list(lab, image, state));
    if state == State::Warm {
        native()?;
        ours()?;
    }
    let samples = Contest::default()
        .variant(NATIVE, native)
        .variant(OURS, ours)
        .run_in(lab)?;
    let title = format!("{state:?} `ls -f` of {}", subject.label());
    report.times(&title, &samples, Compare::Time)?;
    let text = format!("{title}: time / {NATIVE}");
    report.require(&text, Bar::AtMost(MOST), "x", samples.ratio(OURS, NATIVE)?);
    samples.spread(OURS)
}

fn list(lab: &Lab, directory: &Path, state: State) -> Result<f64> {
    if state == State::Cold {
        lab.make_cold(0)?;
    }
    seconds_to_list(directory)
}

pub(super) fn seconds_to_list(directory: &Path) -> Result<f64> {
    seconds(Command::new("ls").arg("-f").arg(directory))
}

/// The ratio of two times from different series of rounds.
fn ratio(dividend: Spread, divisor: Spread) -> Spread {
    Spread {
        median: dividend.median / divisor.median,
        min: dividend.min / divisor.max,
        max: dividend.max / divisor.min,
    }
}
