//! Other programs that read archives.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Result;
use verimount_support::{command, interrupt, workspace::root};
use verimount_testkit::tools;

use crate::{
    running::Running,
    tree::{Tree, of_directory},
};

/// A program that unpacks archives.
pub(crate) struct Reader {
    pub(crate) name: &'static str,
    program: Program,
    directory: PathBuf,
}

enum Program {
    /// One that is started for each archive.
    Once(PathBuf),
    /// One that unpacks what lines of its input name.
    Loop(Box<Running>),
}

impl Reader {
    /// All that are installed; they unpack in `folder`.
    pub(crate) fn all(folder: &Path) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        let mut add = |name, program| {
            all.push(Self {
                name,
                program,
                directory: folder.join(name),
            });
        };
        for (name, program) in [("GNU tar", "tar"), ("libarchive", "bsdtar")] {
            if let Some(program) = tools::find(program) {
                add(name, Program::Once(program));
            }
        }
        let scripts = root().join("verification/archives/readers");
        if let Some(python) = tools::find("python3") {
            let mut python = Command::new(python);
            let python = python.arg(scripts.join("extract.py"));
            add("Python", Program::Loop(Box::new(Running::start(python)?)));
        }
        if let Some(mut go) = built_by_go(&scripts.join("extract.go"), folder)? {
            add("Go", Program::Loop(Box::new(Running::start(&mut go)?)));
        }
        Ok(all)
    }

    /// The tree that the program unpacks; `None` if it refuses the archive.
    pub(crate) fn read(&mut self, archive: &Path) -> Result<Option<Tree>> {
        if self.directory.exists() {
            fs::remove_dir_all(&self.directory)?;
        }
        fs::create_dir(&self.directory)?;
        let is_unpacked = match &mut self.program {
            Program::Once(program) => {
                let mut unpack = Command::new(program);
                unpack.args(["-x", "-p", "--same-owner", "--numeric-owner", "-f"]);
                unpack.arg(archive).arg("-C").arg(&self.directory);
                let unpack = unpack.stdin(Stdio::null()).stderr(Stdio::null());
                unpack.status()?.success()
            }
            Program::Loop(running) => running.ask(&format!(
                "{}\t{}",
                archive.display(),
                self.directory.display()
            ))?,
        };
        interrupt::check()?;
        is_unpacked
            .then(|| of_directory(&self.directory))
            .transpose()
    }
}

/// A program in Go, compiled in `folder`; `None` if Go is not installed.
pub(crate) fn built_by_go(script: &Path, folder: &Path) -> Result<Option<Command>> {
    let Some(go) = tools::find_optional("go") else {
        return Ok(None);
    };
    let program = folder.join(script.file_stem().unwrap_or_default());
    let mut build = Command::new(go);
    build.args(["build", "-o"]).arg(&program);
    command::run(build.arg(script))?;
    Ok(Some(Command::new(program)))
}
