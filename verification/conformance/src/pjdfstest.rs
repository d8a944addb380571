//! `pjdfstest`: tests each operation, its errors and the times that it changes, according to POSIX.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use verimount_support::{cargo_tool::CargoTool, command, interrupt};
use verimount_testenv::tools;

use crate::source::Source;

const TOOL: CargoTool = CargoTool {
    program: "pjdfstest",
    versions: "^0.2",
};

/// A test that need not pass through a bridge.
struct Exception {
    test: &'static str,
    reason: &'static str,
}

const EXCEPTIONS: [Exception; 2] = [
    Exception {
        test: "link::link_count_max",
        reason: "left out, as the C library knows the greatest link count of but a few file \
                 systems, by their kinds, and FUSE is not among them",
    },
    Exception {
        test: "open::etxtbsy",
        reason: "opened with O_RDONLY and O_TRUNC, a file is truncated before the kernel looks \
                 whether it is being run; if the program that this ends is gone by then, the open \
                 succeeds",
    },
];

/// All tests except those that remount, with all optional features that Linux has. The users are those
/// that always exist on Debian.
const SETTINGS: &str = "[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.01
allow_remount = false
[dummy_auth]
entries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]
";

/// The outcome of a test.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// It failed or was skipped, with pjdfstest's reason.
    NotPassed(String),
}

/// The outcomes of all tests, by name.
pub(crate) struct Outcomes(BTreeMap<String, Outcome>);

pub(crate) struct Pjdfstest {
    program: PathBuf,
    folder: PathBuf,
    /// The PATH.
    search: OsString,
}

/// The exceptions with their reasons, for output.
pub(crate) fn exceptions() -> String {
    let lines = EXCEPTIONS
        .iter()
        .map(|Exception { test, reason }| format!("  {test}: {reason}\n"));
    lines.collect()
}

impl Pjdfstest {
    /// Keeps its files in `folder`.
    pub(crate) fn new(target: &Path, folder: &Path) -> Result<Self> {
        let programs = folder.join("bin");
        fs::create_dir(&programs)?;
        // For a FUSE mount, mount(8) calls the daemon's program to remount, unless it gets `-i`.
        let mount = tools::locate("mount").context("there is no mount")?;
        let script = format!("#!/bin/sh\nexec {} -i \"$@\"\n", mount.display());
        fs::write(programs.join("mount"), script)?;
        fs::set_permissions(programs.join("mount"), fs::Permissions::from_mode(0o755))?;
        let others = env::var_os("PATH").unwrap_or_default();
        let search = [programs].into_iter().chain(env::split_paths(&others));
        Ok(Self {
            program: TOOL.installed(target)?,
            folder: folder.to_owned(),
            search: env::join_paths(search)?,
        })
    }

    /// Runs all tests in `directory`, which is `source` or a mirror of it.
    pub(crate) fn run(&self, source: &Source, directory: &Path) -> Result<Outcomes> {
        let mut all = self.run_some(directory, SETTINGS, None)?;
        if source.is_own() {
            // Separately: some of the other tests leave files open, which prevents a remount.
            let settings = SETTINGS.replace("allow_remount = false", "allow_remount = true");
            all.extend(self.run_some(directory, &settings, Some("erofs"))?);
        }
        Ok(Outcomes(all))
    }

    fn run_some(
        &self,
        directory: &Path,
        settings: &str,
        pattern: Option<&str>,
    ) -> Result<BTreeMap<String, Outcome>> {
        let file = self.folder.join("pjdfstest.toml");
        fs::write(&file, settings)?;
        let mut run = Command::new(&self.program);
        run.env("PATH", &self.search)
            .env("RUST_BACKTRACE", "0")
            .arg("--configuration-file")
            .arg(&file)
            .arg("--path")
            .arg(directory)
            .arg("--secondary-fs")
            .arg(&self.folder)
            .args(pattern);
        let output = run.output()?;
        interrupt::check()?;
        let text = String::from_utf8(output.stdout)?;
        ensure!(
            text.contains("\nSummary: "),
            "`{}` ended early: {}",
            command::describe(&run),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(outcomes(&text))
    }
}

/// Parses pjdfstest's output: a line per test, followed by lines with details.
fn outcomes(text: &str) -> BTreeMap<String, Outcome> {
    let mut found = BTreeMap::new();
    let mut last = None;
    for line in text.lines() {
        if let Some(more) = line.strip_prefix('\t') {
            if let Some(Outcome::NotPassed(said)) = last.and_then(|test| found.get_mut(test)) {
                *said = format!("{said}: {more}");
            }
        } else if let Some((test, outcome)) = line.split_once(' ') {
            let outcome = match outcome.trim_start() {
                "ok" => Outcome::Passed,
                said @ ("FAILED" | "skipped") => Outcome::NotPassed(said.to_owned()),
                _ => continue,
            };
            found.insert(test.to_owned(), outcome);
            last = Some(test);
        }
    }
    found
}

impl Outcomes {
    pub(crate) fn summary(&self) -> String {
        let passed = self.passed().count();
        format!("pjdfstest: {passed} of {} tests passed", self.0.len())
    }

    fn passed(&self) -> impl Iterator<Item = &str> {
        let passed = self
            .0
            .iter()
            .filter(|(_, outcome)| **outcome == Outcome::Passed);
        passed.map(|(test, _)| test.as_str())
    }

    /// Checks that every test that passed in the source passed here; returns a line of results.
    pub(crate) fn compare(&self, native: &Self) -> Result<String> {
        let mut said = self.summary();
        let mut failures = String::new();
        for test in native.passed() {
            let outcome = self.0.get(test);
            let has_passed = outcome == Some(&Outcome::Passed);
            if EXCEPTIONS.iter().any(|exception| exception.test == test) {
                let verb = if has_passed { "passed" } else { "did not pass" };
                said += &format!("; the exception {test} {verb}");
            } else if !has_passed {
                failures += &format!("\n    {test}: {outcome:?}");
            }
        }
        ensure!(failures.is_empty(), "these pass in the source:{failures}");
        Ok(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "open::one    ok\nopen::two   skipped\n\tno second file system\n\
                        link::three     FAILED\n\tleft: 1\n right: 2\n\nSummary: 1 failed\n";

    #[test]
    fn outcomes_are_read_from_what_it_says() {
        let not_passed = |said: &str| Outcome::NotPassed(said.to_owned());
        let expected = [
            ("link::three", not_passed("FAILED: left: 1")),
            ("open::one", Outcome::Passed),
            ("open::two", not_passed("skipped: no second file system")),
        ];
        let expected = expected.map(|(test, outcome)| (test.to_owned(), outcome));
        assert_eq!(outcomes(TEXT), BTreeMap::from(expected));
    }

    #[test]
    fn what_passes_in_the_source_must_pass() {
        let native = Outcomes(outcomes(TEXT));
        assert!(Outcomes(outcomes(TEXT)).compare(&native).is_ok());
        let failed = TEXT.replace("one    ok", "one    FAILED");
        assert!(Outcomes(outcomes(&failed)).compare(&native).is_err());
        let left_out = TEXT.replace("open::one    ok\n", "");
        assert!(Outcomes(outcomes(&left_out)).compare(&native).is_err());
    }

    #[test]
    fn exceptions_need_not_pass() {
        let native = outcomes("link::link_count_max    ok\nSummary: \n");
        let skipped = outcomes("link::link_count_max    skipped\nSummary: \n");
        let said = Outcomes(skipped).compare(&Outcomes(native)).unwrap();
        assert!(
            said.ends_with("the exception link::link_count_max did not pass"),
            "{said}"
        );
    }
}
