//! PostgreSQL on ext4 on a loop device on a volume, whose daemon is killed while clients write. What was
//! acknowledged must be there afterwards.

mod clients;
mod disk;
mod server;

use std::{collections::BTreeSet, path::Path, thread, time::Duration};

use anyhow::{Context, Result, ensure};

use self::{disk::Disk, server::Server};

/// A mode of a volume.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mode {
    pub(crate) name: &'static str,
    /// Whether it promises that what was flushed survives a crash.
    keeps_commits: bool,
}

pub(crate) const MODES: [Mode; 3] = [
    Mode {
        name: "journal",
        keeps_commits: true,
    },
    Mode {
        name: "bitmap",
        keeps_commits: true,
    },
    // Promises nothing: what it loses is shown.
    Mode {
        name: "direct",
        keeps_commits: false,
    },
];

/// The time from the first insertion to the kill: between checkpoints, and during them.
fn time_of_kill(round: u32) -> Duration {
    Duration::from_millis(u64::from(700 + round * 370 % 2000))
}

/// A volume below a database, through all kills.
struct Trial<'a> {
    verimount: &'a Path,
    folder: &'a Path,
    mode: Mode,
    /// The rows that are in the database, for all that was promised to clients.
    acknowledged: BTreeSet<u64>,
    outcome: Outcome,
}

/// What was found after the kills.
#[derive(Debug, Default)]
struct Outcome {
    acknowledged: usize,
    lost: usize,
    /// Kills after which the file system or the database could not be used any more.
    unusable: u32,
}

/// Kills the daemon `kills` times, and checks the database each time; returns a line of results.
pub(crate) fn run(verimount: &Path, folder: &Path, mode: Mode, kills: u32) -> Result<String> {
    let mut trial = Trial {
        verimount,
        folder,
        mode,
        acknowledged: BTreeSet::new(),
        outcome: Outcome::default(),
    };
    trial.begin()?;
    for round in 0..kills {
        trial.kill(round).with_context(|| format!("kill {round}"))?;
        match trial.check() {
            Err(error) if !mode.keeps_commits => {
                println!("  after kill {round}: {error:#}");
                trial.outcome.unusable += 1;
                trial.begin()?;
            }
            checked => checked.with_context(|| format!("after kill {round}"))?,
        }
    }
    trial.end()?;
    let Outcome {
        acknowledged,
        lost,
        unusable,
    } = trial.outcome;
    ensure!(
        acknowledged > 0,
        "no transaction ended before the daemon was killed"
    );
    Ok(format!(
        "PostgreSQL: {kills} kills, {acknowledged} acknowledged transactions, {lost} lost, unusable \
         after {unusable} kills"
    ))
}

impl Trial<'_> {
    /// Makes a new volume with a new database.
    fn begin(&mut self) -> Result<()> {
        self.acknowledged.clear();
        disk::format(self.verimount, self.folder, self.mode.name)?;
        let disk = self.disk()?;
        server::make(disk.path())?;
        let server = self.server(&disk)?;
        clients::make_table(&server)?;
        server.stop()?;
        disk.end()
    }

    fn disk(&self) -> Result<Disk> {
        Disk::open(self.verimount, self.folder, self.mode.name)
    }

    fn server(&self, disk: &Disk) -> Result<Server> {
        Server::start(disk.path(), self.folder)
    }

    /// Kills the daemon while clients insert rows.
    fn kill(&mut self, round: u32) -> Result<()> {
        let mut disk = self.disk()?;
        let server = self.server(&disk)?;
        let acknowledged = thread::scope(|scope| {
            let clients = clients::start(scope, &server, round)?;
            thread::sleep(time_of_kill(round));
            let killed = disk.kill();
            let acknowledged: Result<Vec<_>> =
                clients.into_iter().map(clients::acknowledged).collect();
            killed.and(acknowledged)
        })?;
        self.acknowledged.extend(acknowledged.into_iter().flatten());
        server.end()
    }

    /// Checks the file system and the database, and that every acknowledged row is there.
    fn check(&mut self) -> Result<()> {
        let disk = self.disk()?;
        let server = self.server(&disk)?;
        let found = clients::rows(&server)?;
        let lost = self.acknowledged.difference(&found).count();
        self.outcome.acknowledged += self.acknowledged.len();
        self.outcome.lost += lost;
        ensure!(
            lost == 0 || !self.mode.keeps_commits,
            "{lost} acknowledged transactions are lost"
        );
        // Each is counted once.
        self.acknowledged.clear();
        server.stop()?;
        disk.end()
    }

    /// Reads the whole database, whose pages have checksums, and the whole volume.
    fn end(&self) -> Result<()> {
        let disk = self.disk()?;
        server::check_pages(disk.path())?;
        disk.end()?;
        disk::check(self.verimount, self.folder)
    }
}
