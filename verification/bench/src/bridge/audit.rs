//! What it costs to record each open, and what it costs a program that asks the kernel for each.

mod watcher;

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    process::Command,
    time::Instant,
};

use anyhow::Result;
use verimount_support::command;

use self::watcher::Watcher;
use crate::{
    lab::{Lab, seconds, seconds_piped},
    mounts::{self, Mount},
    report::{Bar, Compare, Report},
    rounds::Contest,
    tree::Tree,
};

const BASE: &str = "verimount";
const AUDITED: &str = "verimount, audited";
const SYNC: &str = "verimount, audited, on disk";
const NATIVE: &str = "native";
const WATCHED: &str = "native, watched by fanotify";

/// How many C files are compiled.
const UNITS: usize = 60;

/// The most time, as a multiple of that without records.
const MOST: f64 = 1.1;

pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    if lab.has_older_program() || !lab.is_root() {
        report.leave_out("records of opens", "only for root, and one program");
        return Ok(());
    }
    let tree = Tree::in_folder(lab, "audited")?;
    let sources = write_sources(&tree.source)?;
    make_repository(&tree.source.join(Tree::NAME))?;
    let tar = format!("`tar` of {}", tree.size);
    workload(lab, report, &tree.source, "tar", &tar, |folder| {
        let mut tar = Command::new("tar");
        tar.args(["cf", "-", Tree::NAME]).current_dir(folder);
        seconds_piped(&mut tar, &mut Command::new("cat"))
    })?;
    let clone = format!("`git clone` of {}", tree.size);
    workload(lab, report, &tree.source, "git clone", &clone, |folder| {
        let mut git = Command::new("git");
        git.args(["clone", "--quiet", "--no-local", Tree::NAME, "clone"]);
        let seconds = seconds(git.current_dir(folder));
        fs::remove_dir_all(folder.join("clone"))?;
        seconds
    })?;
    let make = format!("`make -j2` of {UNITS} C files");
    workload(lab, report, &tree.source, "make", &make, |folder| {
        let sources = folder.join(sources);
        command::run(
            Command::new("make")
                .args(["-s", "-C"])
                .arg(&sources)
                .arg("clean"),
        )?;
        seconds(Command::new("make").args(["-s", "-j2", "-C"]).arg(&sources))
    })?;
    latencies(lab, report, &tree)
}

/// Measures work in a directory: native and through the bridge, each with records and without.
fn workload(
    lab: &Lab,
    report: &mut Report,
    source: &Path,
    name: &str,
    title: &str,
    work: impl Fn(&Path) -> Result<f64> + Copy,
) -> Result<()> {
    let bridged = |way: &'static str| {
        move || {
            let mount = mount(lab, source, way)?;
            work(mount.path())
        }
    };
    let samples = Contest::default()
        .variant(NATIVE, || work(source))
        .variant(WATCHED, || {
            let watcher = Watcher::start(lab, source)?;
            work(watcher.path())
        })
        .variant(BASE, bridged(BASE))
        .variant(AUDITED, bridged(AUDITED))
        .run_in(lab)?;
    report.times(title, &samples, Compare::Time)?;
    let text = format!("{name}: time with a record of each open / without");
    report.require(&text, Bar::AtMost(MOST), "x", samples.ratio(AUDITED, BASE)?);
    let text = format!("{name}: time with fanotify / without, native");
    let watched = samples.ratio(WATCHED, NATIVE)?;
    report.require(&text, Bar::AtMost(f64::INFINITY), "x", watched);
    Ok(())
}

/// Measures the 99th percentile of single opens.
fn latencies(lab: &Lab, report: &mut Report, tree: &Tree) -> Result<()> {
    let files = files(&tree.source)?;
    let variants = [BASE, AUDITED, SYNC].map(|way| (way, way));
    let samples = Contest::default()
        .variants(variants, |way| {
            let mount = mount(lab, &tree.source, way)?;
            let mut times = Vec::with_capacity(files.len());
            for file in &files {
                let began = Instant::now();
                drop(File::open(mount.path().join(file))?);
                times.push(began.elapsed().as_secs_f64());
            }
            times.sort_by(f64::total_cmp);
            Ok(times[times.len() * 99 / 100])
        })
        .run_in(lab)?;
    report.times("99th percentile of an open", &samples, Compare::Time)
}

/// Mirrors a directory; the last word of `way` says what becomes of records.
fn mount(lab: &Lab, source: &Path, way: &str) -> Result<Mount> {
    let (policy, log) = (lab.path("audit.toml"), lab.path("audit.log"));
    fs::write(&policy, "[[rule]]\nname = \"all\"\naction = \"audit\"\n")?;
    let _ = fs::remove_file(&log);
    let [policy, log] = [&policy, &log].map(|path| path.to_string_lossy().into_owned());
    let mut options = Vec::new();
    if way != BASE {
        options.extend(["--policy", &policy, "--audit", &log]);
    }
    if way == SYNC {
        options.push("--audit-sync");
    }
    mounts::bridge(lab, source, &options)
}

/// The files of a directory, below it.
fn files(folder: &Path) -> Result<Vec<String>> {
    let mut find = Command::new("find");
    find.arg(folder).args([
        "-type", "f", "-not", "-path", "*/.git/*", "-printf", "%P\\n",
    ]);
    let found = command::stdout(&mut find)?;
    Ok(found.lines().map(str::to_owned).collect())
}

/// Writes C files, and how they are compiled, into a directory of their own. Returns its name.
fn write_sources(folder: &Path) -> Result<&'static str> {
    const NAME: &str = "sources";
    let folder = folder.join(NAME);
    fs::create_dir(&folder)?;
    for number in 0..UNITS {
        let mut unit = File::create(folder.join(format!("u{number}.c")))?;
        for include in ["stdio", "stdlib", "string", "errno"] {
            writeln!(unit, "#include <{include}.h>")?;
        }
        writeln!(
            unit,
            "int f{number}(char *s) {{ return printf(\"%s\", strdup(s)) + errno; }}"
        )?;
    }
    fs::write(
        folder.join("Makefile"),
        "O = $(patsubst %.c,%.o,$(wildcard *.c))\nall.a: $O\n\tar rc $@ $^\nclean:\n\trm -f *.o all.a\n",
    )?;
    Ok(NAME)
}

fn make_repository(tree: &Path) -> Result<()> {
    for arguments in [
        &["init", "--quiet"][..],
        // It would go on in the background.
        &["config", "gc.auto", "0"],
        // Compressing would be most of the time.
        &["config", "core.compression", "0"],
        &["config", "pack.window", "0"],
        &["add", "--all"],
        &[
            "-c",
            "user.name=Bench",
            "-c",
            "user.email=bench@localhost",
            "commit",
            "--quiet",
            "--message=All",
        ],
    ] {
        command::run(Command::new("git").arg("-C").arg(tree).args(arguments))?;
    }
    Ok(())
}
