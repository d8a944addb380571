//! A build.

use std::path::Path;

use anyhow::Result;
use verimount_support::workspace::cargo;

use super::{subjects::Subject, workload::Workload};
use crate::{
    lab::{Lab, seconds},
    report::Report,
};

/// Builds a package of this workspace from scratch; all outputs are in the directory.
pub(super) fn run(lab: &Lab, report: &mut Report, subjects: &[Subject]) -> Result<()> {
    let package = lab.sizes.built_package;
    let build = |target: &Path| {
        let mut build = cargo("build");
        build
            .args(["--quiet", "--offline", "--locked", "--package", package])
            .arg("--target-dir")
            .arg(target);
        seconds(&mut build)
    };
    // The compiler and the sources are in the cache from here on.
    build(lab.new_folder()?.path())?;
    let workload = Workload {
        name: "build",
        title: format!("`cargo build --package {package}`"),
        most: Some(1.25),
    };
    workload.run(lab, report, subjects, |subject| {
        let source = lab.new_folder()?;
        let mirror = subject.open(lab, source.path())?;
        rustix::fs::sync();
        build(&mirror.path().join("target"))
    })
}
