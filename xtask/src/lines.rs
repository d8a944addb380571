//! `cargo xtask lines`: how many lines of code there are, without blank ones and comments.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::Args;
use verimount_support::workspace;

/// Count the lines of code, without blank ones and comments
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The repository to count; by default this one
    #[arg(value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Prints the lines of each crate, and of the tests of the command.
pub(crate) fn run(options: &Options) -> Result<()> {
    let root = options.root.as_deref().unwrap_or(workspace::root());
    let mut crates = folders(&root.join("crates"))?;
    crates.sort();
    let (mut product, mut tests) = (0, 0);
    println!("{:<12} {:>8} {:>8}", "crate", "product", "tests");
    for folder in crates {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let mut lines = Lines::default();
        for file in sources(&folder)? {
            lines.add(&folder, &file)?;
        }
        println!("{name:<12} {:>8} {:>8}", lines.product, lines.tests);
        // Only tests use these.
        if !name.starts_with("test") {
            product += lines.product;
        }
        tests += lines.tests;
    }
    println!("{:<12} {product:>8} {tests:>8}", "all");
    let mut command = Lines::default();
    // Where they were before they had a package of their own.
    let folders = ["verification/command", "crates/cli/tests"].map(|folder| root.join(folder));
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        for file in sources(folder)? {
            command.add(folder, &file)?;
        }
    }
    let all = command.product + command.tests;
    println!("tests of the command: {all}");
    Ok(())
}

#[derive(Default)]
struct Lines {
    product: usize,
    tests: usize,
}

impl Lines {
    fn add(&mut self, folder: &Path, file: &Path) -> Result<()> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let is_test = is_test(file.strip_prefix(folder)?);
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if is_test {
                self.tests += count(line);
            } else if is_of_tests(line) {
                self.tests += 1 + count_item(&mut lines, indentation(line));
            } else {
                self.product += count(line);
            }
        }
        Ok(())
    }
}

/// Whether a line says that the next item is there in tests only.
fn is_of_tests(line: &str) -> bool {
    let line = line.trim();
    line == "#[cfg(test)]" || line.starts_with("#[cfg(all(test, ")
}

/// Counts the lines of an item with this indentation.
fn count_item<'t>(lines: &mut impl Iterator<Item = &'t str>, indented: usize) -> usize {
    let mut counted = 0;
    for line in lines {
        counted += count(line);
        if indentation(line) == indented && line.ends_with(['}', ';', ',']) {
            break;
        }
    }
    counted
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// 1 for a line with code.
fn count(line: &str) -> usize {
    let line = line.trim();
    usize::from(!line.is_empty() && !line.starts_with("//"))
}

/// Whether a file, by its path in a crate, has tests only.
fn is_test(file: &Path) -> bool {
    let mut names = file.iter();
    file.ends_with("tests.rs") || names.any(|name| name == "tests" || name == "examples")
}

fn folders(at: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(at)?.map(|entry| Ok(entry?.path()));
    let all: io::Result<Vec<PathBuf>> = entries.collect();
    Ok(all?.into_iter().filter(|path| path.is_dir()).collect())
}

/// The sources below a folder, without what Cargo has made there.
pub(crate) fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if !path.ends_with("target") {
                found.extend(sources(&path)?);
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}
