//! `cargo xtask models`: what Python's `model_signing` has signed is built, what it refuses is refused; and so is a wrong byte in
//! a cache that `huggingface_hub` has laid out.

use std::{fs, path::Path, process::ExitCode};

use anyhow::Result;
use clap::Parser;
use verimount_support::{
    command, program,
    setup::{self, Purpose},
    venv::Venv,
    workspace::{build_tested_verimount, target},
};

/// The packages of Python, which are installed into a folder of their own.
const PACKAGES: [&str; 3] = [
    "model-signing==1.1.1",
    "pyOpenSSL==26.4.0",
    "huggingface_hub==2.4.0",
];

/// Programs for Python, and their names.
const SCRIPTS: [(&str, &str); 3] = [
    ("common.py", include_str!("common.py")),
    ("hugging_face.py", include_str!("hugging_face.py")),
    ("signed.py", include_str!("signed.py")),
];

/// Check that Verimount accepts what model_signing has signed, and refuses what it refuses
///
/// Signs random folders with each method, builds each, and builds them again with something changed: content, names, the
/// signature, the key, files that are too many, or that change while they are read. Lays out a cache of Hugging
/// Face, builds and mounts its snapshot, and changes a byte.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask models")]
struct Options {
    /// How many folders for each method
    #[arg(long, default_value_t = 30)]
    folders: u32,
    /// How many changes
    #[arg(long, default_value_t = 200)]
    changes: u32,
    /// The seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    program::run(|| run(&options))
}

fn run(options: &Options) -> Result<()> {
    setup::ensure_ready(&[Purpose::Models])?;
    let verimount = build_tested_verimount()?;
    let python = Venv::new(Path::new("python3"), &target()?.join("models-venv"))?;
    python.install(&PACKAGES, &[])?;
    let folder = tempfile::Builder::new().prefix("verimount-").tempdir()?;
    for (name, script) in SCRIPTS {
        fs::write(folder.path().join(name), script)?;
    }
    let run = |script: &str, arguments: &[String]| {
        let mut run = python.python();
        run.current_dir(folder.path()).arg(script).arg(&verimount);
        command::run(run.args(arguments))
    };
    let numbers = [options.folders.into(), options.changes.into(), options.seed];
    run("signed.py", &numbers.map(|number: u64| number.to_string()))?;
    run("hugging_face.py", &[])
}
