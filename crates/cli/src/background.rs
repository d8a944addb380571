//! A command that stays in the background when its work is under way.

use std::{
    env,
    fs::OpenOptions,
    io::{Read, Write, stdout},
    os::fd::OwnedFd,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::{
    process::{chdir, setsid},
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use verimount_names::printable;
use verimount_serve::{Mounted, Reload};
use verimount_sys::take_inherited;

use crate::{
    Outcome,
    log::{Log, LogFile},
    message::say,
};

/// Where a mount's process stays.
#[derive(Args)]
pub(crate) struct BackgroundArgs {
    /// Stay in the foreground, until unmounted or interrupted
    #[arg(long)]
    foreground: bool,
    /// In the background, append messages to this file; at most 40 of one kind a minute
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Set by the command in the foreground for the process that stays: it must say on standard output
/// when the mount is ready.
const BACKGROUND: &str = "VERIMOUNT_BACKGROUND";

/// What it says, before what is to be shown.
const READY: &str = "ready\n";

/// What can be used from now on.
pub(crate) struct Ready {
    /// What to say of it.
    pub(crate) text: String,
    /// Serves it until it ends, or until a signal asks for that.
    pub(crate) serve: Box<dyn FnOnce(Signals) -> Result<()>>,
}

impl Ready {
    /// What has been mounted, what to say of it, and what is done at SIGHUP instead of ending.
    pub(crate) fn mounted(mounted: Mounted, text: String, reload: Option<Reload>) -> Self {
        Self {
            text,
            serve: Box::new(|signals| Ok(mounted.serve(signals, reload)?)),
        }
    }
}

impl BackgroundArgs {
    /// Serves what `begin` makes ready, in the background or not.
    pub(crate) fn serve(&self, begin: impl FnOnce() -> Result<Ready>) -> Result<Outcome> {
        let background = env::var_os(BACKGROUND).is_some();
        if !self.foreground && !background {
            return start_in_background();
        }
        // Before anything else is opened; closed when paths such as /dev/fd/63 have been, too.
        let inherited = background.then(take_inherited).transpose()?;
        let signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        let log = Log::start()?;
        let served = self.serve_here(begin, inherited, signals, &log);
        log.finish();
        served
    }

    /// Serves in this process, which `inherited` what it did not open itself if it is to stay in the
    /// background.
    fn serve_here(
        &self,
        begin: impl FnOnce() -> Result<Ready>,
        inherited: Option<Vec<OwnedFd>>,
        signals: Signals,
        log: &Log,
    ) -> Result<Outcome> {
        // Before anything is mounted, which would have to be undone.
        let log_file = match inherited {
            Some(_) => self.log_file()?,
            None => None,
        };
        let ready = begin()?;
        match inherited {
            Some(inherited) => detach(&ready.text, inherited, log, log_file)?,
            None => say(&ready.text),
        }
        (ready.serve)(signals)?;
        Ok(Outcome::Good)
    }

    fn log_file(&self) -> Result<Option<LogFile>> {
        let open =
            |path: &PathBuf| LogFile::open(path).with_context(|| printable(path).to_string());
        self.log.as_ref().map(open).transpose()
    }
}

/// Tells the waiting command that all is well, and leaves its terminal, its directory and what its
/// caller had open.
fn detach(
    ready: &str,
    inherited: Vec<OwnedFd>,
    log: &Log,
    log_file: Option<LogFile>,
) -> Result<()> {
    let nowhere = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    match log_file {
        Some(file) => log.write_to(file)?,
        None => dup2_stderr(&nowhere)?,
    }
    dup2_stdin(&nowhere)?;
    drop(inherited);
    // Whoever started it may be gone; that is no reason to end.
    let _ = setsid();
    chdir("/")?;
    write!(stdout(), "{READY}{ready}")?;
    stdout().flush()?;
    dup2_stdout(&nowhere)?;
    Ok(())
}

/// Runs this command once more as a process that stays, and waits until it is ready or has failed.
fn start_in_background() -> Result<Outcome> {
    let mut child = Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .env(BACKGROUND, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting the mount's process")?;
    let mut said = String::new();
    let mut pipe = child.stdout.take().context("the process has no output")?;
    pipe.read_to_string(&mut said)?;
    match said.strip_prefix(READY) {
        Some(ready) => {
            say(ready);
            Ok(Outcome::Good)
        }
        None => failed(&mut child),
    }
}

/// The process has said why on standard error, which is ours too.
fn failed(child: &mut Child) -> Result<Outcome> {
    match child.wait()?.code() {
        Some(code) if code != 0 => std::process::exit(code),
        _ => bail!("the mount's process ended before the mount was ready"),
    }
}
