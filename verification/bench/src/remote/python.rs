//! Python with numpy, started from a far server.

use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result};
use verimount_support::command;

use super::{Image, Way, on_server, subjects};
use crate::{
    lab::{Lab, User, has, seconds},
    mounts::{Mount, Sealed},
    report::{Bar, Report, figure, mebibytes, range},
    rounds::{Contest, Samples, Spread},
    table::Table,
};

/// That of the system, which has the numpy of its package.
const PYTHON: &str = "/usr/bin/python3";

const OURS: &str = "verimount";
const ALL: &str = "verimount, --prefetch all";
const DOWNLOAD: &str = "download, mount";
const RCLONE: &str = "rclone mount";

/// The name of the environment on the servers.
const NAME: &str = "venv";

pub(super) fn run(lab: &Lab, report: &mut Report, way: &Way<'_>) -> Result<()> {
    let title = format!("Python with numpy, {}", way.name);
    let folder = on_server(lab, NAME);
    if let Err(error) = make_environment(&folder) {
        report.leave_out(&title, &format!("{error:#}"));
        return Ok(());
    }
    let image = Image::make(lab, &folder, NAME)?;
    let starts = Starts {
        lab,
        way,
        image: &image,
        fetched: RefCell::default(),
    };
    let ours = |name, prefetch| {
        starts.measure(name, |cache| {
            let path = cache.display().to_string();
            let options = ["--cache", &path, "--prefetch", prefetch];
            way.sealed(&image).mount(lab, User::Caller, &options)
        })
    };
    let mut contest = Contest::default()
        .variant(DOWNLOAD, || {
            starts.measure(DOWNLOAD, |folder| download(lab, way, &image, folder))
        })
        .variant(OURS, || ours(OURS, "metadata"))
        .variant(ALL, || ours(ALL, "all"));
    if has("rclone") {
        contest = contest.variant(RCLONE, || {
            starts.measure(RCLONE, |cache| {
                subjects::served(lab, |point| subjects::rclone(way, NAME, cache, point))
            })
        });
    } else {
        report.leave_out(RCLONE, "not installed");
    }
    let samples = contest.run_in(lab)?;
    report.table(&title, starts.table(&samples)?, "s", &samples)?;
    if let Ok(ratio) = samples.ratio(OURS, RCLONE) {
        let text = format!("Python with numpy, {}: time / {RCLONE}", way.name);
        report.require(&text, Bar::AtMost(1.0), "x", ratio);
    }
    Ok(())
}

/// Fetches the whole image and mounts it.
fn download(lab: &Lab, way: &Way<'_>, image: &Image, folder: &Path) -> Result<Mount> {
    let copy = folder.join(&image.name);
    seconds(&mut way.curl(&image.name, &copy))?;
    let sealed = Sealed {
        source: copy,
        digest: image.digest.clone(),
    };
    sealed.mount(lab, User::Caller, &[])
}

/// Starts of Python, and what they fetched.
struct Starts<'a> {
    lab: &'a Lab,
    way: &'a Way<'a>,
    image: &'a Image,
    /// The names of variants, with the MiB of each round.
    fetched: RefCell<Vec<(&'static str, f64)>>,
}

impl Starts<'_> {
    /// The time of a start, with the mount, which has a new folder for its cache.
    fn measure(
        &self,
        name: &'static str,
        mount: impl FnOnce(&Path) -> Result<Mount>,
    ) -> Result<f64> {
        let server = self.way.server;
        server.take_answered()?;
        let cache = self.lab.new_folder()?;
        self.lab.make_cold(0)?;
        // What it takes from the system, and what the server sends, is in the page cache.
        start(&on_server(self.lab, NAME))?;
        self.image.read_into_memory(self.lab)?;
        let clock = Instant::now();
        let mount = mount(cache.path())?;
        start(mount.path())?;
        let seconds = clock.elapsed().as_secs_f64();
        drop(mount);
        let fetched = mebibytes(server.take_answered()?.bytes);
        if self.lab.is_today() {
            self.fetched.borrow_mut().push((name, fetched));
        }
        Ok(seconds)
    }

    fn table(&self, samples: &Samples) -> Result<Table> {
        let fetched = self.fetched.borrow();
        let mut table = Table::new(["variant", "median s", "min..max s", "MiB fetched"]);
        for name in samples.names() {
            let own = fetched.iter().filter(|(own, _)| *own == name);
            let fetched = Spread::of(own.map(|(_, fetched)| *fetched)).context("no rounds")?;
            let spread = samples.spread(name)?;
            table.row([
                name.to_owned(),
                figure(spread.median),
                range(spread),
                figure(fetched.median),
            ]);
        }
        Ok(table)
    }
}

/// Makes an environment with numpy in a new folder.
fn make_environment(folder: &Path) -> Result<()> {
    let mut venv = Command::new(PYTHON);
    venv.args(["-m", "venv", "--copies", "--without-pip"]);
    command::run(venv.arg(folder))?;
    let path = |program: &Path, code: &str| {
        let printed = command::stdout(Command::new(program).args(["-c", code]))?;
        anyhow::Ok(PathBuf::from(printed))
    };
    let numpy = path(
        Path::new(PYTHON),
        "import numpy, os; print(os.path.dirname(numpy.__file__))",
    )?;
    let packages = path(
        &folder.join("bin/python"),
        "import sysconfig; print(sysconfig.get_path('purelib'))",
    )?;
    let mut copy = Command::new("cp");
    command::run(copy.arg("-rLp").arg(numpy).arg(&packages))?;
    fs::metadata(packages.join("numpy")).context("numpy was not copied")?;
    Ok(())
}

/// Starts Python in an environment, and uses numpy.
fn start(environment: &Path) -> Result<()> {
    let mut python = Command::new(environment.join("bin/python"));
    // Nothing is written to the environment.
    python.args(["-B", "-c", "import numpy; assert numpy.ones(9).sum() == 9"]);
    seconds(&mut python)?;
    Ok(())
}
