//! Other programs that read archives.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use verimount_support::{command, interrupt, workspace::root};
use verimount_testkit::tools;

use crate::tree::{Tree, of_directory};

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

struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
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
            add(
                "Python",
                Program::start(python.arg(scripts.join("extract.py")))?,
            );
        }
        if let Some(go) = tools::find_optional("go") {
            let program = folder.join("extract");
            let mut build = Command::new(go);
            build.args(["build", "-o"]).arg(&program);
            command::run(build.arg(scripts.join("extract.go")))?;
            add("Go", Program::start(&mut Command::new(program))?);
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
            Program::Loop(running) => running.unpack(archive, &self.directory)?,
        };
        interrupt::check()?;
        is_unpacked
            .then(|| of_directory(&self.directory))
            .transpose()
    }
}

impl Program {
    fn start(command: &mut Command) -> Result<Self> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let input = child.stdin.take().context("it has an input")?;
        let output = child.stdout.take().context("it has an output")?;
        let output = BufReader::new(output);
        Ok(Self::Loop(Box::new(Running {
            child,
            input,
            output,
        })))
    }
}

impl Running {
    fn unpack(&mut self, archive: &Path, directory: &Path) -> Result<bool> {
        writeln!(self.input, "{}\t{}", archive.display(), directory.display())?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        match line.split(':').next() {
            Some("unpacked\n") => Ok(true),
            Some("refused") => Ok(false),
            _ => bail!("it ended: {:?}", self.child.wait()?),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
