//! How long a user of a shared bridge waits while another one takes as much as possible.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::{
    lab::{Lab, has, seconds},
    mounts,
    report::{Bar, Compare, Report},
    rounds::{Contest, Samples},
};

const TITLE: &str = "`cat` of a small file beside another user of a shared bridge";

/// The other user, a program for Python.
const HOG: &str = include_str!("hog.py");

/// What the other user takes, and its name in the table.
const TAKEN: [(&str, &str); 3] = [
    ("files", "20000 opens"),
    ("leases", "64 opens that wait for leases"),
    ("pipes", "64 opens that wait for named pipes"),
];

const ALONE: &str = "alone";

/// The most time that the other user may add, in milliseconds.
const MOST_ADDED: f64 = 100.0;

pub(super) fn run(lab: &Lab, report: &mut Report) -> Result<()> {
    if !lab.is_root() {
        report.leave_out(TITLE, Lab::NEEDS_ROOT);
        return Ok(());
    }
    if !has("python3") {
        report.leave_out(TITLE, "python3 is not installed");
        return Ok(());
    }
    let others = TAKEN.map(|(taken, name)| (name, Some(taken)));
    let contest = Contest::default().variants([(ALONE, None)], |taken| cat(lab, taken));
    // With today's program only: an older one might never answer.
    let samples = contest
        .variants(others, |taken| cat(lab, taken))
        .run(lab.rounds)?;
    report.times(TITLE, &samples, Compare::Time)?;
    for (_, name) in TAKEN {
        require(report, &samples, name)?;
    }
    Ok(())
}

fn require(report: &mut Report, samples: &Samples, name: &str) -> Result<()> {
    let mut added = samples.difference(name, ALONE)?;
    for seconds in [&mut added.median, &mut added.min, &mut added.max] {
        *seconds *= 1000.0;
    }
    let text = format!("cat beside another user's {name}: added to it alone");
    report.require(&text, Bar::AtMost(MOST_ADDED), " ms", added);
    Ok(())
}

/// Mirrors a folder, has the other user take `taken` there, and reads a file; returns the time of that in
/// seconds.
fn cat(lab: &Lab, taken: Option<&str>) -> Result<f64> {
    let source = lab.new_folder()?;
    fs::set_permissions(source.path(), PermissionsExt::from_mode(0o777))?;
    fs::write(source.path().join("file"), [b'v'; 4096])?;
    let mount = mounts::bridge(lab, source.path(), &["--allow-other"])?;
    let hog = taken.map(|taken| Hog::start(taken, source.path(), mount.path()));
    let hog = hog.transpose()?;
    let taken = seconds(Command::new("cat").arg(mount.path().join("file")));
    hog.map_or(Ok(()), Hog::end)?;
    taken
}

/// The other user.
struct Hog(Child);

impl Hog {
    fn start(taken: &str, source: &Path, mount: &Path) -> Result<Self> {
        let mut python = Command::new("python3");
        python.args(["-c", HOG, taken]).args([source, mount]);
        python.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut hog = Self(python.spawn().context("cannot run python3")?);
        let mut said = String::new();
        let stdout = hog.0.stdout.take().context("a piped output")?;
        BufReader::new(stdout).read_line(&mut said)?;
        ensure!(said == "taken\n", "another user takes no {taken}");
        Ok(hog)
    }

    fn end(mut self) -> Result<()> {
        drop(self.0.stdin.take());
        let status = self.0.wait()?;
        ensure!(status.success(), "another user: {status}");
        Ok(())
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
