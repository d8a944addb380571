//! What the processes cost that serve mounts: their sandbox, and many of them that nobody uses.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use verimount_support::command;

use crate::{
    data,
    lab::{Format, Lab, User, seconds},
    mounts::{Mount, Sealed, bridge, volume},
    report::{Bar, Compare, Report, mebibytes, with_range},
    rounds::{Contest, Spread},
    table::Table,
};

/// The sandbox, and the option that turns it off.
const VARIANTS: [(&str, &[&str]); 2] = [("sandboxed", &[]), ("not sandboxed", &["--no-sandbox"])];

/// How many mounts of each kind there are.
const OF_EACH: usize = 8;

/// How long nobody uses them.
const IDLE: Duration = Duration::from_secs(60);

pub(crate) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    let tree = lab.path("tree");
    data::write_tree(&tree, &lab.sizes)?;
    data::write_file(&tree.join("large"), lab.sizes.file)?;
    let image = lab.image(Format::Erofs, &tree, lab.path("tree.img"))?;
    sandbox(lab, report, &tree, &image)?;
    many(lab, report, &image)
}

/// The processor time of a daemon for the same work with and without its sandbox.
fn sandbox(lab: &Lab, report: &mut Report, tree: &Path, image: &Sealed) -> Result<()> {
    let mounted = |options: &[&str]| image.mount(lab, User::Caller, options);
    let mirrored = |options: &[&str]| bridge(lab, tree, options);
    let files = lab.sizes.files();
    compare(
        lab,
        report,
        "reading a large file of an image",
        mounted,
        |root| read(&root.join("large")),
    )?;
    compare(
        lab,
        report,
        &format!("`tar` of {files} files of an image"),
        mounted,
        archive,
    )?;
    compare(
        lab,
        report,
        &format!("`tar` of {files} files of a bridge"),
        mirrored,
        archive,
    )?;
    compare(
        lab,
        report,
        &format!("copying {files} files into a bridge"),
        mirrored,
        |root| {
            let copy = root.join("copy");
            let copied = run_quietly(
                Command::new("cp")
                    .arg("-r")
                    .arg(tree.join("part-00"))
                    .arg(&copy),
            );
            run_quietly(Command::new("rm").arg("-r").arg(&copy))?;
            copied
        },
    )
}

fn compare(
    lab: &Lab,
    report: &mut Report,
    what: &str,
    mount: impl Fn(&[&str]) -> Result<Mount> + Copy,
    work: impl Fn(&Path) -> Result<()> + Copy,
) -> Result<()> {
    let samples = Contest::default()
        .variants(VARIANTS, |options: &[&str]| {
            let mounted = mount(options)?;
            work(mounted.path())?;
            mounted.processor_seconds()
        })
        .run(lab.rounds)?;
    let title = format!("Processor time of the daemon: {what}");
    report.times(&title, &samples, Compare::Time)?;
    let [(with, _), (without, _)] = VARIANTS;
    let text = format!("processor time with / without a sandbox: {what}");
    report.require(&text, Bar::AtMost(1.01), "x", samples.ratio(with, without)?);
    Ok(())
}

fn read(file: &Path) -> Result<()> {
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", file.display()));
    run_quietly(dd.args(["of=/dev/null", "bs=1M", "status=none"]))
}

fn archive(root: &Path) -> Result<()> {
    // GNU tar reads nothing for /dev/null itself.
    let mut tar = Command::new("sh");
    tar.args(["-c", "tar -cf - --exclude=large . | cat > /dev/null"]);
    run_quietly(tar.current_dir(root))
}

fn run_quietly(program: &mut Command) -> Result<()> {
    command::run(program.stdin(Stdio::null()))
}

/// Mounts of all kinds that nobody uses: how long one scrape of all takes, and what they take of the machine.
fn many(lab: &Lab, report: &mut Report, image: &Sealed) -> Result<()> {
    let mounts = mounts(lab, image)?;
    let idle = idle_time(lab, &mounts)?;
    let scrape = Contest::default()
        .variant("scrape", || {
            let mut status = lab.verimount(User::Caller);
            status.args(["status", "--all", "--prometheus"]);
            seconds(status.stdout(Stdio::null()))
        })
        .run(lab.rounds)?;
    let scrape = scrape.spread("scrape")?.times(1e3);
    let memory: Vec<_> = mounts
        .iter()
        .map(Mount::present_memory)
        .collect::<Result<_>>()?;
    let spread = |of: fn(&(u64, u64)) -> u64| {
        let values = memory.iter().map(|both| mebibytes(of(both)));
        Spread::of(values).context("there are no mounts")
    };
    let (resident, share) = (spread(|both| both.0)?, spread(|both| both.1)?);
    let mut table = Table::new(["what", "figure"]);
    for (what, figure, unit) in [
        ("one scrape of all", scrape, "ms"),
        (
            "processor time of all while idle, in a minute",
            Spread::exact(idle),
            "s",
        ),
        (
            "memory of each: share (PSS) of daemon and helper",
            share,
            "MiB",
        ),
        (
            "resident (RSS) of the daemon, with pages that all share",
            resident,
            "MiB",
        ),
    ] {
        table.row([what, &format!("{} {unit}", with_range(figure))]);
    }
    let count = mounts.len();
    report.section(&format!("{count} mounts of all kinds that nobody uses"));
    report.say(table);
    for (what, bar, unit, figure) in [
        ("one scrape", 100.0, " ms", scrape),
        ("processor time in a minute", 0.0, " s", Spread::exact(idle)),
        (
            "share of memory of the largest",
            8.0,
            " MiB",
            Spread::exact(share.max),
        ),
    ] {
        let text = format!("{count} idle mounts: {what}");
        report.require(&text, Bar::AtMost(bar), unit, figure);
    }
    Ok(())
}

/// As many images, bridges and volumes.
fn mounts(lab: &Lab, image: &Sealed) -> Result<Vec<Mount>> {
    let mut mounts = Vec::new();
    for index in 0..OF_EACH {
        mounts.push(image.mount(lab, User::Caller, &[])?);
        let source = lab.path(&format!("source-{index}"));
        fs::create_dir(&source)?;
        mounts.push(bridge(lab, &source, &[])?);
        let storage = lab.path(&format!("volume-{index}"));
        let mut format = lab.verimount(User::Caller);
        format.args(["volume", "format", "--size", "64M"]);
        run_quietly(format.arg(&storage).stdout(Stdio::null()))?;
        mounts.push(volume(lab, &storage, &[])?);
    }
    Ok(mounts)
}

/// The processor time in seconds that all take in a minute in which nobody uses them.
fn idle_time(lab: &Lab, mounts: &[Mount]) -> Result<f64> {
    let used = || -> Result<f64> { mounts.iter().map(Mount::processor_seconds).sum() };
    // What mounting has begun ends first.
    thread::sleep(Duration::from_secs(2));
    let before = used()?;
    thread::sleep(match lab.rounds {
        // A test of the benchmark.
        1 => Duration::from_secs(1),
        _ => IDLE,
    });
    Ok(used()? - before)
}
