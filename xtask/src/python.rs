//! `cargo xtask python`: the Python package, installed and tested.

mod interpreter;
mod wheel;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use verimount_support::{
    command,
    setup::{self, Purpose},
    venv::{self, Venv},
    workspace::{root, target},
};

use self::interpreter::Interpreter;

/// Make the Python package, and test it with each Python from 3.10 on that is found
///
/// It is installed from its wheel, each time in a new environment. Packages of others come from PyPI.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// What to do with it
    #[arg(value_enum, default_value = "test")]
    what: What,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    /// Make it, in target/python/wheels
    Wheel,
    /// Test it
    Test,
    /// Read an example with each of bindings/python/programs, whose packages are large
    Programs,
    /// Measure how long models take to load, and how reading scales
    Bench,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let target = target()?;
    setup::ensure_ready(&[Purpose::Python])?;
    let pythons = Interpreter::all();
    let newest = newest(&pythons)?;
    let wheel = wheel::make(newest, &folder(&target))?;
    match options.what {
        What::Wheel => Ok(()),
        What::Test => {
            for python in &pythons {
                let is_complete = python.version() == newest.version();
                test_with(python, &wheel, &target, is_complete)?;
            }
            test_with_torch(&wheel, &target)
        }
        What::Programs => run_programs(newest, &wheel, &target),
        What::Bench => measure(newest, &wheel, &target),
    }
}

/// Makes the package, and tests it.
pub(crate) fn test() -> Result<()> {
    run(&Options { what: What::Test })
}

/// Makes the wheel in the folder `output`.
pub(crate) fn make_wheel(output: &Path) -> Result<()> {
    let pythons = Interpreter::all();
    let wheel = wheel::make(newest(&pythons)?, &folder(&target()?))?;
    let name = wheel.file_name().context("a wheel has a name")?;
    fs::copy(&wheel, output.join(name))?;
    Ok(())
}

fn newest(pythons: &[Interpreter]) -> Result<&Interpreter> {
    let newest = pythons.last();
    newest.context("no Python from 3.10 on is found that makes environments")
}

/// Tests the wheel with one Python; with the packages of others that read through it, if `is_complete`.
fn test_with(python: &Interpreter, wheel: &Path, target: &Path, is_complete: bool) -> Result<()> {
    println!("== Python {}", python.version());
    let venv = installed(python, wheel, target, "test.txt")?;
    let mut tests = tests(&venv);
    if is_complete {
        venv.install(&["--requirement"], &[&requirements("loaders.txt")])?;
        tests.env("VERIMOUNT_REQUIRE_PACKAGES", "most");
    }
    command::run(&mut venv.command("verimount", &["--version"]))?;
    command::run(&mut tests)
}

/// Tests the wheel with Debian's PyTorch: that of PyPI comes with gigabytes for processors of graphics.
fn test_with_torch(wheel: &Path, target: &Path) -> Result<()> {
    println!("== PyTorch");
    let venv = with_torch(wheel, target)?;
    let mut tests = tests(&venv);
    tests
        .arg("tests/test_loaders.py")
        .env("VERIMOUNT_REQUIRE_PACKAGES", "all");
    command::run(&mut tests)
}

/// An environment with the wheel and Debian's PyTorch.
fn with_torch(wheel: &Path, target: &Path) -> Result<Venv> {
    let venv = Venv::extending(Path::new(venv::SYSTEM), &folder(target).join("torch"))?;
    install(&venv, wheel, "torch.txt")?;
    Ok(venv)
}

/// Reads an example with each program.
fn run_programs(python: &Interpreter, wheel: &Path, target: &Path) -> Result<()> {
    let venv = Venv::new(python.program(), &folder(target).join("programs"))?;
    install(&venv, wheel, "programs.txt")?;
    let torch = with_torch(wheel, target)?;
    let files = fs::read_dir(package().join("programs"))?;
    let mut names = files
        .map(|file| Ok(file?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<Vec<_>>>()?;
    names.sort();
    for name in names.iter().filter(|name| name.starts_with("read_")) {
        println!("== {name}");
        let venv = if name == "read_torch.py" {
            &torch
        } else {
            &venv
        };
        let program = package().join("programs").join(name);
        command::run(venv.python().arg(program))?;
    }
    Ok(())
}

/// The tests, to be run in an environment with the package.
fn tests(venv: &Venv) -> Command {
    let mut tests = venv.python();
    tests
        .current_dir(package())
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    tests
}

fn measure(python: &Interpreter, wheel: &Path, target: &Path) -> Result<()> {
    let venv = installed(python, wheel, target, "test.txt")?;
    let mut bench = venv.python();
    command::run(
        bench
            .arg(package().join("tests/bench.py"))
            .arg(folder(target).join("bench")),
    )
}

/// A new environment with the wheel and these requirements.
fn installed(python: &Interpreter, wheel: &Path, target: &Path, file: &str) -> Result<Venv> {
    let venv = Venv::new(python.program(), &folder(target).join(python.version()))?;
    install(&venv, wheel, file)?;
    Ok(venv)
}

fn install(venv: &Venv, wheel: &Path, file: &str) -> Result<()> {
    venv.install(&["--requirement"], &[&requirements(file)])?;
    venv.install(&["--no-deps", "--no-index"], &[wheel])
}

/// Where environments and wheels are made.
fn folder(target: &Path) -> PathBuf {
    target.join("python")
}

/// The sources of the package.
fn package() -> PathBuf {
    root().join("bindings/python")
}

fn requirements(file: &str) -> PathBuf {
    package().join("requirements").join(file)
}
