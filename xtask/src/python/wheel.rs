//! The wheel: the package with its extension module, and the static command.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use verimount_support::{command, venv::Venv, workspace::target};

use super::{Interpreter, package, requirements};
use crate::dist::{self, binary, notices};

/// The oldest Linux distributions that can use it, by their C library: glibc 2.17.
const PLATFORM: &str = "manylinux2014";

/// What auditwheel says of such a wheel.
const FOUND: &str = "following platform tag: \"manylinux_2_17_";

/// Makes the wheel below `folder`, and checks for which systems it is.
pub(super) fn make(python: &Interpreter, folder: &Path) -> Result<PathBuf> {
    let tools = Venv::new(python.program(), &folder.join("tools"))?;
    tools.install(&["--requirement"], &[&requirements("build.txt")])?;
    put_command()?;
    put_notices()?;
    let wheels = folder.join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels).with_context(|| wheels.display().to_string())?;
    }
    let mut maturin = tools.command("maturin", &["build", "--release", "--locked", "--zig"]);
    maturin
        .current_dir(package())
        .args(["--compatibility", PLATFORM, "--target"])
        .arg(platform())
        .arg("--interpreter")
        .arg(python.program())
        .arg("--out")
        .arg(&wheels)
        .arg("--target-dir")
        .arg(target()?)
        // For zig.
        .env("PATH", command::path_with(&tools.program(""))?);
    command::run(binary::reproducibly(&mut maturin)?)?;
    let wheel = only_file(&wheels)?;
    command::run(
        tools
            .command("abi3audit", &["--strict", "--summary"])
            .arg(&wheel),
    )?;
    check_platform(&tools, &wheel)?;
    println!("{:>12}  {}", fs::metadata(&wheel)?.len(), wheel.display());
    Ok(wheel)
}

/// Puts the command where maturin takes the programs of the wheel from.
fn put_command() -> Result<()> {
    let scripts = package().join("verimount._verimount.data/scripts");
    fs::create_dir_all(&scripts)?;
    fs::copy(binary::build()?, scripts.join("verimount"))?;
    Ok(())
}

/// Puts the licences of all that is in the wheel where it takes its own from.
fn put_notices() -> Result<()> {
    let notices = notices::of(&[
        (dist::COMMAND, &binary::platform()),
        ("verimount-python", &platform()),
    ])?;
    Ok(fs::write(package().join("LICENSE-LIBRARIES"), notices)?)
}

/// The compiler's name of the systems that have Pythons.
fn platform() -> String {
    format!("{}-unknown-linux-gnu", env::consts::ARCH)
}

/// What auditwheel finds must be what the name of the wheel says.
fn check_platform(tools: &Venv, wheel: &Path) -> Result<()> {
    let shown = command::stdout(tools.command("auditwheel", &["show"]).arg(wheel))?;
    println!("{}", shown.trim());
    // It breaks its lines between words.
    let words: Vec<_> = shown.split_whitespace().collect();
    ensure!(
        words.join(" ").contains(FOUND),
        "the wheel needs a newer system than {PLATFORM}"
    );
    Ok(())
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let mut files = fs::read_dir(folder)?;
    let file = files.next().context("maturin has made no wheel")??;
    Ok(file.path())
}
