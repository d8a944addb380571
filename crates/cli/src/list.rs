use std::{
    io::{self, Write, stdout},
    path::PathBuf,
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use verimount::Pin;
use verimount_host::{
    mounts::{
        AskError, EndingMount, MountEntry, NoAnswer, RegisteredExport, Status, ask_export,
        ask_mount, ending_mounts, mounts, registered_exports,
    },
    one_line, printable,
};

use crate::{
    Outcome,
    json::{VERSION, write_json},
    message::say,
};

/// How long all of them together may take to answer. A stopped process never answers.
const PATIENCE: Duration = Duration::from_secs(3);

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
        let listed = ask_all(everything()?).into_iter();
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
    /// The mount point or the socket, as [`printable`] shows it.
    pub(crate) target: String,
    /// Its status, or why there is none.
    pub(crate) answer: Result<Status, String>,
}

/// The answers of all mounts and exports that may be asked.
pub(crate) fn ask_everything() -> Result<Vec<Asked>> {
    let all = everything()?.into_iter();
    let asked = ask_all(all.filter(|entry| entry.is_asked).collect()).into_iter();
    Ok(asked
        .filter_map(|(entry, told)| entry.asked(told))
        .collect())
}

fn everything() -> Result<Vec<Entry>> {
    let mounts = mounts().context("/proc/self/mountinfo")?;
    let mut all: Vec<Entry> = mounts.into_iter().map(Entry::of_mount).collect();
    all.extend(registered_exports().into_iter().map(Entry::of_export));
    Ok(all)
}

/// A mount or export to ask.
struct Entry {
    path: PathBuf,
    way: Way,
    /// The source, as far as it is known without asking.
    source: String,
    /// Whether to ask it: another user's file system may never answer, and such a wait cannot be
    /// interrupted.
    is_asked: bool,
    /// Its process, as far as that is known without asking.
    pid: Option<i32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Mount,
    /// Served by a process of this user.
    Export {
        user: u32,
    },
}

/// The answer; `None` if it did not arrive in time.
type Told = Option<Result<Status, AskError>>;

impl Entry {
    fn of_mount(mount: MountEntry) -> Self {
        let is_asked = mount.is_believed();
        Self {
            pid: if is_asked { None } else { mount.process() },
            path: mount.mount_point,
            way: Way::Mount,
            source: mount.source,
            is_asked,
        }
    }

    fn of_export(export: RegisteredExport) -> Self {
        Self {
            path: export.socket,
            way: Way::Export { user: export.user },
            source: String::new(),
            is_asked: true,
            pid: None,
        }
    }

    /// Asks it in a thread of its own; `None` if there can be none.
    fn ask(&self) -> Option<Receiver<Result<Status, AskError>>> {
        let (send, receive) = channel();
        let (path, way) = (self.path.clone(), self.way);
        let ask = move || {
            let told = match way {
                Way::Mount => ask_mount(&path),
                Way::Export { user } => {
                    ask_export(&path, Some(user), PATIENCE).map(|export| export.status)
                }
            };
            // Sending fails if the answer came too late.
            let _ = send.send(told);
        };
        thread::Builder::new().spawn(ask).is_ok().then_some(receive)
    }

    /// What it tells; `None` for an export that is gone.
    fn asked(&self, told: Told) -> Option<Asked> {
        let answer = match told {
            Some(Ok(status)) => Ok(status),
            Some(Err(error)) if self.way != Way::Mount && is_gone(&error) => return None,
            Some(Err(error)) => Err(error.to_string()),
            None if self.is_asked => Err("no answer".to_owned()),
            None => Err("belongs to another user".to_owned()),
        };
        Some(Asked {
            target: printable(&self.path).to_string(),
            answer,
        })
    }

    /// Its line in the list; `None` for an export that is gone.
    fn listed(&self, told: Told) -> Option<Listed> {
        let state = match told {
            Some(Err(AskError::Mount(NoAnswer::Dead) | AskError::DeadExport)) => State::Dead,
            _ => State::Live,
        };
        let Asked { target, answer } = self.asked(told)?;
        let status = answer.as_ref().ok();
        let daemon = status.and_then(|status| status.served.daemon);
        let pid = daemon.map(|daemon| daemon.pid()).or(self.pid);
        let source = status.map_or(&self.source, |status| &status.served.source);
        Some(Listed {
            version: VERSION,
            target,
            way: match self.way {
                Way::Mount => "mount",
                Way::Export { .. } => "export",
            },
            source: source.clone(),
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

/// Asks all at once, each in its own thread. Threads that hang end with this process.
fn ask_all(entries: Vec<Entry>) -> Vec<(Entry, Told)> {
    let end = Instant::now() + PATIENCE;
    let asked = entries.into_iter().enumerate().map(|(number, entry)| {
        let is_asked = entry.is_asked && number < MAX_ASKED;
        let answer = is_asked.then(|| entry.ask()).flatten();
        (entry, answer)
    });
    let asked: Vec<_> = asked.collect();
    let asked = asked.into_iter().map(|(entry, answer)| {
        let left = end.saturating_duration_since(Instant::now());
        let told = answer.and_then(|answer| answer.recv_timeout(left).ok());
        (entry, told)
    });
    asked.collect()
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
