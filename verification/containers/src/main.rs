//! `cargo xtask containers`: what an overlay above the mounts of a container image's layers shows is what podman
//! shows of the image, to root and to an ordinary user; so is the one image that is built of all layers, and so is what podman
//! makes of layers that it takes from a store of all of them.

// The paths shown here are our own.
#![allow(clippy::disallowed_methods)]

mod archive;
mod caller;
mod first_run;
mod registry;

use std::{
    env,
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Result, ensure};
use clap::Parser;
use verimount_support::{
    command, program,
    setup::{self, Purpose},
    workspace::build_tested_verimount,
};

use self::{archive::Archive, caller::Caller, registry::Registry};

/// The images that can be made.
const IMAGES: u32 = 11;

/// Programs for the shell and for Python, and their names.
const SCRIPTS: [(&str, &str); 7] = [
    ("debian.sh", include_str!("debian.sh")),
    ("first_run.sh", include_str!("first_run.sh")),
    ("images.sh", include_str!("images.sh")),
    ("list.py", include_str!("list.py")),
    ("overlay.sh", include_str!("overlay.sh")),
    ("podman.sh", include_str!("podman.sh")),
    ("store.sh", include_str!("store.sh")),
];

/// Compare mounted layers of container images with what podman shows
///
/// Makes images with buildah; as root and as an ordinary user, podman unpacks each, and an overlay is mounted above
/// the mounts of its layers. Both must have the same files. Needs root.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask containers")]
struct Options {
    /// How many images, at most 11
    #[arg(long, default_value_t = IMAGES, value_parser = clap::value_parser!(u32).range(1..=i64::from(IMAGES)))]
    images: u32,
    /// Also measure the first run of a larger image, pulled and from a store: bytes received and time
    #[arg(long)]
    first_run: bool,
    /// The command to test, already in a mount namespace of its own
    #[arg(long, hide = true)]
    verimount: Option<PathBuf>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    program::run(|| run(&options))
}

fn run(options: &Options) -> Result<()> {
    setup::ensure_ready(&[Purpose::Containers])?;
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root may run podman as several users");
        return Ok(());
    }
    match &options.verimount {
        Some(verimount) => compare_all(options, verimount),
        // Whatever is mounted here is seen and left by nobody else.
        None => {
            let mut again = Command::new("unshare");
            again.args(["--mount", "--propagation", "private"]);
            again.arg(env::current_exe()?);
            again.arg(format!("--images={}", options.images));
            if options.first_run {
                setup::ensure_installed(&[Purpose::Installation])?;
                again.arg("--first-run");
            }
            again.arg("--verimount").arg(build_tested_verimount()?);
            Err(again.exec().into())
        }
    }
}

fn compare_all(options: &Options, verimount: &Path) -> Result<()> {
    if options.first_run {
        first_run::prepare()?;
    }
    let folder = tempfile::Builder::new().prefix("verimount-").tempdir()?;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    // Where every user can run it.
    let program = folder.path().join("verimount");
    fs::copy(verimount, &program)?;
    for (name, script) in SCRIPTS {
        fs::write(folder.path().join(name), script)?;
    }
    let builder = Caller::root(folder.path(), "builder")?;
    let callers = [
        Caller::root(folder.path(), "root")?,
        Caller::ordinary(folder.path())?,
    ];
    let archives =
        (0..options.images).map(|number| Archive::make(folder.path(), &program, &builder, number));
    let archives = archives.collect::<Result<Vec<_>>>()?;
    let registry = Registry::start(folder.path())?;
    for (archive, number) in archives.iter().zip(0..) {
        registry.push(&archive.file, &in_registry(number))?;
    }
    let store = folder.path().join("store.img");
    let mut build = Command::new(&program);
    build.args(["build", "--layer-store"]);
    build.args(archives.iter().map(|archive| &archive.file));
    output(build.arg(&store))?;
    let mut differences = 0;
    for (archive, number) in archives.iter().zip(0..) {
        for caller in &callers {
            // Overlayfs refuses the same directory twice, and podman has one for equal layers of a store.
            let from_store = if archive.has_equal_layers()? {
                None
            } else {
                Some(caller.store(&program, &store, &registry.address, &in_registry(number))?)
            };
            differences += compare(archive, &program, caller, from_store)?;
        }
    }
    if options.first_run {
        first_run::measure(folder.path(), &program, &builder, &callers, &registry)?;
    }
    for caller in callers.iter().chain([&builder]) {
        caller.forget()?;
    }
    ensure!(differences == 0, "{differences} trees differ");
    Ok(())
}

/// The name of an image in the registry.
fn in_registry(number: u32) -> String {
    format!("image-{number}:latest")
}

/// In how many ways `caller` sees another tree than that in podman: above the layers, in the image of all layers, and in podman
/// with layers from a store.
fn compare(
    archive: &Archive,
    program: &Path,
    caller: &Caller,
    from_store: Option<String>,
) -> Result<usize> {
    let Archive { file, layers, .. } = archive;
    let expected = caller.run("podman.sh", &[file.as_ref()])?;
    // An overlay has at least two layers.
    let flat = [archive.empty.clone(), archive.flat.clone()];
    let mut differences = 0;
    let mut all = vec![
        ("its layers", caller.overlay(program, layers)?),
        ("one image", caller.overlay(program, &flat)?),
    ];
    all.extend(from_store.map(|found| ("a store of layers", found)));
    for (what, found) in all {
        let (files, equal) = (expected.lines().count(), found == expected);
        println!(
            "{}, {}, {what}: {}",
            archive.name,
            caller.name,
            if equal { "the same" } else { "DIFFERENT" },
        );
        if !equal {
            println!("{}", first_difference(&expected, &found));
        }
        ensure!(files > 3, "podman shows almost nothing:\n{expected}");
        differences += usize::from(!equal);
    }
    Ok(differences)
}

fn first_difference(expected: &str, found: &str) -> String {
    let line = |text: &str, index| text.lines().nth(index).unwrap_or("nothing").to_owned();
    let lines = expected.lines().count().max(found.lines().count());
    let differs = (0..lines).find(|&index| line(expected, index) != line(found, index));
    let index = differs.unwrap_or_default();
    format!(
        "  podman:    {}\n  verimount: {}",
        line(expected, index),
        line(found, index)
    )
}

/// The output of `command`.
fn output(command: &mut Command) -> Result<String> {
    command::stdout(command)
}
