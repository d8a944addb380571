//! `cargo xtask bench`: side-by-side measurements with those who do the same work otherwise.

mod bridge;
mod cache;
mod data;
mod fio;
mod fuse_trace;
mod images;
mod lab;
mod latency;
mod mounts;
mod plot;
mod report;
mod rounds;
mod seeds;
mod table;
mod tree;
mod volumes;

use std::{
    env, fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

pub(crate) use self::cache::touch_memory;
use self::{data::Sizes, lab::Lab, report::Report};
use crate::{
    command,
    setup::{self, Purpose},
    workspace::{self, cargo},
};

/// Measure side by side; print tables, and write JSON, Markdown and plots to target/bench
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What to measure; all of it when not said
    names: Vec<Name>,
    /// How often each variant is measured; ratios are medians over rounds. Once with --smoke
    #[arg(long, default_value_t = 5, default_value_if("smoke", "true", "1"))]
    rounds: usize,
    /// The folder to work in, on the disk to be measured; 6 GiB must be free
    #[arg(long, default_value_os_t = env::temp_dir())]
    dir: PathBuf,
    /// Use little data, to see that the benchmarks work; the figures mean nothing
    #[arg(long)]
    smoke: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// A mirrored directory: round trips, fio, and work with many small files
    Bridge,
    /// Verified images: digest, cold and warm reads, a tree of files, requests, memory
    Images,
    /// The tables of 2020: tree read-ahead, and the block size of romfs
    Seeds,
    /// Volumes: requests, speed, checking, and a file system on a looped disk
    Volumes,
}

impl Name {
    fn measure(self, lab: &Lab, report: &mut Report) -> Result<()> {
        match self {
            Self::Bridge => bridge::run(lab, report),
            Self::Images => images::run(lab, report),
            Self::Seeds => seeds::run(lab, report),
            Self::Volumes => volumes::run(lab, report),
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if cfg!(debug_assertions) {
        return run_optimised();
    }
    ensure!(options.rounds > 0, "there must be at least one round");
    setup::ensure_ready(Purpose::Demo)?;
    if let Err(missing) = setup::ensure_ready(Purpose::Bench) {
        eprintln!("{missing:#}\nWithout them, their rows are left out.");
    }
    let results = workspace::target()?.join("bench");
    let names = match &options.names[..] {
        [] => Name::value_variants(),
        names => names,
    };
    names
        .iter()
        .try_for_each(|name| measure(*name, options, &results))
}

fn measure(name: Name, options: &Options, results: &Path) -> Result<()> {
    let sizes = if options.smoke {
        Sizes::SMOKE
    } else {
        Sizes::FULL
    };
    let lab = Lab::new(&options.dir, options.rounds, sizes)?;
    let environment = environment(options)?;
    let title = name.to_possible_value().expect("no name is hidden");
    let title = title.get_name();
    // A disk and a memory file system are two different questions.
    let mut report = Report::new(&format!("{title}-{}", lab::file_system(&options.dir)?));
    report.say(format_args!("## {title}\n"));
    for (key, value) in environment.as_object().into_iter().flatten() {
        let value = value.to_string();
        report.say(format_args!("- {key}: {}", value.trim_matches('"')));
    }
    let result = name.measure(&lab, &mut report);
    if let Err(error) = &result {
        report.cut_short(error);
    }
    report.finish(&environment, results)?;
    result
}

/// Runs this task again, compiled as what it measures is.
fn run_optimised() -> Result<()> {
    let mut again = cargo("run");
    again.args([
        "--quiet",
        "--release",
        "--locked",
        "--package",
        "xtask",
        "--",
    ]);
    // The working directory is the caller's, for --dir to mean what was meant.
    again
        .args(env::args_os().skip(1))
        .current_dir(env::current_dir()?);
    Err(again.exec().into())
}

/// What the figures depend on besides the code.
fn environment(options: &Options) -> Result<Value> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let meminfo = read("/proc/meminfo");
    let memory = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"));
    let mut commit = Command::new("git");
    commit
        .args(["describe", "--always", "--dirty"])
        .current_dir(workspace::root());
    let data = if options.smoke {
        "little: these figures mean nothing"
    } else {
        "full"
    };
    Ok(json!({
        "processor": model.map(|(_, model)| model),
        "processors": std::thread::available_parallelism()?.get(),
        "memory": memory.map(str::trim),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "file system": lab::file_system(&options.dir)?,
        "commit": command::stdout(&mut commit).unwrap_or_default(),
        "rounds": options.rounds,
        "data": data,
    }))
}
