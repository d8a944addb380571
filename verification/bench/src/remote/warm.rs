//! Reading what the cache on disk has.

use std::{
    net::{IpAddr, Ipv4Addr},
    process::Command,
};

use anyhow::{Result, ensure};

use super::{Large, Reading, Way, on_server, server::Server};
use crate::{
    fio::random_reads,
    lab::{Lab, User, ensure_same_file, has},
    mounts::{Mount, Sealed},
    report::{Bar, Compare, Report},
    rounds::{Contest, Spread},
};

const LOCAL: &str = "verimount, local image";
const KEPT: &str = "verimount, from the cache";

/// With a server of its own, which is then switched off.
pub(super) fn run(lab: &Lab, report: &mut Report, large: &Large) -> Result<()> {
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let server = Server::start(lab, &lab.path("www"), here, Command::new("nginx"))?;
    let way = Way::new("loopback", &server, server.http);
    let cache = lab.new_folder()?;
    let kept = Mounting {
        sealed: way.sealed(&large.image),
        options: vec!["--cache".to_owned(), cache.path().display().to_string()],
    };
    let local = Mounting {
        sealed: Sealed {
            source: on_server(lab, &large.image.name),
            digest: large.image.digest.clone(),
        },
        options: Vec::new(),
    };
    // The first mount fills the cache; the second fetches what the first was not asked for, if anything.
    // Each program has its own names for what it keeps.
    lab.with_each_program(|| {
        kept.read_all(lab, large)?;
        kept.read_all(lab, large)
    })?;
    server.take_answered()?;

    let subjects = [(LOCAL, &local), (KEPT, &kept)];
    let cat = Contest::default()
        .variants(subjects, |mounting: &Mounting| {
            let mount = mounting.mount(lab)?;
            lab.make_cold(large.bytes)?;
            Ok(Reading::of(&mount.path().join(Large::FILE))?.seconds_for(large.bytes))
        })
        .run_in(lab)?;
    let bytes = large.bytes;
    let title = format!("`cat` of {} in the cache on disk", large.size());
    report.times(&title, &cat, Compare::Speed { bytes })?;
    report.require(
        "`cat` from the cache: speed / local image",
        Bar::AtLeast(0.95),
        "x",
        cat.ratio(LOCAL, KEPT)?,
    );

    let reads = lab.sizes.random_reads;
    let title = format!("{reads} random reads of 4 KiB in the cache on disk");
    if has("fio") {
        let random = Contest::default()
            .variants(subjects, |mounting: &Mounting| {
                let mount = mounting.mount(lab)?;
                lab.make_cold(reads << 12)?;
                random_reads(&mount.path().join(Large::FILE), reads)
            })
            .run_in(lab)?;
        let bytes = reads << 12;
        report.times(&title, &random, Compare::Speed { bytes })?;
        report.require(
            "random reads from the cache: speed / local image",
            Bar::AtLeast(0.95),
            "x",
            random.ratio(LOCAL, KEPT)?,
        );
    } else {
        report.leave_out(&title, "fio is not installed");
    }

    let requests = server.take_answered()?.requests;
    report.require(
        "mounts whose content is in the cache: requests",
        Bar::AtMost(0.0),
        "",
        Spread::exact(requests as f64),
    );
    drop(server);
    kept.read_all(lab, large)?;
    report.say("With the server switched off, all was read from the cache, and compared.");
    Ok(())
}

/// A mount that can be made again.
struct Mounting {
    sealed: Sealed,
    options: Vec<String>,
}

impl Mounting {
    fn mount(&self, lab: &Lab) -> Result<Mount> {
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        self.sealed.mount(lab, User::Caller, &options)
    }

    /// Reads and compares everything.
    fn read_all(&self, lab: &Lab, large: &Large) -> Result<()> {
        let mount = self.mount(lab)?;
        let file = mount.path().join(Large::FILE);
        let reading = Reading::of(&file)?;
        ensure!(reading.bytes == large.bytes, "not everything was read");
        ensure_same_file(User::Caller, &large.plain, &file)
    }
}
