//! `cargo xtask installation`: what `cargo xtask dist` makes is installed in a fresh minimal Debian, used by root and by
//! an ordinary user, and removed; systemd starts, reloads and stops its units in a virtual machine; the static binary runs where there is nothing else.

// The paths shown here are our own.
#![allow(clippy::disallowed_methods)]

mod debian;
mod systemd;

use std::{
    env, fs,
    net::TcpListener,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use verimount_support::{
    command, program,
    setup::{self, Purpose},
    workspace::target,
};

use self::debian::{Debian, folder_in_memory};

const USE_PYTHON: &str = include_str!("use_python.sh");

/// The programs for the shell, which run inside, and who runs each.
const SCRIPTS: [Script; 7] = [
    Script::new("install.sh", include_str!("install.sh"), User::Root),
    Script::new("use.sh", include_str!("use.sh"), User::Root),
    Script::new("use.sh", include_str!("use.sh"), User::Nobody),
    Script::new("remove.sh", include_str!("remove.sh"), User::Root),
    Script::new("python.sh", include_str!("python.sh"), User::Root),
    Script::new("use_python.sh", USE_PYTHON, User::Root),
    Script::new("use_python.sh", USE_PYTHON, User::Nobody),
];

/// Install what `cargo xtask dist` made in a fresh minimal Debian, use it, and remove it
///
/// Also boots a Debian that has it, in a virtual machine, and runs the static binary in a directory tree that has nothing
/// else. Needs root, and for the first time a network.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask installation")]
struct Options {
    /// The folder with what was made [default: dist in cargo's target folder]
    #[arg(long, value_name = "DIR")]
    dist: Option<PathBuf>,
    /// Whether this is a mount namespace of its own already
    #[arg(long, hide = true)]
    alone: bool,
}

struct Script {
    name: &'static str,
    text: &'static str,
    user: User,
}

#[derive(Debug, Clone, Copy)]
enum User {
    Root,
    Nobody,
}

impl Script {
    const fn new(name: &'static str, text: &'static str, user: User) -> Self {
        Self { name, text, user }
    }

    fn run(&self, debian: &Debian) -> Result<()> {
        let Self { name, text, user } = self;
        println!("== {name}, as {user:?}");
        debian.write(name, text)?;
        let shell = format!("sh -eu /given/{name}");
        let mut inside = debian.command();
        match user {
            User::Root => inside.args(["sh", "-c", &shell]),
            User::Nobody => inside.args(["su", "-s", "/bin/sh", "nobody", "-c", &shell]),
        };
        command::run(&mut inside)
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    program::run(|| run(&options))
}

fn run(options: &Options) -> Result<()> {
    setup::ensure_ready(&[Purpose::Installation, Purpose::KernelTest])?;
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root may make a Debian of its own");
        return Ok(());
    }
    let target = target()?;
    let dist = match &options.dist {
        Some(dist) => std::path::absolute(dist)?,
        None => target.join("dist"),
    };
    ensure!(
        dist.join("SHA256SUMS").exists(),
        "{} has nothing to install: run cargo xtask dist",
        dist.display()
    );
    if options.alone {
        return check(&dist, &target);
    }
    // Whatever is mounted here is seen and left by nobody else.
    let mut again = Command::new("unshare");
    again.args(["--mount", "--propagation", "private"]);
    again.arg(env::current_exe()?).arg("--alone");
    Err(again.arg("--dist").arg(dist).exec().into())
}

fn check(dist: &Path, target: &Path) -> Result<()> {
    let mut sums = Command::new("sha256sum");
    command::run(
        sums.args(["--check", "--quiet", "SHA256SUMS"])
            .current_dir(dist),
    )?;
    let place = &target.join("installation");
    let debian = Debian::fresh(target, place)?;
    let package = only(dist, ".deb")?;
    debian.give(&package, "verimount.deb")?;
    let wheel = only(dist, ".whl")?;
    debian.give(&wheel, &file_name(&wheel))?;
    debian.write("everything.sh", include_str!("everything.sh"))?;
    for script in &SCRIPTS {
        script.run(&debian)?;
    }
    println!("Installed, used by root and an ordinary user, and removed; the Python package, too.");
    systemd::check(&package, target, place)?;
    println!("Started, reloaded, killed, restarted, upgraded and stopped by systemd.");
    run_alone(&only(dist, "-linux")?, place)?;
    println!("The static binary runs where there is nothing else.");
    Ok(())
}

/// Runs the static binary in a directory tree of its own.
fn run_alone(binary: &Path, place: &Path) -> Result<()> {
    let folder = folder_in_memory(place.join("alone"))?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let script = folder.join("alone.sh");
    fs::write(&script, include_str!("alone.sh"))?;
    let mut shell = Command::new("sh");
    shell.arg("-eu").arg(script).arg(binary);
    command::run(shell.arg(folder).arg(port.to_string()))
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The only file whose name ends so.
fn only(folder: &Path, ending: &str) -> Result<PathBuf> {
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.to_string_lossy().ends_with(ending));
    ensure!(paths.len() == 1, "{} files *{ending}", paths.len());
    paths.pop().context("there is one")
}
