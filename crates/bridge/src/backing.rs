//! Which opens are passed through, and with which backing file.
//!
//! The kernel fails an open with `EIO` if the inode is open both passed through and cached, or with
//! two backing ids. So each inode has one serving mode at a time: the first open decides it, and
//! further opens use it until the last is closed.
//!
//! An append-only file is relayed, and can be mapped by nobody: a store to a shared mapping would overwrite
//! it. For the kernel it has a backing file that cannot be mapped, which is used for nothing else.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, OnceLock},
};

use rustix::{
    fs::{OFlags, open},
    io::Errno,
};

use verimount_names::named;

use crate::{
    NodeId, OpenInodes,
    counters::BridgeStatus,
    kept::{KeepsFile, KeptFiles},
};

/// Registers backing files with the kernel, which then reads and writes them directly.
pub trait Register: Send + Sync {
    /// A registered backing file. Dropping it undoes the registration.
    type Id: Send + Sync + 'static;

    /// Registers a file, which may be open with `O_PATH` only. The kernel will read and write it
    /// with the present rights of this thread, whatever the flags of the descriptor.
    ///
    /// # Errors
    /// `EPERM` if it is not permitted or the mount did not negotiate it, `ELOOP` if the file's file
    /// system is itself stacked too deeply, and any other.
    fn register(&self, file: BorrowedFd<'_>) -> Result<Self::Id, Errno>;
}

named! {
    /// Whether the bridge may pass files through. The names are those on the command line.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum Passthrough {
        /// As the policy decides, if the kernel can.
        #[default]
        Auto = "auto",
        /// It relays all files.
        Never = "never",
        /// As the policy decides; opens fail if the kernel cannot.
        Require = "require",
    }
}

/// How the kernel is to serve the opens of an inode.
#[derive(Clone)]
pub enum Serving<Id> {
    /// By reading and writing this backing file.
    Passthrough(Id),
    /// By requests.
    Relay,
    /// By requests, and without its cache. Whoever maps the file gets this backing file instead, if there is
    /// one, which cannot be mapped.
    AppendOnly(Option<Id>),
}

/// The preferred serving mode of an open.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'a> {
    Passthrough {
        file: BorrowedFd<'a>,
        /// `file`, opened with `O_PATH`, if its backing file may be kept while it is not open. A descriptor that is
        /// open for writing would prevent the file from being executed.
        keep: Option<&'a Arc<OwnedFd>>,
    },
    Relay,
    /// The file can only be appended to.
    AppendOnly {
        is_writable: bool,
    },
}

/// The open inodes with their serving modes, and idle backing files of closed ones.
pub(crate) struct BackingTable<R: Register> {
    register: R,
    passthrough: Passthrough,
    /// A backing file that cannot be mapped, if the kernel can have one.
    unmappable: OnceLock<Option<Arc<R::Id>>>,
    /// The kernel's error when it refused to pass files through. It is not asked again.
    refusal: OnceLock<Errno>,
    inodes: OpenInodes<NodeId, Settled<R::Id>>,
    /// Backing files of closed inodes, kept for their next open.
    idle: Arc<KeptFiles<Idle<R::Id>>>,
    counters: Arc<BridgeStatus>,
}

/// The serving mode of an inode until its last open is closed.
struct Settled<Id> {
    mode: Serving<Arc<Id>>,
    /// The `O_PATH` descriptor with which its backing file is kept after that, if it is.
    keep: Option<Arc<OwnedFd>>,
}

/// An idle backing file. The `O_PATH` descriptor shows whether the file was removed.
type Idle<Id> = (Arc<Id>, Arc<OwnedFd>);

impl<Id: Send + Sync + 'static> KeepsFile for Idle<Id> {
    fn file(&self) -> BorrowedFd<'_> {
        self.1.as_fd()
    }
}

impl<R: Register> BackingTable<R> {
    pub(crate) fn new(register: R, passthrough: Passthrough, counters: Arc<BridgeStatus>) -> Self {
        Self {
            register,
            passthrough,
            unmappable: OnceLock::new(),
            refusal: OnceLock::new(),
            inodes: OpenInodes::default(),
            idle: Arc::new(KeptFiles::new()),
            counters,
        }
    }

    /// Finds out whether the kernel passes files through for this process, using any file.
    pub(crate) fn probe(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.passthrough == Passthrough::Never {
            return Ok(());
        }
        match (self.register.register(file), self.passthrough) {
            (Err(errno), Passthrough::Require) if is_final(errno) => Err(errno),
            (Err(errno), _) if is_final(errno) => {
                let _ = self.refusal.set(errno);
                Ok(())
            }
            // Any other error concerns this file only.
            _ => Ok(()),
        }
    }

    /// Whether files are passed through, as far as known.
    pub(crate) fn passes_through(&self) -> bool {
        self.passthrough != Passthrough::Never && self.refusal.get().is_none()
    }

    /// Whether to try to pass a file through.
    pub(crate) fn can_pass_through(&self) -> bool {
        if self.refusal.get().is_some() {
            self.counters.passthrough.fallbacks.add(1);
        }
        self.passes_through()
    }

    /// The error after which no file is passed through any more.
    pub(crate) fn refusal(&self) -> Option<Errno> {
        self.refusal.get().copied()
    }

    /// Number of idle backing files.
    pub(crate) fn idle(&self) -> usize {
        self.idle.len()
    }

    /// Decides the serving mode of an open, which counts as open until the result is dropped.
    ///
    /// # Errors
    /// `EBUSY` if it would write to a file that became append-only while it was open: the others may map it.
    /// Those of registering, if passthrough is required.
    pub(crate) fn open(
        self: &Arc<Self>,
        node: NodeId,
        wanted: Wanted<'_>,
    ) -> Result<ServedOpen<R>, Errno> {
        // Dropped and so closed on every path.
        let mut served = ServedOpen {
            node,
            mode: Serving::Relay,
            table: Arc::clone(self),
        };
        served.mode = self.inodes.open(node, |settled| {
            let settled = match settled {
                Some(settled) => {
                    match (&settled.mode, wanted) {
                        (Serving::Passthrough(_), Wanted::Passthrough { .. }) => {
                            self.counters.passthrough.reused.add(1);
                        }
                        (Serving::Relay, Wanted::Relay) | (Serving::AppendOnly(_), _) => {}
                        (_, Wanted::AppendOnly { is_writable: true }) => return Err(Errno::BUSY),
                        _ => self.counters.opens.followed.add(1),
                    }
                    settled
                }
                unsettled => unsettled.insert(self.settle(node, wanted)?),
            };
            Ok(settled.mode.clone())
        })?;
        if served.is_passed_through() {
            self.counters.passthrough.open.add(1);
        }
        Ok(served)
    }

    fn settle(&self, node: NodeId, wanted: Wanted<'_>) -> Result<Settled<R::Id>, Errno> {
        let relayed = |mode| Settled { mode, keep: None };
        let (file, keep) = match wanted {
            Wanted::Passthrough { file, keep } => (file, keep),
            Wanted::Relay => return Ok(relayed(Serving::Relay)),
            Wanted::AppendOnly { .. } => {
                self.idle.remove(node);
                return Ok(relayed(Serving::AppendOnly(self.unmappable())));
            }
        };
        if let Some((id, path)) = self.idle.remove(node) {
            self.counters.passthrough.reused.add(1);
            let (mode, keep) = (Serving::Passthrough(id), Some(path));
            return Ok(Settled { mode, keep });
        }
        match self.register.register(file) {
            Ok(id) => {
                self.counters.passthrough.registered.add(1);
                let (mode, keep) = (Serving::Passthrough(Arc::new(id)), keep.map(Arc::clone));
                Ok(Settled { mode, keep })
            }
            Err(errno) if self.passthrough == Passthrough::Require => Err(errno),
            Err(errno) => {
                self.fall_back(errno);
                Ok(relayed(Serving::Relay))
            }
        }
    }

    /// A backing file that cannot be mapped: one that stands for a namespace of this process.
    fn unmappable(&self) -> Option<Arc<R::Id>> {
        let register = || {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let file = open(c"/proc/self/ns/uts", flags, rustix::fs::Mode::empty());
            self.register
                .register(file.ok()?.as_fd())
                .ok()
                .map(Arc::new)
        };
        self.unmappable.get_or_init(register).clone()
    }

    /// Records that the kernel refused a file.
    fn fall_back(&self, errno: Errno) {
        self.counters.passthrough.fallbacks.add(1);
        if is_final(errno) && self.refusal.set(errno).is_ok() {
            tracing::warn!(%errno, "the kernel does not pass files through: all are relayed");
        }
    }

    /// Removes an idle backing file.
    pub(crate) fn forget(&self, node: NodeId) {
        self.idle.remove(node);
    }

    fn close(&self, node: NodeId) {
        // Undoing a registration is I/O, which is under no lock here.
        if let Some(Settled {
            mode: Serving::Passthrough(id),
            keep: Some(path),
        }) = self.inodes.close(node)
        {
            self.idle.insert(node, (id, path));
        }
    }
}

/// Whether the kernel's error concerns the whole mount. Any other may concern only this file, or be
/// temporary.
fn is_final(errno: Errno) -> bool {
    [Errno::PERM, Errno::LOOP, Errno::NOTTY, Errno::NOSYS].contains(&errno)
}

/// An open with the serving mode of its inode. Drop it when the kernel has released the file.
pub(crate) struct ServedOpen<R: Register> {
    node: NodeId,
    mode: Serving<Arc<R::Id>>,
    table: Arc<BackingTable<R>>,
}

impl<R: Register> ServedOpen<R> {
    /// How the kernel is to serve it.
    pub(crate) fn serving(&self) -> Serving<&R::Id> {
        match &self.mode {
            Serving::Passthrough(id) => Serving::Passthrough(&**id),
            Serving::Relay => Serving::Relay,
            Serving::AppendOnly(id) => Serving::AppendOnly(id.as_deref()),
        }
    }

    /// Whether it is passed through.
    pub(crate) fn is_passed_through(&self) -> bool {
        matches!(self.mode, Serving::Passthrough(_))
    }
}

impl<R: Register> Drop for ServedOpen<R> {
    fn drop(&mut self) {
        if self.is_passed_through() {
            self.table.counters.passthrough.open.subtract(1);
        }
        self.table.close(self.node);
    }
}
