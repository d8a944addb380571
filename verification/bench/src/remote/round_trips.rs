//! How many round trips to the server a mount waits for, one after another.

use std::{
    fs::File,
    io::Read,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{
    Large,
    link::{Delay, Link},
    server::Server,
};
use crate::{
    lab::{Lab, User, seconds},
    mounts::Sealed,
    report::{Bar, Report, range},
    rounds::{Contest, Spread},
    table::Table,
};

/// So long that nothing else takes as much time.
const ROUND_TRIP: Duration = Duration::from_millis(250);

const CURL: &str = "curl, first byte";
const MOUNT: &str = "verimount, mount";
const BYTE: &str = "verimount, mount and first byte of a file";

pub(super) fn run(
    lab: &Lab,
    report: &mut Report,
    large: &Large,
    link: &Link,
    server: &Server,
) -> Result<()> {
    let delay = Delay::start(link, server.https, ROUND_TRIP)?;
    let url = |file: &str| format!("https://{}/{file}", delay.address);
    let sealed = Sealed {
        source: url(&large.image.name).into(),
        digest: large.image.digest.clone(),
    };
    let authority = server.certificate();
    let authority = authority.to_str().context("the lab's path is not UTF-8")?;
    let measure = |reads: bool| {
        let cache = lab.new_folder()?;
        let path = cache.path().display().to_string();
        let start = Instant::now();
        let options = ["--cache", &path, "--ca", authority];
        let mount = sealed.mount(lab, User::Caller, &options)?;
        if reads {
            File::open(mount.path().join(Large::FILE))?.read_exact(&mut [0])?;
        }
        Ok(round_trips(start.elapsed().as_secs_f64()))
    };
    let samples = Contest::default()
        .variant(CURL, || {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--show-error", "--fail", "--cacert", authority]);
            curl.args(["--range", "0-0"]).arg(url(Large::FILE));
            Ok(round_trips(seconds(&mut curl)?))
        })
        .variant(MOUNT, || measure(false))
        .variant(BYTE, || measure(true))
        .run_in(lab)?;
    let mut table = Table::new(["variant", "round trips", "min..max"]);
    for name in samples.names() {
        let spread = samples.spread(name)?;
        let Spread { median, .. } = spread;
        table.row([name.to_owned(), median.to_string(), range(spread)]);
    }
    let title = "Round trips one after another, HTTPS";
    report.table(title, table, "round trips", &samples)?;
    for (name, bound) in [(MOUNT, 4.0), (BYTE, 6.0)] {
        let text = format!("round trips one after another, {name}");
        report.require(&text, Bar::AtMost(bound), "", samples.spread(name)?);
    }
    Ok(())
}

/// The round trips that fit into a time: everything else takes less than one.
fn round_trips(seconds: f64) -> f64 {
    (seconds / ROUND_TRIP.as_secs_f64()).floor()
}
