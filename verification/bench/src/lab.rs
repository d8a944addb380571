//! The environment of all benchmarks: a folder, the program, the caches and the clock.

use std::{
    cell::Cell,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use verimount_support::{command, newer::EROFS_UTILS_1_9_4, workspace};
use verimount_testenv::tools;

use crate::{cache, data::Sizes, mounts::Sealed};

/// A folder to measure in, and the options of the run.
#[derive(Debug)]
pub(crate) struct Lab {
    folder: tempfile::TempDir,
    verimount: PathBuf,
    /// The older program for comparison.
    older: Option<PathBuf>,
    chosen: Cell<Which>,
    /// The folder with the programs of the newest erofs-utils; `None` if they could not be fetched.
    erofs_utils: Option<PathBuf>,
    /// The number of rounds.
    pub(crate) rounds: usize,
    /// The amounts of data.
    pub(crate) sizes: Sizes,
}

/// The measured `verimount` program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// Built from this code.
    Today,
    /// Built before.
    Older,
}

/// The format of an image of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Erofs,
    Romfs,
}

impl Format {
    /// Its name in options and output.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Erofs => "erofs",
            Self::Romfs => "romfs",
        }
    }

    /// The name of a variant of a measurement: our mount of such an image.
    pub(crate) const fn ours(self) -> &'static str {
        match self {
            Self::Erofs => "verimount, erofs",
            Self::Romfs => "verimount, romfs",
        }
    }
}

/// The user who runs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// The user who runs the benchmark.
    Caller,
    /// An ordinary user; only root can select this.
    Nobody,
}

impl User {
    pub(crate) fn command(self, program: impl AsRef<Path>) -> Command {
        match self {
            Self::Caller => Command::new(program.as_ref()),
            Self::Nobody => {
                let mut setpriv = Command::new("setpriv");
                setpriv.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]);
                setpriv.arg(program.as_ref());
                setpriv
            }
        }
    }
}

impl Lab {
    /// Creates a folder in `parent`, which must have space for the data.
    pub(crate) fn new(
        parent: &Path,
        rounds: usize,
        sizes: Sizes,
        older: Option<&Path>,
    ) -> Result<Self> {
        ensure_free(parent, sizes.disk)?;
        let built = workspace::build_verimount()?;
        // Another user must be able to read here, and to run the program, which may be in a private home.
        let folder = tempfile::Builder::new()
            .prefix("verimount-bench-")
            .permissions(readable_by_all())
            .tempdir_in(parent)?;
        let copy = |program: &Path, name| {
            let copy = folder.path().join(name);
            fs::copy(program, &copy).with_context(|| format!("copying {}", program.display()))?;
            anyhow::Ok(copy)
        };
        let verimount = copy(&built, "verimount")?;
        let older = older.map(|older| copy(older, "verimount-before"));
        let erofs_utils = EROFS_UTILS_1_9_4.installed(&workspace::target()?);
        Ok(Self {
            verimount,
            older: older.transpose()?,
            erofs_utils: match erofs_utils {
                Ok(folder) => Some(folder),
                Err(error) => {
                    eprintln!("{error:#}\nWithout it, its rows are left out.");
                    None
                }
            },
            chosen: Cell::new(Which::Today),
            folder,
            rounds,
            sizes,
        })
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Checks that so many bytes of disk are left.
    pub(crate) fn ensure_free(&self, bytes: u64) -> Result<()> {
        ensure_free(self.folder.path(), bytes)
    }

    /// Creates a folder in the folder, which everybody can read. It is removed with its contents on drop.
    pub(crate) fn new_folder(&self) -> Result<tempfile::TempDir> {
        Ok(tempfile::Builder::new()
            .permissions(readable_by_all())
            .tempdir_in(self.folder.path())?)
    }

    /// Whether today's program is compared with an older one.
    pub(crate) fn has_older_program(&self) -> bool {
        self.older.is_some()
    }

    /// Runs `work` with each program.
    pub(crate) fn with_each_program(&self, work: impl Fn() -> Result<()>) -> Result<()> {
        if self.has_older_program() {
            self.choose(Which::Older);
            work()?;
            self.choose(Which::Today);
        }
        work()
    }

    /// Selects the program that [`Self::verimount`] runs from now on: the older one only if there is one.
    pub(crate) fn choose(&self, which: Which) {
        self.chosen.set(which);
    }

    /// Whether [`Self::verimount`] runs today's program: what is counted of the older one is in no table.
    pub(crate) fn is_today(&self) -> bool {
        self.chosen.get() == Which::Today
    }

    /// Whether caches can be dropped, the kernel's file systems mounted, and programs run as other users.
    pub(crate) fn is_root(&self) -> bool {
        rustix::process::geteuid().is_root()
    }

    /// The reason if [`Self::formats`] are not all there are.
    pub(crate) const OLDER_LACKS_EROFS: &str = "the older program does not know EROFS";

    /// The reason if [`Self::is_root`] returns false.
    pub(crate) const NEEDS_ROOT: &str = "needs root";

    /// A command with the selected program, run by `user`.
    pub(crate) fn verimount(&self, user: User) -> Command {
        let older = self.older.as_ref();
        let older = older.filter(|_| self.chosen.get() == Which::Older);
        user.command(older.unwrap_or(&self.verimount))
    }

    /// Seals `file` with a sidecar; returns its digest.
    pub(crate) fn seal(&self, file: &Path) -> Result<String> {
        first_word(self.verimount(User::Caller).arg("seal").arg(file))
    }

    /// The formats that both programs know.
    pub(crate) fn formats(&self) -> Result<Vec<Format>> {
        let mut formats = vec![Format::Romfs];
        let erofs = match &self.older {
            Some(older) => {
                let help = command::stdout(Command::new(older).args(["build", "--help"]))?;
                help.contains("--format")
            }
            None => true,
        };
        if erofs {
            formats.push(Format::Erofs);
        }
        Ok(formats)
    }

    /// A command that builds and seals an image of `tree`.
    pub(crate) fn build(&self, format: Format, tree: &Path, image: &Path) -> Command {
        let mut build = self.verimount(User::Caller);
        build.args(["build", "--format", format.name()]);
        build.arg(tree).arg(image);
        build
    }

    /// Builds an image of `tree` at `image`.
    pub(crate) fn image(&self, format: Format, tree: &Path, image: PathBuf) -> Result<Sealed> {
        Sealed::built(&mut self.build(format, tree, &image), image)
    }

    /// A program of the newest erofs-utils.
    pub(crate) fn erofs_utils(&self, program: &str) -> Option<PathBuf> {
        Some(self.erofs_utils.as_ref()?.join(program))
    }

    /// Drops all caches before a run that will fill at most this many bytes of page cache.
    pub(crate) fn make_cold(&self, bytes: u64) -> Result<()> {
        // A mounted file is cached twice: as the mount's file and as the image.
        cache::make_cold(2 * bytes + (256 << 20))
    }
}

fn ensure_free(folder: &Path, bytes: u64) -> Result<()> {
    let space =
        rustix::fs::statvfs(folder).with_context(|| format!("looking at {}", folder.display()))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    ensure!(
        free >= bytes,
        "{} has {} MiB free, and {} are needed; choose another folder with --dir",
        folder.display(),
        free >> 20,
        bytes >> 20,
    );
    Ok(())
}

fn readable_by_all() -> fs::Permissions {
    fs::Permissions::from_mode(0o755)
}

/// The first word that `command` prints.
pub(crate) fn first_word(command: &mut Command) -> Result<String> {
    let printed = command::stdout(command)?;
    let word = printed.split_whitespace().next();
    Ok(word
        .with_context(|| format!("`{}` printed nothing", command::describe(command)))?
        .into())
}

/// Whether a program is installed.
pub(crate) fn has(program: &str) -> bool {
    tools::locate(program).is_some()
}

/// Runs `command` without showing its output; returns its time in seconds.
pub(crate) fn seconds(command: &mut Command) -> Result<f64> {
    command.stdout(Stdio::null());
    let start = Instant::now();
    let status = command.status();
    let seconds = start.elapsed().as_secs_f64();
    command::check(command, status)?;
    Ok(seconds)
}

/// Runs `command` without showing its output; returns its peak memory in bytes. Needs the program `time`.
pub(crate) fn peak_memory(command: &Command) -> Result<u64> {
    let report = tempfile::NamedTempFile::new()?;
    let mut time = Command::new("time");
    time.args(["--quiet", "--format=%M", "--output"]);
    time.arg(report.path()).arg(command.get_program());
    command::run(time.args(command.get_args()).stdout(Stdio::null()))?;
    let kibibytes: u64 = fs::read_to_string(report.path())?.trim().parse()?;
    Ok(kibibytes << 10)
}

/// Runs `from | to`, as [`seconds`] does.
pub(crate) fn seconds_piped(from: &mut Command, to: &mut Command) -> Result<f64> {
    let start = Instant::now();
    let mut producer = from.stdout(Stdio::piped()).spawn()?;
    to.stdin(producer.stdout.take().context("a piped output")?)
        .stdout(Stdio::null());
    let consumed = to.status();
    let produced = producer.wait();
    let seconds = start.elapsed().as_secs_f64();
    command::check(from, produced)?;
    command::check(to, consumed)?;
    Ok(seconds)
}

/// Checks that `user` reads the same bytes from both files.
pub(crate) fn ensure_same_file(user: User, a: &Path, b: &Path) -> Result<()> {
    command::run(user.command("cmp").arg(a).arg(b))
}

/// Checks that both folders have the same files with the same bytes.
pub(crate) fn ensure_same_tree(a: &Path, b: &Path) -> Result<()> {
    command::run(
        Command::new("diff")
            .args(["-r", "--no-dereference"])
            .args([a, b]),
    )
}

/// Every file in `folder` with its size, sorted.
pub(crate) fn listing(folder: &Path) -> Result<Vec<String>> {
    let mut find = Command::new("find");
    sorted_lines(find.arg(folder).args(["-type", "f", "-printf", "%P %s\\n"]))
}

/// The lines that `command` prints, sorted.
pub(crate) fn sorted_lines(command: &mut Command) -> Result<Vec<String>> {
    let printed = command::stdout(command)?;
    let mut lines: Vec<String> = printed.lines().map(str::to_owned).collect();
    lines.sort();
    Ok(lines)
}

/// The type of the file system of `path`.
pub(crate) fn file_system(path: &Path) -> Result<String> {
    let mut findmnt = Command::new("findmnt");
    findmnt.args(["--noheadings", "--output=FSTYPE", "--target"]);
    let printed = command::stdout(findmnt.arg(path))?;
    // Of several mounts at the same place, the last one covers the others.
    let last = printed.lines().last();
    Ok(last.context("findmnt names no file system")?.to_owned())
}
