//! The effect of size: the time of mounting and of listing large directories, and the memory that this
//! takes.

mod directories;
mod images;
mod mirrors;
mod volumes;

use std::time::Instant;

use anyhow::Result;

use crate::{
    lab::Lab,
    mounts::Mount,
    report::{Report, figure, range},
    rounds::{Contest, Samples, Spread},
    table::Table,
};

pub(crate) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    images::run(lab, report)?;
    directories::run(lab, report)?;
    mirrors::run(lab, report)?;
    volumes::run(lab, report)
}

/// A subject of measurement in several sizes.
#[derive(Debug)]
struct Sized<T> {
    size: u64,
    /// The size, for output.
    label: String,
    thing: T,
}

/// The time until something is mounted, in milliseconds; cold if caches can be dropped.
fn time_to_mount(lab: &Lab, mount: impl FnOnce() -> Result<Mount>) -> Result<f64> {
    if lab.is_root() {
        lab.make_cold(0)?;
    }
    let start = Instant::now();
    let mount = mount()?;
    let milliseconds = start.elapsed().as_secs_f64() * 1e3;
    drop(mount);
    Ok(milliseconds)
}

/// A measured cost, in `unit`.
struct Cost<'a> {
    title: &'a str,
    /// What the sizes count.
    size_of: &'a str,
    unit: &'a str,
}

impl Cost<'_> {
    /// Measures it with each of `things`, smallest first, and plots it by size. The samples are named by the
    /// labels.
    fn measure<T>(
        &self,
        lab: &Lab,
        report: &mut Report,
        things: &[Sized<T>],
        measure: impl Fn(&T) -> Result<f64> + Copy,
    ) -> Result<Samples> {
        let named = things
            .iter()
            .map(|sized| (sized.label.as_str(), &sized.thing));
        let samples = Contest::default().variants(named, measure).run_in(lab)?;
        let unit = self.unit;
        let mut table = Table::new([
            self.size_of.to_owned(),
            format!("median {unit}"),
            format!("min..max {unit}"),
        ]);
        let mut points = Vec::new();
        for Sized { size, label, .. } in things {
            let spread = samples.spread(label)?;
            let Spread { median, .. } = spread;
            table.row([label.clone(), figure(median), range(spread)]);
            points.push((*size as f64, label.as_str(), spread));
        }
        report.against_size(self.title, table, unit, &points, &samples)?;
        Ok(samples)
    }
}
