//! `cargo xtask dist`: makes what is published. Two builds of a commit are equal, wherever they are made.

pub(crate) mod binary;
mod debian;
mod installed;
pub(crate) mod notices;
mod reproduced;
mod site;
mod sources;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use tempfile::TempDir;
use verimount_support::{
    command,
    setup::{self, Purpose},
    workspace::{root, target},
};

use crate::python;

/// The version of all that is published.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The package of the command.
pub(crate) const COMMAND: &str = "verimount-cli";

/// The file that is made last.
const CHECKSUMS: &str = "SHA256SUMS";

/// Make what is published, in target/dist: a static binary, a Debian package, archives, the documentation's site, the Python package, checksums
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Make it once more in a copy of the repository elsewhere, and compare
    #[arg(long)]
    check: bool,
    /// The folder to make it in, which is emptied [default: dist in cargo's target folder]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let output = match &options.output {
        Some(output) => {
            // It is about to be emptied.
            let is_ours = !output.exists() || output.join(CHECKSUMS).exists();
            ensure!(
                is_ours || files(output)?.is_empty(),
                "{} has other files",
                output.display()
            );
            std::path::absolute(output)?
        }
        None => target()?.join("dist"),
    };
    make(&output)?;
    if options.check {
        reproduced::check(&output)?;
    }
    print_sizes(&output)
}

fn ensure_committed() -> Result<()> {
    let changed = command::stdout(&mut git(&["status", "--porcelain"]))?;
    ensure!(
        changed.is_empty(),
        "a commit is published, but some changes are in none:\n{changed}"
    );
    Ok(())
}

/// Makes all files in the folder `output`, which has nothing else afterwards.
pub(crate) fn make(output: &Path) -> Result<()> {
    setup::ensure_installed(&[Purpose::Dist])?;
    ensure_committed()?;
    if output.exists() {
        fs::remove_dir_all(output).with_context(|| output.display().to_string())?;
    }
    fs::create_dir_all(output)?;
    let commit = Commit::head()?;
    let work = TempDir::new()?;
    sources::archive(&commit, work.path(), output)?;
    let binary = binary::build()?;
    let notices = notices::of(&[(COMMAND, &binary::platform())])?;
    let tree = work.path().join("installed");
    installed::lay_out(&binary, &notices, &tree)?;
    fs::copy(&binary, output.join(named("")))?;
    commit.pack(&tree, ".", &output.join(named(".tar.gz")), "gzip -9n")?;
    debian::package(&commit, &tree, output)?;
    site::archive(&commit, work.path(), output)?;
    python::make_wheel(output)?;
    write_checksums(output)?;
    // Some files are those of the folder that was being worked in.
    ensure_committed()
}

/// The name of a file for this kind of machine.
fn named(ending: &str) -> String {
    format!(
        "verimount-{VERSION}-{}-linux{ending}",
        std::env::consts::ARCH
    )
}

/// What is published: everything in it has the time of the commit.
struct Commit {
    /// In seconds since 1970.
    time: String,
}

impl Commit {
    fn head() -> Result<Self> {
        let time = command::stdout(&mut git(&["log", "--max-count=1", "--format=%ct"]))?;
        Ok(Self { time })
    }

    /// Packs `member` of the folder `inside` with all that is in it.
    fn pack(&self, inside: &Path, member: &str, archive: &Path, compressor: &str) -> Result<()> {
        let mut tar = Command::new("tar");
        tar.args(["--create", "--format=gnu", "--sort=name", "--owner=0"])
            .args(["--group=0", "--numeric-owner", "--mode=u+rw,go=rX"])
            .arg(format!("--mtime=@{}", self.time))
            .arg(format!("--use-compress-program={compressor}"))
            .arg("--file")
            .arg(archive)
            .arg("--directory")
            .arg(inside)
            .arg(member);
        command::run(&mut tar)
    }
}

fn git(arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.current_dir(root()).args(arguments);
    git
}

/// The files in a folder, by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// In the form of sha256sum(1). The publisher signs this file, and thereby all others.
fn write_checksums(output: &Path) -> Result<()> {
    let mut sums = Command::new("sha256sum");
    sums.current_dir(output);
    for file in files(output)? {
        sums.arg(file.strip_prefix(output)?);
    }
    let sums = command::stdout(&mut sums)?;
    Ok(fs::write(output.join(CHECKSUMS), sums + "\n")?)
}

fn print_sizes(output: &Path) -> Result<()> {
    for file in files(output)? {
        println!("{:>12}  {}", fs::metadata(&file)?.len(), file.display());
    }
    Ok(())
}
