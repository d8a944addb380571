//! What the first run of an image needs: bytes from the registry and time, pulled and from a store in the same registry.

use std::{path::Path, process::Command};

use anyhow::{Context, Result};
use verimount_support::{command, debian, workspace::target};

use crate::{caller::Caller, output, registry::Registry};

/// The image's name in the registry, and the store's.
const IMAGE: &str = "debian:latest";
const STORE: &str = "store:latest";

/// Shows only the second version of cgroups in this mount namespace: crun refuses a machine with both. Namespaces that podman has
/// made before do not see it.
pub(crate) fn prepare() -> Result<()> {
    let mut mount = Command::new("mount");
    command::run(mount.args(["-t", "cgroup2", "cgroup2", "/sys/fs/cgroup"]))
}

/// Prints a table of it, for each of the users.
pub(crate) fn measure(
    folder: &Path,
    program: &Path,
    builder: &Caller,
    callers: &[Caller],
    registry: &Registry,
) -> Result<()> {
    let archive = folder.join("debian.tar");
    let debian = debian::fetched(&target()?)?;
    builder.run("debian.sh", &[debian.as_ref(), archive.as_ref()])?;
    registry.push(&archive, IMAGE)?;
    let store = folder.join("debian-store.img");
    let mut build = Command::new(program);
    build.args(["build", "--layer-store"]);
    output(build.arg(&archive).arg(&store))?;
    let mut push = Command::new(program);
    let pushed = output(
        push.arg("push")
            .arg(&store)
            .arg(format!("oci://{}/{STORE}", registry.address)),
    )?;
    let pinned = pushed
        .split_whitespace()
        .find(|word| word.starts_with("oci://"));
    let pinned = pinned.with_context(|| format!("no reference in {pushed}"))?;
    println!("\nThe first run of a Debian from a registry on this machine:\n");
    println!("| layers | user | bytes received | seconds |\n|---|---|---:|---:|");
    for caller in callers {
        let image = format!("{}/{IMAGE}", registry.address);
        let found = caller.first_run(program, &image, None)?;
        row("pulled", caller, &found)?;
        let found = caller.first_run(program, &image, Some(pinned))?;
        row("from a store", caller, &found)?;
    }
    Ok(())
}

fn row(layers: &str, caller: &Caller, found: &str) -> Result<()> {
    let (bytes, seconds) = found.split_once(' ').context("no figures")?;
    println!("| {layers} | {} | {bytes} | {seconds} |", caller.name);
    Ok(())
}
