//! Images of which an older one is here: what is new in the newer one, and what it takes to fetch it, compared with other
//! programs that fetch only what changed.

mod counts;
mod fetchers;
mod images;
mod pairs;
mod site;
mod through_cache;

use std::fs;

use anyhow::Result;

use self::{
    counts::Counts,
    images::{Compression, Images},
    site::Site,
};
use crate::{
    lab::{Lab, has},
    remote::link::Link,
    report::Report,
};

pub(crate) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    const ALL: &str = "everything about updates";
    if !lab.is_root() {
        report.leave_out(ALL, Lab::NEEDS_ROOT);
        return Ok(());
    }
    for program in ["nginx", "openssl", "rsync"] {
        if !has(program) {
            report.leave_out(ALL, &format!("{program} is not installed"));
            return Ok(());
        }
    }
    let files = lab.path("www");
    fs::create_dir(&files)?;
    fs::create_dir(lab.path("fetched"))?;
    let link = Link::new();
    let mut sites = vec![Site::near(lab, &files)?];
    match &link {
        Ok(link) => sites.push(Site::far(lab, &files, link)?),
        Err(error) => report.leave_out("a far server", &format!("{error:#}")),
    }
    let mut counts = Counts::new();
    for pair in pairs::all(lab, report)? {
        for compression in Compression::ALL {
            let images = Images::build(lab, &pair, compression)?;
            counts.add(lab, report, &pair, compression, &images)?;
            fetchers::prepare(&images)?;
            for site in &sites {
                fetchers::run(lab, report, site, &images)?;
            }
            through_cache::run(lab, report, &sites[0], &images)?;
        }
    }
    counts.say(report);
    Ok(())
}
