//! `cargo xtask archives`: what Verimount reads of a tar archive is the tree that other programs unpack.

// The paths shown here are our own.
#![allow(clippy::disallowed_methods)]

mod generate;
mod lists;
mod readers;
mod running;
mod tree;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
};

use anyhow::{Result, bail, ensure};
use clap::Parser;
use verimount_scan::{Options as ScanOptions, scan_archive};
use verimount_support::{
    program,
    setup::{self, Purpose},
    workspace::target,
};
use verimount_testkit::Random;

use self::{
    generate::{Extension, Generated, generate},
    readers::Reader,
    tree::{Tree, compared},
};

/// Of the archives that all other programs read alike, one in so many may be refused.
const ACCEPTED_OF: usize = 1000;

/// How many archives with a difference are described.
const DESCRIBED: usize = 10;

/// Check that tar archives are the same trees to Verimount, GNU tar, libarchive, Python and Go
///
/// Each archive has members with random pairs of what formats have added to the header. Verimount must read the tree that the
/// others unpack, or refuse the archive; it must accept what all others read alike. As many archives have access control lists and
/// are written by the others. Needs root.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask archives")]
struct Options {
    /// How many archives
    #[arg(long, default_value_t = 2000)]
    count: usize,
    /// The seed of the first one; the next one has the next seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    program::run(|| run(&options))
}

fn run(options: &Options) -> Result<()> {
    setup::ensure_ready(&[Purpose::Test])?;
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root may give files to others, as archives say");
        return Ok(());
    }
    let folder = tempfile::Builder::new().prefix("verimount-").tempdir()?;
    let mut readers = Reader::all(folder.path())?;
    let mut report = Report::new(target()?.join("archives"));
    for number in 0..options.count as u64 {
        let seed = options.seed + number;
        report.check(seed, folder.path(), &mut readers)?;
    }
    report.print(&readers);
    report.conclude(&readers)?;
    let seeds = options.seed..options.seed + options.count as u64;
    lists::check(seeds, folder.path(), &report.kept)
}

/// What was found.
struct Report {
    /// Where archives with a difference are kept.
    kept: PathBuf,
    archives: usize,
    accepted: usize,
    /// How many archives all other programs read alike, and how many of them are refused here.
    alike: usize,
    refused_alike: usize,
    differ: usize,
    /// How often each pair of extensions occurred.
    pairs: BTreeMap<(Extension, Extension), usize>,
    /// How many archives each program refused of those that are accepted here.
    refused_by: BTreeMap<&'static str, usize>,
}

impl Report {
    fn new(kept: PathBuf) -> Self {
        Self {
            kept,
            archives: 0,
            accepted: 0,
            alike: 0,
            refused_alike: 0,
            differ: 0,
            pairs: BTreeMap::new(),
            refused_by: BTreeMap::new(),
        }
    }

    /// Has all programs read the archive of a seed.
    fn check(&mut self, seed: u64, folder: &Path, readers: &mut [Reader]) -> Result<()> {
        let Generated { bytes, pairs } = generate(&mut Random::new(seed));
        for pair in pairs {
            *self.pairs.entry(pair).or_default() += 1;
        }
        let path = folder.join("archive.tar");
        fs::write(&path, &bytes)?;
        let ours = scan_archive(File::open(&path)?, &path, &ScanOptions::default());
        let refusal = ours.as_ref().err().map(ToString::to_string);
        let ours = ours.ok().map(|tree| compared(&tree)).transpose()?;
        let theirs = read_all(readers, &path)?;
        self.archives += 1;
        let first = theirs.first().and_then(|(_, tree)| tree.as_ref());
        let is_alike = first.is_some() && theirs.iter().all(|(_, tree)| tree.as_ref() == first);
        self.alike += usize::from(is_alike);
        match (ours, refusal) {
            (Some(ours), _) => {
                self.accepted += 1;
                self.compare(seed, &bytes, &ours, &theirs)?;
            }
            (None, reason) if is_alike => {
                self.refused_alike += 1;
                if self.refused_alike <= DESCRIBED {
                    println!(
                        "seed {seed}, {}: read alike, but refused: {}",
                        keep(&self.kept, &seed.to_string(), &bytes)?.display(),
                        reason.unwrap_or_default()
                    );
                }
            }
            (None, _) => {}
        }
        Ok(())
    }

    /// Compares the tree of an archive with those that other programs have unpacked.
    fn compare(
        &mut self,
        seed: u64,
        bytes: &[u8],
        ours: &Tree,
        theirs: &[(&'static str, Option<Tree>)],
    ) -> Result<()> {
        let mut other = None;
        for (name, tree) in theirs {
            match tree {
                None => *self.refused_by.entry(name).or_default() += 1,
                Some(tree) if tree != ours => other = other.or(Some((name, tree))),
                Some(_) => {}
            }
        }
        let Some((name, tree)) = other else {
            return Ok(());
        };
        self.differ += 1;
        if self.differ <= DESCRIBED {
            let kept = keep(&self.kept, &seed.to_string(), bytes)?;
            println!("seed {seed}, {}: {name} has another tree", kept.display());
            print_difference(ours, tree);
        }
        Ok(())
    }

    fn print(&self, readers: &[Reader]) {
        let names: Vec<_> = readers.iter().map(|reader| reader.name).collect();
        let possible = Extension::ALL.len() * (Extension::ALL.len() - 1) / 2;
        println!(
            "{} archives read by {}: {} accepted, of which {} differ; {} read alike by all others, of which {} are refused",
            self.archives,
            names.join(", "),
            self.accepted,
            self.differ,
            self.alike,
            self.refused_alike
        );
        println!(
            "{} of {possible} pairs of extensions, each at least {} times; accepted here, but refused by others: {:?}",
            self.pairs.len(),
            self.pairs.values().min().unwrap_or(&0),
            self.refused_by
        );
    }

    fn conclude(&self, readers: &[Reader]) -> Result<()> {
        ensure!(
            self.differ == 0,
            "{} archives have another tree",
            self.differ
        );
        // A program that always fails would hide everything.
        ensure!(self.alike > 0, "no archive is read alike by all programs");
        // What Go refuses, the others may read alike. In a short run, one is no sign.
        let has_all = readers.iter().any(|reader| reader.name == "Go");
        if has_all && self.refused_alike > 1.max(self.alike / ACCEPTED_OF) {
            bail!(
                "{} archives are refused without a reason",
                self.refused_alike
            );
        }
        Ok(())
    }
}

/// What each program unpacks of an archive; all at once, as most of the time passes while they start and end.
fn read_all(readers: &mut [Reader], archive: &Path) -> Result<Vec<(&'static str, Option<Tree>)>> {
    thread::scope(|scope| {
        let read = |reader: &mut Reader| Ok((reader.name, reader.read(archive)?));
        let threads = readers
            .iter_mut()
            .map(|reader| scope.spawn(move || read(reader)));
        let threads: Vec<_> = threads.collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().expect("it does not panic"));
        joined.collect()
    })
}

/// Keeps an archive in a folder, and returns its path.
fn keep(folder: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let kept = folder.join(format!("{name}.tar"));
    fs::write(&kept, bytes)?;
    Ok(kept)
}

/// Prints what only one of two trees has.
fn print_difference(ours: &Tree, theirs: &Tree) {
    for (who, one, other) in [("Verimount", ours, theirs), ("other", theirs, ours)] {
        for (path, found) in one
            .iter()
            .filter(|(path, found)| other.get(*path) != Some(found))
        {
            let found: String = format!("{found:?}").chars().take(200).collect();
            println!("  {who}: {}: {found}", path.display());
        }
    }
}
