//! Work with a directory of many files, in all ways to use the directory.

use anyhow::Result;

use super::subjects::{NATIVE, Subject};
use crate::{
    lab::Lab,
    report::{Bar, Compare, Report},
    rounds::{Contest, Samples},
};

/// One piece of work.
pub(super) struct Workload {
    /// A short name.
    pub(super) name: &'static str,
    /// A title with everything that a figure depends on.
    pub(super) title: String,
    /// The most time through the bridge, as a multiple of the native time.
    pub(super) most: Option<f64>,
}

impl Workload {
    /// Measures it with all `subjects`.
    pub(super) fn run(
        &self,
        lab: &Lab,
        report: &mut Report,
        subjects: &[Subject],
        measure: impl Fn(&Subject) -> Result<f64> + Copy,
    ) -> Result<()> {
        let named = subjects.iter().map(|subject| (subject.name, subject));
        let samples = Contest::default().variants(named, measure).run_in(lab)?;
        report.times(&self.title, &samples, Compare::Time)?;
        for Subject { name: ours, .. } in subjects.iter().filter(|subject| subject.is_ours()) {
            if let Some(most) = self.most {
                let text = format!("{}, {ours}: time / native", self.name);
                report.require(&text, Bar::AtMost(most), "x", samples.ratio(ours, NATIVE)?);
            }
            if let Some(peer) = fastest_peer(&samples, subjects)? {
                let text = format!("{}, {ours}: time / {peer}, the fastest peer", self.name);
                report.require(&text, Bar::AtMost(1.0), "x", samples.ratio(ours, peer)?);
            }
        }
        Ok(())
    }
}

fn fastest_peer(samples: &Samples, subjects: &[Subject]) -> Result<Option<&'static str>> {
    let mut fastest: Option<(f64, &str)> = None;
    for Subject { name, .. } in subjects.iter().filter(|subject| subject.is_peer()) {
        let median = samples.spread(name)?.median;
        if fastest.is_none_or(|(least, _)| median < least) {
            fastest = Some((median, name));
        }
    }
    Ok(fastest.map(|(_, name)| name))
}
