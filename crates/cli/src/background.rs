//! Running a command's server process in the background (as a daemon).

use std::{
    env,
    ffi::OsString,
    fs::OpenOptions,
    io::{Read, Write, stdout},
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::{
    process::{chdir, setsid},
    stdio::{dup2_stderr, dup2_stdin, dup2_stdout},
};
use signal_hook::consts::SIGHUP;
use verimount_host::{
    mounts::{EndSignals, Mounted, Reload, Terminal, take_inherited},
    printable,
    sandbox::{Kind, Sandbox, detach_helper},
};

use crate::{
    Outcome,
    interrupt::is_ignored,
    log::{Log, LogFile},
    message::say,
    service_manager::{ReadyService, ServiceManager},
};

/// Whether a mount runs in the background.
#[derive(Args)]
pub(crate) struct BackgroundArgs {
    /// Stay in the foreground until unmounted, interrupted, or left by the terminal; as a service of systemd,
    /// Type=notify fits
    #[arg(long)]
    foreground: bool,
    /// In the background, append log messages to this file, at most 40 of each kind per minute
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Print nothing when mounted
    #[arg(long)]
    quiet: bool,
    /// Keep all rights of the user who mounts, rather than give up those that this mount does not need
    #[arg(long)]
    no_sandbox: bool,
}

/// The environment variable that the foreground command sets for the daemon. The daemon must then
/// report on standard output when the mount is ready.
const BACKGROUND: &str = "VERIMOUNT_BACKGROUND";

/// The line that the daemon prints when ready, before the text to show.
const READY: &str = "ready\n";

/// Who has started this process.
enum Caller {
    /// This command, in the foreground: it waits until this process is ready, which has a log of its own then.
    Command { log_file: Option<LogFile> },
    /// A user or a service manager.
    Other { manager: Option<ServiceManager> },
}

/// A server that is ready for use.
pub(crate) struct Ready {
    /// The text to show the user.
    pub(crate) text: String,
    /// Serves until the end or until a signal.
    pub(crate) serve: Box<dyn FnOnce(EndSignals) -> Result<()>>,
}

impl Ready {
    /// A mounted file system, the text to show, and what SIGHUP reloads.
    pub(crate) fn mounted(mounted: Mounted, text: String, reload: Option<Reload>) -> Self {
        Self {
            text,
            serve: Box::new(|mut signals| {
                signals.reload = reload;
                Ok(mounted.wait(signals)?)
            }),
        }
    }
}

impl BackgroundArgs {
    /// Serves what `begin` returns, in the background or foreground. `prepare` says which rights that takes, and does what
    /// takes more; it reads nothing that could be hostile.
    pub(crate) fn serve<T>(
        &self,
        kind: Kind,
        prepare: impl FnOnce(&mut Sandbox) -> Result<T>,
        begin: impl FnOnce(T) -> Result<Ready>,
    ) -> Result<Outcome> {
        let background = env::var_os(BACKGROUND).is_some();
        if !self.foreground && !background {
            return self.start_in_background();
        }
        let mut sandbox = Sandbox::new(kind);
        let prepared = prepare(&mut sandbox)?;
        // In the background there is none, and nohup asks to outlive it.
        let ends_with_terminal = !background && !is_ignored(SIGHUP);
        let terminal = ends_with_terminal.then(Terminal::controlling).flatten();
        if terminal.is_some() {
            sandbox.read(Terminal::PATH);
        }
        let caller = if background {
            Caller::Command {
                log_file: self.log_file(&mut sandbox)?,
            }
        } else {
            Caller::Other {
                manager: ServiceManager::connect(),
            }
        };
        self.enter(sandbox);
        // Closed only after paths such as /dev/fd/63 have been opened.
        let inherited = take_inherited()?;
        let mut signals = EndSignals::new(terminal)?;
        let log = Log::start()?;
        let ready = begin(prepared);
        let served = ready.and_then(|ready| {
            let service = self.announce(&ready.text, caller, inherited, &log)?;
            signals.until_end = Some(Box::new(service));
            (ready.serve)(signals)
        });
        log.finish();
        served.map(|()| Outcome::Good)
    }

    /// Gives up all other rights, and says what remains open.
    fn enter(&self, sandbox: Sandbox) {
        if self.no_sandbox {
            say(
                "note: not sandboxed, as --no-sandbox was given: this process keeps all rights of the user who mounts",
            );
            return;
        }
        match sandbox.enter() {
            Ok(missing) => {
                for missing in missing {
                    say(format_args!("note: the sandbox is incomplete: {missing}"));
                }
            }
            Err(error) => say(format_args!("note: not sandboxed: {error}")),
        }
    }

    /// Tells who has called that this process is ready.
    fn announce(
        &self,
        text: &str,
        caller: Caller,
        inherited: Vec<OwnedFd>,
        log: &Log,
    ) -> Result<Option<ReadyService>> {
        match caller {
            // That command is the one that a service manager knows.
            Caller::Command { log_file } => {
                detach(text, inherited, log, log_file)?;
                Ok(None)
            }
            Caller::Other { manager } => {
                drop(inherited);
                detach_helper()?;
                self.say_ready(text);
                Ok(manager.and_then(ServiceManager::announce))
            }
        }
    }

    /// Runs this command again as the daemon, and waits until it is ready or has failed.
    fn start_in_background(&self) -> Result<Outcome> {
        let mut arguments = env::args_os();
        let mut child = Command::new(env::current_exe()?)
            // The name decides what the arguments mean.
            .arg0(
                arguments
                    .next()
                    .unwrap_or_else(|| OsString::from("verimount")),
            )
            .args(arguments)
            .env(BACKGROUND, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the background process")?;
        let mut said = String::new();
        let mut pipe = child
            .stdout
            .take()
            .context("the background process has no output")?;
        pipe.read_to_string(&mut said)?;
        match said.strip_prefix(READY) {
            Some(ready) => {
                self.say_ready(ready);
                Ok(Outcome::Good)
            }
            None => failed(&mut child),
        }
    }

    fn say_ready(&self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    /// Opens the log before mounting, so that a failure needs no unmount.
    fn log_file(&self, sandbox: &mut Sandbox) -> Result<Option<LogFile>> {
        let open =
            |path: &PathBuf| LogFile::open(path).with_context(|| printable(path).to_string());
        let file = self.log.as_ref().map(open).transpose()?;
        if let Some(file) = &file {
            sandbox.task(file.reopening());
        }
        Ok(file)
    }
}

/// Tells the waiting command that the mount is ready, and detaches from its terminal, its directory
/// and the descriptors inherited from its caller.
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
    chdir("/")?;
    // Last: from here on, an automounter that waits for the command lets this process wait at the mount point, and its helper.
    // Nothing fails any more unless the command has ended.
    detach_helper()?;
    // This fails if the process is a group leader already, which does no harm.
    let _ = setsid();
    write!(stdout(), "{READY}{ready}")?;
    stdout().flush()?;
    dup2_stdout(&nowhere)?;
    Ok(())
}

/// Ends with the exit code of the daemon, which has reported the reason on the shared standard
/// error.
fn failed(child: &mut Child) -> Result<Outcome> {
    match child.wait()?.code() {
        Some(code) if code != 0 => std::process::exit(code),
        _ => bail!("the background process ended before the mount was ready"),
    }
}
