//! The Pythons of this machine.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use verimount_support::venv::without_settings;

/// The oldest minor version that the package is for.
const OLDEST: u32 = 10;

/// Prints the minor version of a CPython 3 that has the lock, which the stable ABI needs, and makes environments; nothing for
/// anything else.
const MINOR: &str = "import ensurepip, sys, sysconfig, venv\n\
    is_free = sysconfig.get_config_var('Py_GIL_DISABLED')\n\
    if sys.implementation.name == 'cpython' and sys.version_info[0] == 3 and not is_free: print(sys.version_info[1])";

/// A Python that the package is for.
#[derive(Debug)]
pub(super) struct Interpreter {
    program: PathBuf,
    version: String,
}

impl Interpreter {
    /// One of each version, oldest first: those of pyenv, and those in the path.
    pub(super) fn all() -> Vec<Self> {
        let mut found = BTreeMap::new();
        for program in candidates() {
            if let Some(minor) = minor_version(&program).filter(|minor| *minor >= OLDEST) {
                found.entry(minor).or_insert(program);
            }
        }
        found
            .into_iter()
            .map(|(minor, program)| Self {
                program,
                version: format!("3.{minor}"),
            })
            .collect()
    }

    /// Such as `3.12`.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }
}

/// Where a Python may be, whichever version it has.
fn candidates() -> Vec<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let pyenv = env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or(home.map(|home| home.join(".pyenv")));
    let versions = pyenv.and_then(|pyenv| fs::read_dir(pyenv.join("versions")).ok());
    let of_pyenv = versions.into_iter().flatten().flatten();
    let of_pyenv = of_pyenv.map(|version| version.path().join("bin/python3"));
    let names = (OLDEST..OLDEST + 10).map(|minor| format!("python3.{minor}"));
    let names: Vec<_> = names.chain(["python3".to_owned()]).collect();
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&path).flat_map(|folder| {
        let programs = names.iter().map(|name| folder.join(name));
        programs.collect::<Vec<_>>()
    });
    of_pyenv
        .chain(in_path)
        .filter(|path| path.exists())
        .collect()
}

fn minor_version(program: &Path) -> Option<u32> {
    let output = without_settings(program).args(["-c", MINOR]).output();
    let output = output.ok().filter(|output| output.status.success())?;
    str::from_utf8(&output.stdout).ok()?.trim().parse().ok()
}
