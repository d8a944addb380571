//! Access control lists and other attributes in archives: an image of them has the modes, lists and attributes that the program which wrote an archive unpacks or,
//! if it knows no lists, that the kernel gives a file which gets them.

mod maker;
mod member;
mod store;
mod writer;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fs::{self, File},
    ops::Range,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, Result, bail, ensure};
use verimount_scan::{Options as ScanOptions, scan_archive};
use verimount_support::{command, interrupt, workspace::build_tested_verimount};
use verimount_testkit::shown;

use self::{
    maker::Maker,
    member::{ACCESS, CAPABILITY, DEFAULT, USERS},
    store::{Store, layer_path},
};
use crate::keep;

/// How many archives are the layers of one image: as many as it can have, nearly.
const LAYERS: usize = 1000;

/// How many archives with a difference are described.
const DESCRIBED: usize = 10;

/// What is compared of a file.
#[derive(Debug, PartialEq)]
struct Found {
    mode: u32,
    owner: (u32, u32),
    attributes: BTreeMap<OsString, Vec<u8>>,
}

/// Files by their paths.
type Listed = BTreeMap<PathBuf, Found>;

/// An archive.
struct Written {
    seed: u64,
    writer: &'static str,
    bytes: Vec<u8>,
    /// What is in it.
    expected: Listed,
}

/// Writes an archive for each seed, and compares what images of them have. Works in `folder`; archives with a difference go to
/// `kept`.
pub(crate) fn check(seeds: Range<u64>, folder: &Path, kept: &Path) -> Result<()> {
    let mut lists = Lists {
        folder,
        kept,
        verimount: build_tested_verimount()?,
        makers: [Maker::new(folder, "one")?, Maker::new(folder, "other")?],
        written: BTreeMap::new(),
        in_kernel: 0,
        differ: 0,
    };
    let seeds: Vec<_> = seeds.collect();
    for seeds in seeds.chunks(LAYERS) {
        lists.check(seeds)?;
    }
    println!(
        "{} archives with access control lists and odd attributes, by {:?}: {} compared with the kernel's mount; {} differ",
        seeds.len(),
        lists.written,
        lists.in_kernel,
        lists.differ
    );
    ensure!(
        lists.differ == 0,
        "{} archives have other lists or attributes",
        lists.differ
    );
    Ok(())
}

struct Lists<'a> {
    folder: &'a Path,
    kept: &'a Path,
    verimount: PathBuf,
    makers: [Maker; 2],
    /// How many archives each program has written.
    written: BTreeMap<&'static str, usize>,
    /// How many were compared with the kernel's mount.
    in_kernel: usize,
    differ: usize,
}

impl Lists<'_> {
    fn check(&mut self, seeds: &[u64]) -> Result<()> {
        let mut all = Vec::new();
        for written in self.write_all(seeds)? {
            *self.written.entry(written.writer).or_default() += 1;
            if self.is_accepted(&written)? {
                all.push(written);
            }
        }
        let layers = all.iter().map(|written| &*written.bytes);
        let store = Store::new(self.folder, &self.verimount, layers)?;
        for written in &all {
            self.compare(written, &store)?;
        }
        self.in_kernel += if store.is_in_kernel() { all.len() } else { 0 };
        Ok(())
    }

    /// Looks for what is otherwise in the image of an archive.
    fn compare(&mut self, written: &Written, store: &Store) -> Result<()> {
        let layer = layer_path(&written.bytes);
        for (reader, root) in store.roots() {
            let found = listed(&root.join(&layer))?;
            if found != written.expected {
                return self.report(written, reader, &found);
            }
        }
        Ok(())
    }

    /// Writes the archives of these seeds, each maker a half: most of the time passes while programs start and end.
    fn write_all(&mut self, seeds: &[u64]) -> Result<Vec<Written>> {
        let halves = seeds.chunks(seeds.len().div_ceil(self.makers.len()));
        let halves = thread::scope(|scope| {
            let makers = self.makers.iter_mut().zip(halves);
            let threads = makers.map(|(maker, seeds)| {
                let written = move || seeds.iter().map(|seed| maker.write(*seed)).collect();
                scope.spawn(written)
            });
            let threads: Vec<_> = threads.collect();
            let joined = threads
                .into_iter()
                .map(|thread| thread.join().expect("it does not panic"));
            joined.collect::<Result<Vec<Vec<_>>>>()
        });
        Ok(halves?.into_iter().flatten().collect())
    }

    /// Whether it is read at all: with a layer that is not, there is no image.
    fn is_accepted(&mut self, written: &Written) -> Result<bool> {
        let archive = self.folder.join("lists.tar");
        fs::write(&archive, &written.bytes)?;
        let scanned = scan_archive(File::open(&archive)?, &archive, &ScanOptions::default());
        let Err(error) = scanned else {
            return Ok(true);
        };
        self.describe(written, &format!("is refused: {error}"))?;
        Ok(false)
    }

    /// Describes what somebody shows of an archive.
    fn report(&mut self, written: &Written, reader: &str, found: &Listed) -> Result<()> {
        let paths: BTreeSet<_> = written.expected.keys().chain(found.keys()).collect();
        let mut difference = format!("is another one in {reader}:");
        for path in paths {
            let (expected, found) = (written.expected.get(path), found.get(path));
            if expected != found {
                let path = path.display();
                difference += &format!("\n  {path}: {found:?}\n    instead of {expected:?}");
            }
        }
        self.describe(written, &difference)
    }

    fn describe(&mut self, written: &Written, difference: &str) -> Result<()> {
        self.differ += 1;
        if self.differ <= DESCRIBED {
            let name = format!("lists-{}", written.seed);
            let kept = keep(self.kept, &name, &written.bytes)?;
            let Written { seed, writer, .. } = written;
            println!(
                "seed {seed}, {}: {writer}'s archive {difference}",
                kept.display()
            );
        }
        Ok(())
    }
}

/// Whether users give files the attribute of this name.
fn is_users(name: &OsStr) -> bool {
    name.as_bytes().starts_with(USERS.as_bytes())
}

/// All that is below a directory.
fn listed(root: &Path) -> Result<Listed> {
    let mut tree = shown(root)?;
    tree.remove(Path::new(""));
    let found = tree.into_iter().map(|(path, shown)| {
        let mut attributes = shown.xattrs;
        // Others can be labels that the system gives to files.
        attributes.retain(|name, _| {
            is_users(name) || [ACCESS, DEFAULT, CAPABILITY].iter().any(|own| name == own)
        });
        let found = Found {
            mode: shown.mode,
            owner: shown.owner,
            attributes,
        };
        (path, found)
    });
    Ok(found.collect())
}

/// Runs a program whose notes are of interest only if it fails.
fn quietly(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    interrupt::check()?;
    let output = output.with_context(|| command::describe(command))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "`{}`: {}\n{said}",
            command::describe(command),
            output.status
        );
    }
    Ok(())
}
