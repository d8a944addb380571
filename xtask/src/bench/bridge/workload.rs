//! What is done with a directory of many files, in as many ways to use the directory.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use super::subjects::{EXCLUSIVE, NATIVE, OURS, Subject};
use crate::{
    bench::{
        data,
        lab::{Lab, seconds},
        report::{Bar, Compare, Report},
        rounds::{Contest, Samples},
    },
    command,
};

/// The tree of files: as it is, and in an archive.
pub(super) struct Tree {
    /// The directory that holds nothing else.
    pub(super) source: PathBuf,
    pub(super) archive: PathBuf,
    /// How much there is, for people to read.
    pub(super) size: String,
    bytes: u64,
}

impl Tree {
    /// What the tree's top is called, in the directory and in the archive.
    pub(super) const NAME: &str = "tree";

    pub(super) fn make(lab: &Lab) -> Result<Self> {
        let source = lab.path("mirrored");
        fs::create_dir(&source)?;
        let bytes = data::write_tree(&source.join(Self::NAME), &lab.sizes)?;
        let archive = lab.path("tree.tar");
        let mut tar = Command::new("tar");
        tar.arg("cf").arg(&archive).arg("-C").arg(&source);
        command::run(tar.arg(Self::NAME))?;
        Ok(Self {
            source,
            archive,
            size: format!("{} files, {} MB", lab.sizes.files(), bytes / 1_000_000),
            bytes,
        })
    }

    /// What unpacks the archive into `folder`.
    pub(super) fn unpack(&self, folder: &Path) -> Command {
        let mut tar = Command::new("tar");
        tar.arg("xf").arg(&self.archive).arg("-C").arg(folder);
        tar
    }

    /// Makes ready for as much to be written as there is in the archive, and that be in the cache.
    pub(super) fn make_ready(&self, lab: &Lab) -> Result<()> {
        if lab.is_root() {
            lab.make_cold(self.bytes)?;
        } else {
            rustix::fs::sync();
        }
        seconds(Command::new("cat").arg(&self.archive))?;
        Ok(())
    }
}

/// One piece of work.
pub(super) struct Workload {
    /// In few words.
    pub(super) name: &'static str,
    /// With all that a figure depends on.
    pub(super) title: String,
    /// How long it may take through the bridge, as a multiple of the native time.
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
        let samples = Contest::default()
            .variants(named, measure)
            .run(lab.rounds)?;
        report.times(&self.title, &samples, Compare::Time)?;
        for ours in [OURS, EXCLUSIVE] {
            if let Some(most) = self.most {
                let text = format!("{}, {ours}: time / native", self.name);
                report.require(&text, Bar::AtMost(most), "x", samples.ratio(ours, NATIVE)?);
            }
            if let Some(peer) = fastest_peer(&samples)? {
                let text = format!("{}, {ours}: time / {peer}, the fastest peer", self.name);
                report.require(&text, Bar::AtMost(1.0), "x", samples.ratio(ours, peer)?);
            }
        }
        Ok(())
    }
}

fn fastest_peer(samples: &Samples) -> Result<Option<&str>> {
    let mut fastest: Option<(f64, &str)> = None;
    for name in samples.names() {
        let median = samples.spread(name)?.median;
        let is_peer = ![NATIVE, OURS, EXCLUSIVE].contains(&name);
        if is_peer && fastest.is_none_or(|(least, _)| median < least) {
            fastest = Some((median, name));
        }
    }
    Ok(fastest.map(|(_, name)| name))
}
