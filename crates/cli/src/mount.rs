use std::{
    env,
    fs::OpenOptions,
    io::{Read, Write, stdout},
    num::NonZeroUsize,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
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
use verimount_image::{SingleFile, Tree};
use verimount_names::printable;
use verimount_serve::{MountOptions, Mounted, VerifiedTree, mount};
use verimount_sys::take_inherited;

use crate::{
    Outcome,
    message::say,
    opened::Opened,
    options::{Auto, ReadArgs, TrustArgs, all_processors, parse_threads},
};

/// Mount an image, or a sealed file as one file, so that every byte read has been verified
///
/// One of --digest, --key, --unpinned and --unverified says what is to be believed.
#[derive(Args)]
pub(crate) struct Mount {
    /// The sealed image or file
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// The mount point: an empty directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    trust: TrustArgs,
    #[command(flatten)]
    read: ReadArgs,
    /// Show an image as one file, too
    #[arg(long)]
    as_file: bool,
    /// Let other users use the mount
    #[arg(long)]
    allow_other: bool,
    /// Threads that answer the kernel: auto or a number
    #[arg(long, value_name = "N", default_value = "auto", value_parser = parse_threads)]
    threads: Auto<NonZeroUsize>,
    /// Stay in the foreground, until unmounted or interrupted
    #[arg(long)]
    foreground: bool,
    /// In the background, append messages to this file
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Set by the command in the foreground for the process that stays: it must say on standard output
/// when the mount is ready.
const BACKGROUND: &str = "VERIMOUNT_BACKGROUND";

/// What it says, before what is to be shown.
const READY: &str = "ready\n";

impl Mount {
    pub(crate) fn run(self) -> Result<Outcome> {
        if !self.trust.is_given() {
            bail!(
                "refusing to mount {0} without knowing what it must be: \
                 give --digest or --key, or --unpinned to take it as it is",
                printable(&self.source)
            );
        }
        let background = env::var_os(BACKGROUND).is_some();
        if !self.foreground && !background {
            return start_in_background();
        }
        // Before anything else is opened; closed when paths such as /dev/fd/63 have been, too.
        let inherited = background.then(take_inherited).transpose()?;
        let signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
        start_logging();
        let mounted = self.mount()?;
        let ready = format!(
            "{} on {} ({})",
            printable(&self.source),
            printable(&self.directory),
            mounted.mode()
        );
        match inherited {
            Some(inherited) => self.detach(&ready, inherited)?,
            None => say(ready),
        }
        mounted.serve(signals)?;
        Ok(Outcome::Good)
    }

    fn mount(&self) -> Result<Mounted> {
        let opened = Opened::new(&self.source, &self.trust, &self.read)?.read_ahead();
        let image = match self.as_file {
            true => None,
            false => opened.image()?,
        };
        let is_file = image.is_none();
        let tree: Box<dyn Tree> = match image {
            Some(image) => Box::new(image),
            None => Box::new(opened.single_file()),
        };
        let mut served = VerifiedTree::new(tree, opened.reader);
        if is_file {
            served = served.with_measured(SingleFile::FILE);
        }
        let options = MountOptions {
            source_name: printable(&self.source).to_string(),
            allow_other: self.allow_other,
            threads: self.threads.0.unwrap_or_else(auto_threads),
        };
        Ok(mount(Arc::new(served), &self.directory, &options)?)
    }

    /// Tells the waiting command that all is well, and leaves its terminal, its directory and what
    /// its caller had open.
    fn detach(&self, ready: &str, inherited: Vec<OwnedFd>) -> Result<()> {
        let nowhere = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        match &self.log {
            Some(path) => dup2_stderr(open_log(path)?)?,
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
}

fn open_log(path: &Path) -> Result<std::fs::File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| printable(path).to_string())
}

/// Enough threads for the storage to have several requests at once, though few processors.
fn auto_threads() -> NonZeroUsize {
    const MOST: NonZeroUsize = NonZeroUsize::new(8).unwrap();
    all_processors()
        .saturating_mul(const { NonZeroUsize::new(2).unwrap() })
        .min(MOST)
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

fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_default_directive(tracing_subscriber::filter::LevelFilter::INFO.into())
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
}
