use std::{
    io::{self, Write, stdout},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use verimount::Pin;
use verimount_host::{
    mounts::{
        AskError, EndingMount, MountEntry, NoAnswer, RegisteredExport, Status, ask_export,
        ask_mount, ending_mounts, in_time, mounts, registered_exports,
    },
    one_line, printable,
};

use crate::{
    Outcome,
    json::{VERSION, write_json},
    message::say,
};

/// How long all of them together may take to answer, and half of it to be found. A stopped process never answers. What is
/// done before and after is within 3 seconds, too.
const PATIENCE: Duration = Duration::from_millis(2500);

/// The maximum number to ask. Others are listed without their status.
const MAX_ASKED: usize = 1024;

/// List the mounts and exports that are visible from here
///
/// A question mark stands for information that the mount or export does not give this user, or not
/// within 3 seconds. The kind is dead if the process has ended, and ending if the mount is detached but still in use;
/// a note then says what to do.
#[derive(Args)]
pub(crate) struct List {
    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

/// What has become of a mount or an export.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// It is served.
    #[default]
    Live,
    /// It is detached, but still in use.
    Ending,
    /// Its process has ended without unmounting it or removing its socket.
    Dead,
}

/// A mount or an export.
#[derive(Default, Serialize)]
struct Listed {
    version: u32,
    /// The mount point or the socket, as [`printable`] shows it.
    target: String,
    /// `mount` or `export`.
    way: &'static str,
    source: String,
    kind: Option<&'static str>,
    pin: Option<Pin>,
    digest: Option<String>,
    pid: Option<i32>,
    /// With the same field as in a status.
    daemon: Option<Daemon>,
    mismatches: Option<u64>,
    state: State,
    /// Why its status is unavailable.
    error: Option<String>,
}

#[derive(Serialize)]
struct Daemon {
    pid: i32,
}

impl List {
    pub(crate) fn run(self) -> Result<Outcome> {
        let end = Instant::now() + PATIENCE;
        let listed = ask_all(everything(end)?, end).into_iter();
        let listed = listed.filter_map(|(entry, told)| entry.listed(told));
        let listed: Vec<Listed> = listed
            .chain(ending_mounts().iter().map(Listed::ending))
            .collect();
        let others = listed.iter().filter(|listed| listed.state != State::Live);
        for Listed { target, error, .. } in others {
            say(format_args!(
                "note: {target}: {}",
                error.as_deref().unwrap_or_default()
            ));
        }
        let mut out = stdout().lock();
        Outcome::Good.reported(if self.json {
            write_json(&mut out, &listed)
        } else {
            print(&mut out, &listed)
        })
    }
}

impl Listed {
    fn ending(mount: &EndingMount) -> Self {
        let pid = mount.daemon.pid();
        Self {
            version: VERSION,
            target: mount.mount_point.clone(),
            way: "mount",
            source: mount.source.clone(),
            pid: Some(pid),
            daemon: Some(Daemon { pid }),
            state: State::Ending,
            error: Some(format!("it is ending, but still {}", mount.in_use())),
            ..Self::default()
        }
    }
}

/// What a mount or export tells.
pub(crate) struct Asked {
    pub(crate) way: Way,
    /// The mount point or the socket, as [`printable`] shows it.
    pub(crate) target: String,
    /// Its status, or why there is none.
    pub(crate) answer: Result<Status, String>,
}

/// The answers of all mounts and exports that may be asked.
pub(crate) fn ask_everything() -> Result<Vec<Asked>> {
    let end = Instant::now() + PATIENCE;
    let all = everything(end)?.into_iter();
    let asked = ask_all(all.filter(|entry| entry.is_asked).collect(), end).into_iter();
    Ok(asked
        .filter_map(|(entry, told)| entry.asked(told))
        .collect())
}

/// What can be found before half of the time until `end` is over.
fn everything(end: Instant) -> Result<Vec<Entry>> {
    let mounts = mounts().context("/proc/self/mountinfo")?;
    let mut all: Vec<Entry> = mounts.into_iter().map(Entry::of_mount).collect();
    let exports = registered_exports(end - PATIENCE / 2).into_iter();
    all.extend(exports.map(Entry::of_export));
    Ok(all)
}

/// A mount or export to ask.
struct Entry {
    way: Way,
    /// The source, as far as it is known without asking.
    source: String,
    /// Whether to ask it: another user's file system may never answer.
    is_asked: bool,
    /// Its process, as far as that is known without asking.
    pid: Option<i32>,
}

#[derive(Clone)]
pub(crate) enum Way {
    Mount(MountEntry),
    Export(RegisteredExport),
}

impl Way {
    /// The mount point or the socket.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Mount(mount) => &mount.mount_point,
            Self::Export(export) => &export.socket,
        }
    }

    fn ask(self) -> Result<Status, AskError> {
        match self {
            Self::Mount(mount) => ask_mount(&mount),
            Self::Export(RegisteredExport { socket, user }) => {
                ask_export(&socket, Some(user), PATIENCE).map(|export| export.status)
            }
        }
    }
}

/// The answer; `None` if it did not arrive in time.
type Told = Option<Result<Status, AskError>>;

impl Entry {
    fn of_mount(mount: MountEntry) -> Self {
        let is_asked = mount.is_believed();
        Self {
            pid: if is_asked { None } else { mount.process() },
            source: mount.source.clone(),
            way: Way::Mount(mount),
            is_asked,
        }
    }

    fn of_export(export: RegisteredExport) -> Self {
        Self {
            way: Way::Export(export),
            source: String::new(),
            is_asked: true,
            pid: None,
        }
    }

    /// What it tells; `None` for an export that is gone.
    fn asked(self, told: Told) -> Option<Asked> {
        let is_export = matches!(self.way, Way::Export(_));
        let answer = match told {
            Some(Ok(status)) => Ok(status),
            Some(Err(error)) if is_export && is_gone(&error) => return None,
            Some(Err(error)) => Err(error.to_string()),
            None if self.is_asked => Err("no answer".to_owned()),
            None => Err("belongs to another user".to_owned()),
        };
        Some(Asked {
            target: printable(self.way.path()).to_string(),
            way: self.way,
            answer,
        })
    }

    /// Its line in the list; `None` for an export that is gone.
    fn listed(self, told: Told) -> Option<Listed> {
        let state = match told {
            Some(Err(AskError::Mount(NoAnswer::Dead) | AskError::DeadExport)) => State::Dead,
            _ => State::Live,
        };
        let (source, pid) = (self.source.clone(), self.pid);
        let Asked {
            way,
            target,
            answer,
        } = self.asked(told)?;
        let status = answer.as_ref().ok();
        let daemon = status.and_then(|status| status.served.daemon);
        let pid = daemon.map(|daemon| daemon.pid()).or(pid);
        let source = status.map_or(source, |status| status.served.source.clone());
        Some(Listed {
            version: VERSION,
            target,
            way: match way {
                Way::Mount(_) => "mount",
                Way::Export(_) => "export",
            },
            source,
            kind: status.map(|status| status.kind.name()),
            pin: status.and_then(|status| status.served.pin.clone()),
            digest: status.and_then(Status::digest).map(str::to_owned),
            pid,
            daemon: pid.map(|pid| Daemon { pid }),
            mismatches: status.map(|status| status.mismatches),
            state,
            error: answer.err(),
        })
    }
}

/// Whether the registered socket is gone, or never was an export.
fn is_gone(error: &AskError) -> bool {
    match error {
        AskError::NotOurs => true,
        AskError::System(error) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Asks all at once.
fn ask_all(entries: Vec<Entry>, end: Instant) -> Vec<(Entry, Told)> {
    let asked = entries.iter().filter(|entry| entry.is_asked);
    let ways: Vec<_> = asked
        .take(MAX_ASKED)
        .map(|entry| entry.way.clone())
        .collect();
    let mut told = in_time(ways, end, Way::ask).into_iter();
    let with_answer = |entry: Entry| {
        let told = if entry.is_asked { told.next() } else { None };
        (entry, told.flatten())
    };
    entries.into_iter().map(with_answer).collect()
}

/// Prints one line for each, in columns.
fn print(out: &mut impl Write, listed: &[Listed]) -> io::Result<()> {
    let mut rows = vec![["KIND", "PID", "PIN", "TARGET", "SOURCE"].map(str::to_owned)];
    rows.extend(listed.iter().map(row));
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths = [0, 1, 2, 3].map(width);
    for [kind, pid, pin, target, source] in &rows {
        let [kinds, pids, pins, targets] = widths;
        writeln!(
            out,
            "{kind:kinds$}  {pid:pids$}  {pin:pins$}  {target:targets$}  {source}"
        )?;
    }
    Ok(())
}

/// The texts come from the serving process and are not trusted.
fn row(listed: &Listed) -> [String; 5] {
    let unknown = || "?".to_owned();
    let pin = match (&listed.pin, listed.kind) {
        (Some(pin), _) => pin.name().to_owned(),
        (None, Some(_)) => "-".to_owned(),
        (None, None) => unknown(),
    };
    let kind = match listed.state {
        State::Live => listed.kind,
        State::Ending => Some("ending"),
        State::Dead => Some("dead"),
    };
    [
        kind.map_or_else(unknown, str::to_owned),
        listed.pid.map_or_else(unknown, |pid| pid.to_string()),
        pin,
        one_line(&listed.target).to_string(),
        one_line(&listed.source).to_string(),
    ]
}
