//! Compares a mirrored directory with the directory itself and with other mirrors.

mod audit;
mod build;
mod changes;
mod fairness;
mod git;
mod hog;
mod loads;
mod reads_and_writes;
mod round_trips;
mod subjects;
mod untar;
mod walk;
mod workload;

use anyhow::Result;

use self::subjects::{Subject, possible};
use crate::{lab::Lab, report::Report, tree::Tree};

pub(crate) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    let peers = if lab.has_older_program() {
        let reason =
            "between two of our programs, the source alone shows how much the machine varies";
        report.leave_out("mirrors of other projects", reason);
        Vec::new()
    } else {
        possible(lab, report, &Subject::PEERS)?
    };
    let bridges = [Subject::OURS, Subject::RELAY, Subject::EXCLUSIVE];
    round_trips::run(lab, report, &[&bridges[..], &peers].concat())?;

    audit::run(lab, report)?;
    changes::run(lab, report)?;
    fairness::run(lab, report)?;
    loads::run(lab, report)?;

    let ways = [Subject::NATIVE, Subject::PASSTHROUGH, Subject::RELAY];
    let ways = possible(lab, report, &ways)?;
    reads_and_writes::run(lab, report, &ways)?;

    let mut subjects = vec![Subject::NATIVE];
    let bridges = [Subject::OURS, Subject::EXCLUSIVE, Subject::AWAKE];
    subjects.extend(possible(lab, report, &bridges)?);
    subjects.extend(peers);
    let tree = Tree::make(lab)?;
    let without_xattr = [Subject::NO_XATTR, Subject::AWAKE_NO_XATTR];
    let without_xattr = possible(lab, report, &without_xattr)?;
    let all = [&subjects[..], &without_xattr].concat();
    untar::run(lab, report, &all, &tree)?;
    walk::run(lab, report, &subjects, &tree)?;
    git::run(lab, report, &subjects, &tree)?;
    build::run(lab, report, &subjects)
}
