//! `cargo xtask bench`: measurements side by side with other programs that do the same.

// The paths shown here are our own.
#![allow(clippy::disallowed_methods)]

mod before;
mod blocks;
mod bridge;
mod cache;
mod daemons;
mod data;
mod fio;
mod fuse_trace;
mod growth;
mod handicap;
mod images;
mod lab;
mod latency;
mod mounts;
mod native;
mod page;
mod plot;
mod remote;
mod report;
mod requirement;
mod rounds;
mod seeds;
mod table;
mod tree;
mod updates;
mod volumes;

use std::{
    env, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::{Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde_json::{Value, json};
use verimount_support::{
    command, program,
    setup::{self, Purpose},
    workspace,
};

use self::{data::Sizes, handicap::Handicapped, lab::Lab, report::Report};

/// Compare with other programs; print tables, and write JSON, Markdown and plots to target/bench
#[derive(Debug, Parser)]
#[command(
    bin_name = "cargo xtask bench",
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    part: Option<Part>,
}

/// Hidden tasks, for which this program starts itself again.
#[derive(Debug, Subcommand)]
enum Part {
    /// Touch and free memory, before a benchmark fills the page cache
    #[command(hide = true)]
    TouchMemory {
        /// The number of bytes
        bytes: usize,
    },
    /// Pass connections on, as over a long way
    #[command(hide = true)]
    Delay {
        /// Where to listen
        listen: SocketAddr,
        /// Where connections go
        to: SocketAddr,
        /// The time to there and back, in milliseconds
        round_trip: u64,
    },
    /// Serve a mount that lacks what makes ours fast
    #[command(hide = true, subcommand)]
    Handicapped(Handicapped),
}

#[derive(Debug, Args)]
struct Options {
    /// What to measure
    #[arg(default_value = "all")]
    names: Vec<Name>,
    /// How often each variant is measured; ratios are medians over rounds. With --smoke, once
    #[arg(long, default_value_t = 5, default_value_if("smoke", "true", "1"))]
    rounds: usize,
    /// The folder to work in, on the disk to be measured; 10 GiB must be free
    #[arg(long, default_value_os_t = env::temp_dir())]
    dir: PathBuf,
    /// Use little data, to test the benchmarks; the figures mean nothing
    #[arg(long)]
    smoke: bool,
    /// Also measure this older version of verimount, in turns with today's, and compare the two
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,
}

impl Options {
    fn sizes(&self) -> Sizes {
        if self.smoke {
            Sizes::SMOKE
        } else {
            Sizes::FULL
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// All of the following
    All,
    /// Mirrored directories: round trips, fio, and work with many small files
    Bridge,
    /// The processes that serve mounts: what their sandbox costs, and many that nobody uses
    Daemons,
    /// Time and memory by size, of images, mirrored directories and volumes
    Growth,
    /// Verified images: digest, cold and warm reads, a tree of files, requests, memory
    Images,
    /// Images that the kernel reads itself, over verified blocks
    Native,
    /// Images on a web server, here and far away, compared with other programs that read over HTTP
    Remote,
    /// The tables of 2020: tree read-ahead, the block size of romfs, tags that are not read back
    Seeds,
    /// Newer images where an older one is here: what is new, and what fetching it takes
    Updates,
    /// Volumes: requests, speed, checking, and a file system on a loop device
    Volumes,
}

/// The file with all reports of a run.
const PAGE: &str = "report.html";

/// The subject of a report.
#[derive(Debug, Clone, Copy)]
struct Benchmark {
    title: &'static str,
    run: fn(&Lab, &mut Report) -> Result<()>,
}

impl Benchmark {
    const BRIDGE: Self = Self::new("bridge", bridge::run);
    const DAEMONS: Self = Self::new("daemons", daemons::run);
    const GROWTH: Self = Self::new("growth", growth::run);
    const IMAGES: Self = Self::new("images", images::run);
    const NATIVE: Self = Self::new("native", native::run);
    const REMOTE: Self = Self::new("remote", remote::run);
    const SEEDS: Self = Self::new("seeds", seeds::run);
    const UPDATES: Self = Self::new("updates", updates::run);
    const VOLUMES: Self = Self::new("volumes", volumes::run);

    const ALL: &[Self] = &[
        Self::SEEDS,
        Self::IMAGES,
        Self::BRIDGE,
        Self::VOLUMES,
        Self::DAEMONS,
        Self::GROWTH,
        Self::NATIVE,
        Self::REMOTE,
        Self::UPDATES,
    ];

    const fn new(title: &'static str, run: fn(&Lab, &mut Report) -> Result<()>) -> Self {
        Self { title, run }
    }
}

impl Name {
    fn benchmarks(self) -> &'static [Benchmark] {
        match self {
            Self::All => Benchmark::ALL,
            Self::Bridge => &[Benchmark::BRIDGE],
            Self::Daemons => &[Benchmark::DAEMONS],
            Self::Growth => &[Benchmark::GROWTH],
            Self::Images => &[Benchmark::IMAGES],
            Self::Native => &[Benchmark::NATIVE],
            Self::Remote => &[Benchmark::REMOTE],
            Self::Seeds => &[Benchmark::SEEDS],
            Self::Updates => &[Benchmark::UPDATES],
            Self::Volumes => &[Benchmark::VOLUMES],
        }
    }
}

fn main() -> ExitCode {
    let Arguments { options, part } = Arguments::parse();
    program::run(|| match part {
        Some(Part::TouchMemory { bytes }) => {
            cache::touch_memory(bytes);
            Ok(())
        }
        Some(Part::Delay {
            listen,
            to,
            round_trip,
        }) => Ok(remote::delay::serve(
            listen,
            to,
            Duration::from_millis(round_trip),
        )?),
        Some(Part::Handicapped(mount)) => mount.serve(),
        None => run(&options),
    })
}

fn run(options: &Options) -> Result<()> {
    ensure!(
        !cfg!(debug_assertions),
        "this is not optimised as what it measures is; run `cargo xtask bench`"
    );
    ensure!(options.rounds > 0, "there must be at least one round");
    setup::ensure_ready(&[Purpose::Demo])?;
    if let Err(missing) = setup::ensure_ready(&[Purpose::Bench]) {
        eprintln!("{missing:#}\nWithout them, their rows are left out.");
    }
    let results = workspace::target()?.join("bench");
    let environment = environment(options)?;
    let benchmarks = options.names.iter().flat_map(|name| name.benchmarks());
    let reports = benchmarks.map(|benchmark| measure(benchmark, options, &environment, &results));
    let reports: Vec<_> = reports.collect::<Result<_>>()?;
    let page = results.join(PAGE);
    page::write(&reports, &environment, &page)?;
    println!("All results are in {}", page.display());
    Ok(())
}

fn measure(
    benchmark: &Benchmark,
    options: &Options,
    environment: &Value,
    results: &Path,
) -> Result<Report> {
    let title = benchmark.title;
    // Results on a disk and in memory are kept apart.
    let file_system = lab::file_system(&options.dir)?;
    let name = format!("{title}-{file_system}");
    let lab = Lab::new(
        &options.dir,
        options.rounds,
        options.sizes(),
        options.before.as_deref(),
    )?;
    let name = match options.before {
        Some(_) => format!("{name}-before"),
        None => name,
    };
    let mut report = Report::new(&name, title, environment);
    let result = (benchmark.run)(&lab, &mut report);
    if let Err(error) = &result {
        report.cut_short(error);
    }
    report.finish(environment, results)?;
    result.map(|()| report)
}

/// The environment on which the figures depend.
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
