use std::path::Path;

use anyhow::Result;

use super::engine::{Engine, Subject};
use crate::{
    lab::Lab,
    report::{Bar, Compare, Report},
    rounds::Contest,
};

/// How often what is in memory is read; the fastest time counts.
const WARM_READS: usize = 3;

/// Something that is done with a directory; returns the seconds.
pub(super) type Work<'a> = &'a dyn Fn(&Path) -> Result<f64>;

/// The most time that a native mount may take, as a multiple of another's.
pub(super) type Most = (Engine, f64);

/// Compares all engines with nothing in memory.
pub(super) fn cold(
    lab: &Lab,
    report: &mut Report,
    subject: &Subject,
    what: &str,
    work: Work<'_>,
    most: &[Most],
) -> Result<()> {
    let bytes = subject.bytes()?;
    compare(
        (lab, subject),
        report,
        &format!("Cold {what}"),
        most,
        &|engine| {
            let there = subject.shown_by(lab, engine)?;
            lab.make_cold(bytes)?;
            work(there.path())
        },
    )
}

/// Compares all engines with everything in memory.
pub(super) fn warm(
    lab: &Lab,
    report: &mut Report,
    subject: &Subject,
    what: &str,
    work: Work<'_>,
    most: &[Most],
) -> Result<()> {
    compare(
        (lab, subject),
        report,
        &format!("Warm {what}"),
        most,
        &|engine| {
            let there = subject.shown_by(lab, engine)?;
            work(there.path())?;
            (0..WARM_READS).try_fold(f64::INFINITY, |fastest, _| {
                Ok(fastest.min(work(there.path())?))
            })
        },
    )
}

fn compare(
    (lab, subject): (&Lab, &Subject),
    report: &mut Report,
    title: &str,
    most: &[Most],
    measure: &dyn Fn(Engine) -> Result<f64>,
) -> Result<()> {
    let engines = subject.engines().iter();
    let engines = engines.map(|engine| (engine.name(), *engine));
    let samples = Contest::default()
        .variants(engines, measure)
        .run(lab.rounds)?;
    report.times(title, &samples, Compare::Time)?;
    for (engine, most) in most {
        let (native, other) = (Engine::Native.name(), engine.name());
        let text = format!("{title}: time / {other}");
        let ratio = samples.ratio(native, other)?;
        report.require(&text, Bar::AtMost(*most), "x", ratio);
    }
    Ok(())
}
