//! `ls -f` of a whole directory.

use std::{path::Path, process::Command};

use anyhow::Result;

use super::{KERNEL, NATIVE, Subject};
use crate::{
    lab::{Format, Lab, seconds},
    report::{Bar, Compare, Report},
    rounds::{Samples, Spread},
};

/// The most time that listing an image may take, as a multiple of the directory's time.
const MOST: f64 = 3.0;

/// The most time that listing an image may take, as a multiple of the kernel's time for the same image.
const MOST_OF_KERNEL: f64 = 2.0;

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
        let samples = subjects
            .iter()
            .map(|subject| compare(lab, report, subject, state));
        let samples: Vec<_> = samples.collect::<Result<_>>()?;
        let ([smallest, .., largest], [small, .., large]) = (subjects, &samples[..]) else {
            continue;
        };
        for format in lab.formats()? {
            let [smallest, largest] = [smallest, largest].map(Subject::label);
            let text = format!(
                "{state:?} `ls -f` of {largest}, {}: time / of {smallest}",
                format.ours()
            );
            let [small, large] = [small, large].map(|samples| samples.spread(format.ours()));
            report.require(&text, Bar::AtMost(MOST_GROWTH), "x", ratio(large?, small?));
        }
    }
    Ok(())
}

/// Compares a directory with its images.
fn compare(lab: &Lab, report: &mut Report, subject: &Subject, state: State) -> Result<Samples> {
    let list = |directory: &Path| list(lab, directory, state);
    if state == State::Warm {
        subject.compare(lab, list).run(1)?;
    }
    let samples = subject.compare(lab, list).run_in(lab)?;
    let title = format!("{state:?} `ls -f` of {}", subject.label());
    report.times(&title, &samples, Compare::Time)?;
    for format in lab.formats()? {
        let text = format!("{title}, {}: time / {NATIVE}", format.ours());
        let times = samples.ratio(format.ours(), NATIVE)?;
        report.require(&text, Bar::AtMost(MOST), "x", times);
    }
    if subject.in_kernel {
        let ours = Format::Erofs.ours();
        let text = format!("{title}, {ours}: time / {KERNEL}");
        let times = samples.ratio(ours, KERNEL)?;
        report.require(&text, Bar::AtMost(MOST_OF_KERNEL), "x", times);
    }
    Ok(samples)
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
