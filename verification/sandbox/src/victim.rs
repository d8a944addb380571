//! A process and files that a daemon has nothing to do with, though they belong to its user.

use std::{
    fmt::Write,
    fs,
    os::unix::fs::{MetadataExt, chown, symlink},
    process::{Child, Command, Stdio},
};

use libc::AT_FDCWD;
use tempfile::TempDir;

use crate::{
    daemon::{NOBODY, User},
    thread::{
        Argument::{Bytes, Number, Text, Zeros},
        Stopped,
    },
};

/// What belongs to the user of a daemon. The process ends when this is dropped.
pub struct Victim {
    process: Child,
    folder: TempDir,
    /// Paths: a file, a directory, a symbolic link, and what does not exist.
    pub(crate) file: String,
    pub(crate) directory: String,
    pub(crate) link: String,
    pub(crate) new: String,
    /// `struct file_handle` of the file, if its file system has handles.
    pub(crate) handle: Option<Vec<u8>>,
}

impl Victim {
    /// A process and files of `user`.
    ///
    /// # Panics
    /// If they cannot be made.
    pub fn new(user: User) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let [file, directory, link, new] = ["file", "directory", "link", "new"].map(path);
        fs::write(&file, "not to be touched").unwrap();
        fs::create_dir(&directory).unwrap();
        symlink("file", &link).unwrap();
        if user == User::Nobody {
            for path in [folder.path().to_str().unwrap(), &file, &directory] {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        // It waits for what never comes.
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        user.becomes(&mut command);
        let process = command.spawn().unwrap();
        let mut victim = Self {
            process,
            folder,
            file,
            directory,
            link,
            new,
            handle: None,
        };
        victim.handle = victim.handle_of_file();
        victim
    }

    /// The id of its process.
    pub fn id(&self) -> i32 {
        self.process.id().cast_signed()
    }

    /// The calls that cannot be tried with it: by handles, where its file system has none.
    pub fn untried(&self) -> &'static [&'static str] {
        if self.handle.is_some() {
            &[]
        } else {
            &["SYS_open_by_handle_at"]
        }
    }

    /// What the kernel gives the process itself as the handle of its file.
    fn handle_of_file(&self) -> Option<Vec<u8>> {
        verimount_testkit::eventually("it waits", || {
            let state = fs::read_to_string(format!("/proc/{}/syscall", self.id()));
            state.is_ok_and(|state| state.starts_with("0 "))
        });
        let room = [128, 0, 0, 0];
        let process = Stopped::new(self.id());
        let result = process.call(
            libc::SYS_name_to_handle_at,
            [
                Number(AT_FDCWD.into()),
                Text(&self.file),
                Bytes(&room),
                Zeros,
                Number(0),
                Number(0),
            ],
        );
        result.is_ok().then(|| process.placed_bytes(2))
    }

    /// What could be done to them, and has been.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn state(&self) -> String {
        let process =
            |name: &str| fs::read_to_string(format!("/proc/{}/{name}", self.id())).unwrap();
        let (status, stat) = (process("status"), process("stat"));
        let mut state = process("limits") + &process("oom_score_adj");
        let lines = status.lines();
        state.extend(lines.filter(|line| line.starts_with("Cpus_allowed") || line.contains("Cap")));
        // Those behind its name: the 3rd says whether it lives, the 5th is its group, the others are priorities and what they are of.
        let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let field = |number: usize| fields[number - 3];
        state += if field(3) == "Z" { " ended" } else { " lives" };
        for number in [5, 18, 19, 40, 41] {
            write!(state, " {}", field(number)).unwrap();
        }
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            let found = fs::symlink_metadata(&path).unwrap();
            let content = fs::read_to_string(&path).unwrap_or_default();
            let (mode, owner, links) = (found.mode(), found.uid(), found.nlink());
            let changed = (found.mtime_nsec(), found.ctime_nsec());
            write!(
                state,
                "\n{path:?} {mode:o} {owner} {links} {changed:?} {content}"
            )
            .unwrap();
        }
        state
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
