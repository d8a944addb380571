//! What the processes cost that serve mounts: their sandbox, and many of them that nobody uses.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::Result;
use verimount_support::command;

use crate::{
    data,
    lab::{Format, Lab, User, seconds},
    mounts::{Mount, Sealed, bridge, volume},
    report::{Bar, Compare, Report, mebibytes},
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
    let count = mounts.len();
    let used = || -> Result<f64> { mounts.iter().map(Mount::processor_seconds).sum() };
    // What mounting has begun ends first.
    thread::sleep(Duration::from_secs(2));
    let before = used()?;
    thread::sleep(if lab.rounds > 1 {
        IDLE
    } else {
        Duration::from_secs(1)
    });
    let idle = used()? - before;
    let scrape = Contest::default()
        .variant("scrape", || {
            let mut status = lab.verimount(User::Caller);
            seconds(
                status
                    .args(["status", "--all", "--prometheus"])
                    .stdout(Stdio::null()),
            )
        })
        .run(lab.rounds)?
        .spread("scrape")?;
    let memory = mounts
        .iter()
        .map(Mount::own_memory)
        .collect::<Result<Vec<_>>>()?;
    let memory = Spread::of(memory.into_iter().map(mebibytes)).unwrap_or(Spread::exact(0.0));
    let mut table = Table::new(["what", "figure"]);
    let idle_text = format!("{:.1} ms in {} s", idle * 1e3, IDLE.as_secs());
    for (what, figure) in [
        (
            "one scrape of all",
            format!("{:.0} ms", scrape.median * 1e3),
        ),
        ("processor time while idle, all together", idle_text),
        (
            "resident memory of each, median",
            format!("{:.1} MiB", memory.median),
        ),
        ("the largest", format!("{:.1} MiB", memory.max)),
    ] {
        table.row([what, &figure]);
    }
    report.section(&format!("{count} mounts of all kinds that nobody uses"));
    report.say(table);
    let text = format!("{count} idle mounts: one scrape");
    report.require(&text, Bar::AtMost(100.0), " ms", scrape.times(1e3));
    let text = format!("{count} idle mounts: processor time in a minute");
    report.require(&text, Bar::AtMost(0.0), " s", Spread::exact(idle));
    let text = format!("{count} idle mounts: resident memory of the largest");
    report.require(&text, Bar::AtMost(8.0), " MiB", Spread::exact(memory.max));
    Ok(())
}
