//! Runs the fuzz targets of `fuzz/` with the stable compiler and without cargo-fuzz.
//!
//! The folder has cargo-fuzz's layout, so `cargo +nightly fuzz run TARGET` works too and adds the
//! address sanitizer; coverage feedback itself needs nothing but the code generator's own flags.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use anyhow::{Context, Result, bail, ensure};
use verimount_support::{
    command,
    workspace::{cargo, root},
};

/// The fuzz crate, below the repository's top folder; not a member of the workspace.
pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";

const TARGETS: [&str; 16] = [
    "bitmap",
    "dm_verity",
    "erofs",
    "erofs_deflate",
    "erofs_lz4",
    "erofs_lzma",
    "erofs_zstd",
    "journal",
    "model",
    "nbd",
    "policy",
    "romfs",
    "sealed",
    "signature",
    "superblock",
    "tar",
];

/// How long each target is fuzzed, in seconds.
const TIME: u32 = 60;

/// How long one input may take, in seconds. It takes milliseconds, but the host of a virtual machine can
/// pause it.
const INPUT_TIME: u32 = 30;

/// What cargo-fuzz passes for coverage feedback. One codegen unit: counters and their table must
/// stay together. Debug assertions: an overflow is a finding.
const FLAGS: [&str; 8] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg=fuzzing",
    "-Cdebug-assertions",
    "-Ccodegen-units=1",
];

/// The folder for build results and the corpus, below Cargo's target folder.
pub(crate) fn folder(target: &Path) -> PathBuf {
    target.join("fuzz")
}

/// The lints of the fuzz crate.
pub(crate) fn clippy(work: &Path) -> Command {
    let mut clippy = cargo("clippy");
    clippy
        .args(["--locked", "--manifest-path", MANIFEST, "--target-dir"])
        .arg(work.join("check"));
    clippy
}

/// Fuzzes every target for a minute, as many at a time as there are processors. The corpus stays in
/// `work`, so the next run continues with it.
pub(crate) fn run(work: &Path) -> Result<()> {
    let programs = build(&work.join("build"))?;
    let at_a_time = thread::available_parallelism()?.get();
    for group in TARGETS.chunks(at_a_time) {
        thread::scope(|scope| {
            let runs: Vec<_> = group
                .iter()
                .map(|target| scope.spawn(|| fuzz(&programs, target, work)))
                .collect();
            runs.into_iter().try_for_each(|run| {
                println!("{}", run.join().expect("fuzzing does not panic")?);
                Ok::<_, anyhow::Error>(())
            })
        })?;
    }
    Ok(())
}

/// Compiles all targets; returns their folder.
fn build(target_dir: &Path) -> Result<std::path::PathBuf> {
    let host = command::stdout(Command::new("rustc").args(["--print", "host-tuple"]))?;
    let mut build = cargo("build");
    build
        .args([
            "--quiet",
            "--release",
            "--locked",
            "--manifest-path",
            MANIFEST,
        ])
        // With an explicit target, the flags do not apply to build scripts.
        .args(["--target", &host, "--target-dir"])
        .arg(target_dir)
        .env("RUSTFLAGS", FLAGS.join(" "));
    command::run(&mut build)?;
    Ok(target_dir.join(host).join("release"))
}

/// Fuzzes one target; returns a line of results.
fn fuzz(programs: &Path, target: &str, work: &Path) -> Result<String> {
    let corpus = work.join("corpus").join(target);
    fs::create_dir_all(&corpus)?;
    let log = work.join(format!("{target}.log"));
    let mut fuzzer = Command::new(programs.join(target));
    fuzzer
        .arg(&corpus)
        .arg(root().join("fuzz/seeds").join(target))
        .arg(format!("-max_total_time={TIME}"))
        .arg(format!("-timeout={INPUT_TIME}"))
        .arg("-rss_limit_mb=512")
        .arg(format!("-artifact_prefix={}/{target}-", work.display()))
        .stdout(File::create(&log)?)
        .stderr(File::options().append(true).open(&log)?);
    let status = fuzzer.status();
    let text = fs::read_to_string(&log)?;
    command::check(&fuzzer, status).with_context(|| format!("{}{target}", end_of(&text)))?;
    let Some([first, last]) = coverage(&text) else {
        bail!("{target} has no coverage feedback; see {}", log.display());
    };
    let runs = text.lines().last().unwrap_or_default();
    ensure!(
        runs.starts_with("Done "),
        "{target} did not finish; see {}",
        log.display()
    );
    Ok(format!(
        "{target}: {runs}; points covered at first {first}, at last {last}"
    ))
}

/// The first and the last count of covered points in libFuzzer's log.
fn coverage(log: &str) -> Option<[u64; 2]> {
    let mut counts = log.lines().filter_map(|line| {
        let (_, rest) = line.split_once("cov: ")?;
        rest.split(' ').next()?.parse().ok()
    });
    let first = counts.next()?;
    Some([first, counts.next_back().unwrap_or(first)])
}

/// The end of libFuzzer's output, which names the failure and the input that caused it.
fn end_of(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    let mut end = lines[lines.len().saturating_sub(30)..].join("\n");
    end.push('\n');
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_is_read_from_the_log() {
        let log = "INFO: Seed: 1\n#2\tINITED cov: 8 ft: 8 corp: 1/1b\n\
                   #205\tNEW    cov: 12 ft: 9 corp: 2/6b\nDone 300 runs in 61 second(s)\n";
        assert_eq!(coverage(log), Some([8, 12]));
        assert_eq!(coverage("INFO: Seed: 1\n"), None);
    }
}
