//! Programs that write archives with access control lists.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};
use verimount_support::workspace::root;
use verimount_testkit::{Random, tools};

use super::{
    member::{Form, Member},
    quietly,
};
use crate::{readers::built_by_go, running::Running};

/// A program that writes archives in one way.
pub(super) struct Writer {
    pub(super) name: &'static str,
    program: Program,
}

/// Programs that archive and unpack directories: their names, and their options for both.
const OF_DIRECTORIES: [(&str, &[&str], &[&str]); 4] = [
    (
        "tar",
        &["--create", "--format=posix", "--acls", "--xattrs"],
        &["--extract", "--acls", "--xattrs", "--xattrs-include=*"],
    ),
    (
        "tar",
        &["--create", "--format=posix", "--acls"],
        &["--extract", "--acls"],
    ),
    // The lists are attributes like others then.
    (
        "tar",
        &["--create", "--format=posix", "--xattrs"],
        &["--extract", "--xattrs", "--xattrs-include=*"],
    ),
    (
        "bsdtar",
        &["--create", "--format=pax", "--acls", "--xattrs"],
        &["--extract", "--acls", "--xattrs"],
    ),
];

enum Program {
    /// One that archives and unpacks directories, with the options for both.
    OfDirectories {
        program: PathBuf,
        create: &'static [&'static str],
        extract: &'static [&'static str],
    },
    /// One that writes what lines of its input describe.
    Loop(Box<Running>),
}

impl Writer {
    /// All that are installed.
    pub(super) fn all(folder: &Path) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for (name, create, extract) in OF_DIRECTORIES {
            if let Some(program) = tools::find(name) {
                let program = Program::OfDirectories {
                    program,
                    create,
                    extract,
                };
                all.push(Self { name, program });
            }
        }
        let scripts = root().join("verification/archives/writers");
        let mut add = |name, command: &mut Command| {
            let program = Program::Loop(Box::new(Running::start(command)?));
            all.push(Self { name, program });
            anyhow::Ok(())
        };
        if let Some(python) = tools::find("python3") {
            add("Python", Command::new(python).arg(scripts.join("write.py")))?;
        }
        if let Some(mut go) = built_by_go(&scripts.join("write.go"), folder)? {
            add("Go", &mut go)?;
        }
        Ok(all)
    }

    /// Whether it can write attributes of any name.
    pub(super) fn escapes(&self) -> bool {
        matches!(self.program, Program::OfDirectories { .. })
    }

    /// Writes an archive of files, which are also in `tree`. Returns the directory with what a program that knows lists unpacks
    /// of it: this one in `unpacked`, or else the kernel in `tree`.
    pub(super) fn write<'p>(
        &mut self,
        random: &mut Random,
        members: &[Member],
        archive: &Path,
        [tree, unpacked]: [&'p Path; 2],
    ) -> Result<&'p Path> {
        match &mut self.program {
            Program::OfDirectories {
                program,
                create,
                extract,
            } => {
                let command = |options: &[&str], directory: &Path| {
                    let mut command = Command::new(&*program);
                    command.args(options).arg("--numeric-owner");
                    command.arg("--file").arg(archive);
                    command.arg("--directory").arg(directory);
                    command
                };
                quietly(command(create, tree).arg("."))?;
                quietly(command(extract, unpacked).args(["--same-owner", "-p"]))?;
                Ok(unpacked)
            }
            Program::Loop(running) => {
                let form = random.choose(&[Form::Text, Form::Attribute]);
                let mut line = archive.display().to_string();
                for member in members {
                    line = format!("{line}\t{}", member.line(form));
                }
                ensure!(running.ask(&line)?, "{} does not write {line}", self.name);
                Ok(tree)
            }
        }
    }
}
