//! Two releases of a tree.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Result;
use verimount_support::{
    command,
    venv::{self, Venv},
};

use crate::{data, lab::Lab, report::Report};

/// Two releases of a tree.
pub(super) struct Pair {
    pub(super) name: &'static str,
    pub(super) old: PathBuf,
    pub(super) new: PathBuf,
    /// The newer files that the older one has otherwise or not.
    pub(super) changed: PathBuf,
    pub(super) is_compressible: bool,
}

impl Pair {
    fn new(name: &'static str, old: PathBuf, new: PathBuf, is_compressible: bool) -> Result<Self> {
        let changed = new.with_extension("changed");
        let mut rsync = Command::new("rsync");
        rsync.args([
            "--recursive",
            "--checksum",
            "--prune-empty-dirs",
            "--compare-dest",
        ]);
        // Its arguments end with a slash, as it would copy the folder itself otherwise.
        rsync.args([&old.join(""), &new.join(""), &changed]);
        quietly(&mut rsync)?;
        Ok(Self {
            name,
            old,
            new,
            changed,
            is_compressible,
        })
    }
}

/// How many files a model has.
const SHARDS: u64 = 20;

/// Those that can be had here: what is fetched from Debian and PyPI changes with time.
pub(super) fn all(lab: &Lab, report: &mut Report) -> Result<Vec<Pair>> {
    let mut kinds = Vec::new();
    if lab.sizes.fetches {
        kinds.extend([("a Debian", debian as fn(&Lab) -> _), ("a Python", python)]);
    }
    kinds.push(("a model", model));
    let mut pairs = Vec::new();
    for (what, make) in kinds {
        match make(lab) {
            Ok(more) => pairs.extend(more),
            Err(error) => report.leave_out(what, &format!("{error:#}")),
        }
    }
    Ok(pairs)
}

/// Files that cannot be compressed, one of which is replaced.
fn model(lab: &Lab) -> Result<Vec<Pair>> {
    // Itself, both images, one that was fetched, and what others serve.
    lab.ensure_free(5 * SHARDS * lab.sizes.shard)?;
    let [old, new] = ["model", "model-new"].map(|name| lab.path(name));
    for folder in [&old, &new] {
        fs::create_dir(folder)?;
    }
    for number in 0..SHARDS {
        let name = format!("model-{number:05}.safetensors");
        data::write_one_of_many(&old.join(&name), lab.sizes.shard, number)?;
        match number {
            7 => data::write_one_of_many(&new.join(&name), lab.sizes.shard, SHARDS)?,
            _ => fs::hard_link(old.join(&name), new.join(&name))?,
        }
    }
    let name = "model of 20 files, one replaced";
    Ok(vec![Pair::new(name, old, new, false)?])
}

/// The release of Debian as it first was on the installation medium, with some of its packages upgraded, and with all.
fn debian(lab: &Lab) -> Result<Vec<Pair>> {
    const PACKAGES: &str =
        "--include=ca-certificates,gcc,git,locales,nginx-light,openssh-client,openssl,python3,vim";
    /// How many packages are upgraded where not all are.
    const FEW: &str = "10";
    let [old, few, all] = ["debian", "debian-few", "debian-all"].map(|name| lab.path(name));
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.args(["--variant=minbase", PACKAGES, "bookworm"]);
    quietly(debootstrap.arg(&old))?;
    fs::copy("/etc/resolv.conf", old.join("etc/resolv.conf"))?;
    let sources = [
        "deb http://deb.debian.org/debian bookworm main",
        "deb http://deb.debian.org/debian bookworm-updates main",
        "deb http://deb.debian.org/debian-security bookworm-security main",
    ];
    fs::write(old.join("etc/apt/sources.list"), sources.join("\n"))?;
    let inside = |root: &Path, script: &str| {
        let mut chroot = Command::new("chroot");
        chroot.arg(root).args(["sh", "-ec", script]);
        chroot.env_clear().env("DEBIAN_FRONTEND", "noninteractive");
        quietly(chroot.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"))
    };
    inside(&old, "apt-get update; apt-get clean")?;
    copy(&old, &few)?;
    let upgrade = format!(
        "apt-get install --yes --only-upgrade $(apt-get --simulate upgrade | sed -n 's/^Inst \\([^ ]*\\).*/\\1/p' | sort | head -{FEW});"
    );
    inside(&few, &format!("{upgrade} apt-get clean"))?;
    copy(&old, &all)?;
    inside(&all, "apt-get upgrade --yes; apt-get clean")?;
    Ok(vec![
        Pair::new("Debian, ten packages upgraded", old.clone(), few, true)?,
        Pair::new("Debian, all packages upgraded", old, all, true)?,
    ])
}

/// An environment with packages of numbers, in a release and a later one.
fn python(lab: &Lab) -> Result<Vec<Pair>> {
    const OLD: &[&str] = &["numpy==2.2.0", "pandas==2.2.2", "requests==2.32.2"];
    const NEW: &[&str] = &["numpy==2.2.1", "pandas==2.2.3", "requests==2.32.3"];
    let [old, new] = ["python", "python-new"].map(|name| lab.path(name));
    Venv::new(Path::new(venv::SYSTEM), &old)?.install(OLD, &[])?;
    copy(&old, &new)?;
    Venv::at(new.clone()).install(NEW, &[])?;
    let name = "Python with pandas, three packages upgraded";
    Ok(vec![Pair::new(name, old, new, true)?])
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    command::run(Command::new("cp").arg("-a").arg(from).arg(to))
}

fn quietly(command: &mut Command) -> Result<()> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command::run(command.stderr(Stdio::null()))
}
