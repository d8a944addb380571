use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use rustix::thread::CapabilitySet;

use crate::{
    Held, Kind, capabilities,
    filter::{self, Needs},
    held::hold,
    landlock,
};

/// What may be done with a file, or with all files below a directory. This process itself never runs programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileRights {
    /// They are read.
    Read,
    /// Those that exist are read and written.
    Write,
    /// They are read, written, created, renamed and removed.
    Change,
    /// They are read, written, created, renamed and removed, and the kernel may open them with the rights of this
    /// process to run them for others, as it does with files that are passed through.
    Mirror,
}

/// The rights that a daemon keeps.
#[derive(Debug)]
#[must_use]
pub struct Sandbox {
    needs: Needs,
    files: BTreeMap<PathBuf, FileRights>,
    /// The capabilities that it keeps beyond those of its kind.
    further: CapabilitySet,
}

impl Sandbox {
    /// What every daemon of this kind needs, and nothing else.
    pub fn new(kind: Kind) -> Self {
        let files = [
            // Callers that were killed, the mount table, limits.
            ("/proc", FileRights::Read),
            ("/sys", FileRights::Read),
            // Each thread of a mount has a device of its own, which this makes.
            ("/dev/fuse", FileRights::Write),
            ("/dev/null", FileRights::Write),
        ];
        Self {
            needs: Needs {
                kind,
                network: false,
                io_uring: false,
                resident: false,
                native: false,
            },
            files: files.map(|(path, rights)| (path.into(), rights)).into(),
            further: CapabilitySet::empty(),
        }
    }

    /// Keeps a file, or a directory with all below it. What does not exist when the sandbox is entered is not kept.
    pub fn allow(&mut self, path: impl AsRef<Path>, rights: FileRights) {
        let kept = self.files.entry(path.as_ref().to_owned());
        let kept = kept.or_insert(rights);
        *kept = rights.max(*kept);
    }

    /// Keeps the network.
    pub fn allow_network(&mut self) {
        self.needs.network = true;
    }

    /// Keeps `io_uring`, which reaches more than the filter of system calls can see.
    pub fn allow_io_uring(&mut self) {
        self.needs.io_uring = true;
    }

    /// Keeps root's right to write files of others, of those that are kept to be written.
    pub fn allow_files_of_others(&mut self) {
        self.further |= capabilities::FILES_OF_OTHERS;
    }

    /// Keeps what files in memory take, at this path, that the kernel reads and runs for users: it has them registered, and
    /// sealed against writing.
    pub fn allow_resident(&mut self, path: impl AsRef<Path>) {
        self.allow(path, FileRights::Mirror);
        self.further |= capabilities::RESIDENT;
        self.needs.resident = true;
    }

    /// Keeps that questions are answered at a socket, as for an image that the kernel reads itself.
    pub fn allow_native(&mut self) {
        self.needs.native = true;
    }

    /// Gives up all other rights of the calling thread and of those that it starts from now on, as far as the kernel can. Returns
    /// what does not hold, with the reasons.
    pub fn enter(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let capabilities =
            capabilities::keep(self.needs.kind, self.further).unwrap_or_else(|error| {
                missing.push(format!("it keeps all capabilities: {error}"));
                capabilities::names()
            });
        let landlock = self.hold_files().unwrap_or_else(|reason| {
            missing.push(format!("files are open to it: {reason}"));
            0
        });
        // Last, as it takes the calls that the others make.
        let filtered = filter::enter(self.needs);
        if let Err(error) = &filtered {
            missing.push(format!("all system calls are open to it: {error}"));
        }
        hold(Held {
            landlock,
            files: landlock > 0,
            system_calls: filtered.is_ok(),
            network: self.needs.network,
            capabilities,
        });
        missing
    }

    /// Has Landlock hold files; returns its version, or why it does not.
    fn hold_files(&self) -> Result<u32, String> {
        let takes_files = landlock::takes_files(self.needs.kind);
        let files = takes_files.then_some(&self.files);
        match landlock::enter(files, self.needs.network) {
            Ok(_) if !takes_files => {
                Err("the Landlock of this kernel refuses files that bridges open".to_owned())
            }
            Ok(0) => Err("this kernel has no Landlock, or it is switched off".to_owned()),
            Ok(version) => Ok(version),
            Err(error) => Err(error.to_string()),
        }
    }
}
