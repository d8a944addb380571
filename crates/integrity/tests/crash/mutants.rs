//! Runs the simulation with each mutation in turn, in a copy of the repository.

use std::{
    fs, iter,
    ops::Range,
    path::Path,
    process::{Command, Output},
};

use verimount_testkit::CRASH_SEEDS;

use super::{
    mutations::{MUTATIONS, Mutation},
    seeds,
};

/// The repository's top folder.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Where the sources are that are changed, below that.
const SOURCES: &str = "crates/integrity/src";

/// Where the copy is, and what is compiled from it.
const WORK: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/mutants");

#[test]
fn every_mutation_changes_one_place() {
    for mutation in &MUTATIONS {
        let source = Path::new(ROOT).join(SOURCES).join(mutation.file);
        let source = fs::read_to_string(source).unwrap();
        assert_ne!(mutation.apply(&source), source);
    }
}

/// Runs the simulation with each mutation, and prints what notices it as a table.
#[test]
#[ignore = "compiles and simulates for each mutation: `cargo xtask crash --mutations`"]
fn every_mutation_is_noticed() {
    let seeds = seeds();
    // Not ours: what is compiled from the copy would be taken for what is compiled from the original.
    let [copy, target] = ["copy", "target"].map(|name| Path::new(WORK).join(name));
    copy_repository(&copy);
    let mut survivors = 0;
    println!("| file | removed | noticed by |\n|---|---|---|");
    for mutation in &MUTATIONS {
        let Mutation { file, name, .. } = mutation;
        let source = copy.join(SOURCES).join(file);
        let original = fs::read_to_string(&source).unwrap();
        fs::write(&source, mutation.apply(&original)).unwrap();
        let noticed = noticed(&copy, &target, mutation.seed, &seeds)
            .unwrap_or_else(|error| panic!("{file}: {name}: {error}"));
        fs::write(&source, original).unwrap();
        survivors += usize::from(noticed.is_empty());
        println!("| `{file}` | {name} | {} |", noticed.join("; "));
    }
    assert_eq!(survivors, 0, "mutations that were not noticed");
}

/// Copies all files that git knows, as they are now.
fn copy_repository(copy: &Path) {
    if copy.exists() {
        fs::remove_dir_all(copy).unwrap();
    }
    let mut list = Command::new("git");
    let listed = list.arg("ls-files").current_dir(ROOT).output().unwrap();
    assert!(listed.status.success(), "git ls-files: {}", listed.status);
    for file in str::from_utf8(&listed.stdout).unwrap().lines() {
        let to = copy.join(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(Path::new(ROOT).join(file), to).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

/// Runs the simulation of the copy, first with the seed that is known to notice the mutation, as all of them take minutes. Returns the
/// tests that failed, each with the lowest seed.
///
/// # Errors
/// The mutation does not compile, or the tests failed otherwise; the message says why.
fn noticed(
    copy: &Path,
    target: &Path,
    known: u64,
    others: &Range<u64>,
) -> Result<Vec<String>, String> {
    let compiled = simulation(copy, target, others, &["--no-run"]);
    if !compiled.status.success() {
        let said = String::from_utf8_lossy(&compiled.stderr);
        return Err(format!("it does not compile: {said}"));
    }
    for seeds in iter::once(known..known + 1).chain(batches(others)) {
        let failures = simulate(copy, target, &seeds)?;
        if !failures.is_empty() {
            return Ok(failures);
        }
    }
    Ok(Vec::new())
}

/// All seeds, few at first: where threads race, a seed does not always notice.
fn batches(seeds: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
    const FIRST: u64 = 8;
    let end = seeds.end;
    let sizes = iter::successors(Some(FIRST), |size| Some(size.saturating_mul(2)));
    sizes.scan(seeds.start, move |start, size| {
        let batch = *start..start.saturating_add(size).min(end);
        *start = batch.end;
        (!batch.is_empty()).then_some(batch)
    })
}

/// The tests that fail with any of these seeds.
fn simulate(copy: &Path, target: &Path, seeds: &Range<u64>) -> Result<Vec<String>, String> {
    // The tests here would fail, too: in the copy, the mutation has nothing to change.
    let arguments = ["--", "--nocapture", "--test-threads=1", "--skip=mutants::"];
    let output = simulation(copy, target, seeds, &arguments);
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let failures = failures(&out, &err);
    if output.status.success() == failures.is_empty() {
        Ok(failures)
    } else {
        Err(format!("the tests failed otherwise: {err}"))
    }
}

fn simulation(copy: &Path, target: &Path, seeds: &Range<u64>, arguments: &[&str]) -> Output {
    let mut test = Command::new(env!("CARGO"));
    test.current_dir(copy)
        .args(["test", "--quiet", "--locked"])
        .args(["--package", "verimount-integrity", "--test", "crash"])
        .arg("--target-dir")
        .arg(target)
        .args(arguments)
        .env(CRASH_SEEDS, format!("{seeds:?}"));
    test.output().expect("cargo can be run")
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

#[test]
fn batches_grow_and_leave_nothing_out() {
    let all: Vec<_> = batches(&(3..100)).collect();
    assert_eq!(all, [3..11, 11..27, 27..59, 59..100]);
    assert!(batches(&(0..5)).eq(iter::once(0..5)));
    assert_eq!(batches(&(5..5)).count(), 0);
}

#[test]
fn every_failure_is_found() {
    let out = "running 3 tests\ntest a ... ok\nfailures:\n\nfailures:\n    b_c\n    d\n\ntest";
    let err = "thread 'b_c' panicked at main.rs:1:1:\nseed 17 fails\nnote: run\nseed 3 fails\n";
    assert_eq!(failures(out, err), ["b c: 17", "d: 3"]);
    assert!(failures("", "").is_empty());
}
