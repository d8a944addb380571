//! Reads at random places of the large file.

use std::{fs::File, os::unix::fs::FileExt, path::Path, thread, time::Instant};

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};

use super::{
    LONGEST_READ, Large, Way,
    subjects::{OURS, Subject},
};
use crate::{
    data::Random,
    lab::Lab,
    report::{Bar, Report, figure, with_range},
    rounds::{Contest, Spread},
    table::Table,
};

/// The bytes that are fetched for reads of 4 KiB, which are one percent of the file.
pub(super) fn bytes(
    lab: &Lab,
    report: &mut Report,
    large: &Large,
    way: &Way<'_>,
    subjects: &[Subject],
) -> Result<()> {
    const SIZE: usize = 4 << 10;
    let reads = large.bytes / 100 / SIZE as u64;
    let measure = |subject: Subject| {
        way.server.take_answered()?;
        let mounted = subject.mount(lab, way, large)?;
        large.make_cold(lab)?;
        let done = read(&mounted.file(), SIZE, reads, 1)?;
        drop(mounted);
        let fetched = way.server.take_answered()?.bytes;
        Ok(fetched as f64 / (done * SIZE as u64) as f64)
    };
    let named = subjects.iter().map(|subject| (subject.name(), *subject));
    let samples = Contest::default().variants(named, measure).run_in(lab)?;
    let title = format!("Bytes fetched for {reads} random reads of 4 KiB, cold");
    let mut table = Table::new(["variant", "fetched / read"]);
    for name in samples.names() {
        table.row([name.to_owned(), with_range(samples.spread(name)?)]);
    }
    report.table(&title, table, "x", &samples)?;
    report.require(
        "1 % of a file in random reads of 4 KiB: bytes fetched / read",
        Bar::AtMost(70.0),
        "x",
        samples.spread(OURS)?,
    );
    Ok(())
}

/// Many readers at once, which all wait for a far server.
pub(super) fn readers(lab: &Lab, report: &mut Report, large: &Large, way: &Way<'_>) -> Result<()> {
    const SIZE: usize = 128 << 10;
    const READERS: u64 = 16;
    /// Of each reader.
    const READS: u64 = 24;
    // Reads per second.
    let measure = |readers: u64| {
        let mounted = Subject::Ours.mount(lab, way, large)?;
        let file = &*mounted.file();
        large.make_cold(lab)?;
        let start = Instant::now();
        let done = thread::scope(|scope| {
            let readers =
                (0..readers).map(|seed| scope.spawn(move || read(file, SIZE, READS, seed)));
            let readers: Vec<_> = readers.collect();
            let done = readers
                .into_iter()
                .map(|reader| reader.join().ok().context("a reader panicked")?);
            done.sum::<Result<u64>>()
        })?;
        Ok(done as f64 / start.elapsed().as_secs_f64())
    };
    let [one, many] = ["1 reader".to_owned(), format!("{READERS} readers")];
    let samples = Contest::default()
        .variant(&one, || measure(1))
        .variant(&many, || measure(READERS))
        .run_in(lab)?;
    let ratio = samples.ratio(&many, &one)?;
    let mut table = Table::new(["variant", "reads per second", "min..max"]);
    for name in [&one, &many] {
        let Spread { median, min, max } = samples.spread(name)?;
        table.row([
            name.clone(),
            figure(median),
            format!("{}..{}", figure(min), figure(max)),
        ]);
    }
    let title = format!("Cold random reads of 128 KiB, {}", way.name);
    report.table(&title, table, "reads/s", &samples)?;
    let text = format!(
        "random reads of 128 KiB, {}: {READERS} readers / 1",
        way.name
    );
    report.require(&text, Bar::AtLeast(12.0), "x", ratio);
    Ok(())
}

/// Reads `size` bytes at places that depend on `seed`; returns how many reads were done in time.
fn read(file: &Path, size: usize, reads: u64, seed: u64) -> Result<u64> {
    let file = File::open(file)?;
    let places = file.metadata()?.len() / size as u64;
    // The kernel reads nothing ahead then.
    fadvise(&file, 0, None, Advice::Random)?;
    let mut random = Random::new(seed);
    let mut buffer = vec![0; size];
    let start = Instant::now();
    for done in 0..reads {
        if start.elapsed() > LONGEST_READ {
            return Ok(done);
        }
        file.read_exact_at(&mut buffer, random.next() % places * size as u64)?;
    }
    Ok(reads)
}
