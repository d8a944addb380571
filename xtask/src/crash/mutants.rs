//! Volumes with one flush or order taken away, in a copy of the repository.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use verimount_testenv::CRASH_SEEDS;

use crate::{
    command, interrupt,
    workspace::{cargo, root, target},
};

use super::mutations::{MUTATIONS, Mutation};

/// Where the sources are that are changed.
const SOURCES: &str = "crates/integrity/src";

/// Runs the simulation with each mutation, and prints what notices it as a table.
pub(super) fn run(seeds: &Range<u64>) -> Result<()> {
    let folder = target()?.join("mutants");
    // Not ours: what is compiled from the copy would be taken for what is compiled from the original.
    let [copy, target] = ["copy", "target"].map(|name| folder.join(name));
    copy_repository(&copy)?;
    let mut survivors = 0;
    println!("| file | what is taken away | noticed by |\n|---|---|---|");
    for mutation in &MUTATIONS {
        let source = copy.join(SOURCES).join(mutation.file);
        let original = fs::read_to_string(&source)?;
        fs::write(&source, mutation.apply(&original)?)?;
        let caught = simulate(&copy, &target, seeds);
        fs::write(&source, original)?;
        let Mutation { file, name, .. } = mutation;
        let caught = caught.with_context(|| format!("{file}: {name}"))?;
        survivors += usize::from(caught.is_empty());
        println!("| `{file}` | {name} | {} |", caught.join("; "));
    }
    ensure!(survivors == 0, "{survivors} mutations were not noticed");
    Ok(())
}

/// Copies all files that git knows, as they are now.
fn copy_repository(copy: &Path) -> Result<()> {
    if copy.exists() {
        fs::remove_dir_all(copy)?;
    }
    let files = command::stdout(Command::new("git").arg("ls-files").current_dir(root()))?;
    for file in files.lines().map(PathBuf::from) {
        let to = copy.join(&file);
        fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
        fs::copy(root().join(&file), to).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// Runs the simulation of the copy: the tests that failed, each with the lowest seed.
fn simulate(copy: &Path, target: &Path, seeds: &Range<u64>) -> Result<Vec<String>> {
    let simulation = |arguments: &[&str]| {
        let mut test = cargo("test");
        test.current_dir(copy)
            .args(["--quiet", "--locked", "--package", "verimount-integrity"])
            .args(["--test", "crash", "--target-dir"])
            .arg(target)
            .args(arguments)
            .env(CRASH_SEEDS, format!("{seeds:?}"));
        test
    };
    command::run(&mut simulation(&["--no-run"])).context("the mutation does not compile")?;
    let output = simulation(&["--", "--nocapture", "--test-threads=1"]).output()?;
    interrupt::check()?;
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let failures = failures(&out, &err);
    ensure!(
        output.status.success() == failures.is_empty(),
        "the tests failed otherwise: {err}"
    );
    Ok(failures)
}

/// The tests that failed, each with its seed. One runs after the other, so both are in order.
fn failures(out: &str, err: &str) -> Vec<String> {
    let seeds = err.lines().filter_map(|line| {
        let seed = line.strip_prefix("seed ")?.strip_suffix(" fails")?;
        seed.parse::<u64>().ok()
    });
    let (_, names) = out.rsplit_once("failures:\n").unwrap_or_default();
    let names = names.lines().map_while(|line| line.strip_prefix("    "));
    names
        .zip(seeds)
        .map(|(name, seed)| format!("{}: {seed}", name.replace('_', " ")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_changes_one_place() {
        for mutation in &MUTATIONS {
            let source = root().join(SOURCES).join(mutation.file);
            let source = fs::read_to_string(source).unwrap();
            assert_ne!(mutation.apply(&source).unwrap(), source);
        }
    }

    #[test]
    fn every_failure_is_found() {
        let out = "running 3 tests\ntest a ... ok\nfailures:\n\nfailures:\n    b_c\n    d\n\ntest";
        let err = "thread 'b_c' panicked at main.rs:1:1:\nseed 17 fails\nnote: run\nseed 3 fails\n";
        assert_eq!(failures(out, err), ["b c: 17", "d: 3"]);
        assert!(failures("", "").is_empty());
    }
}
