//! Which opens are passed through, and by which backing file.
//!
//! The kernel answers `EIO`, and says nothing more, where an inode is open both passed through and
//! cached, or by two backing ids. So it is settled here, for each inode by itself: the first open
//! says how, and those that follow do as it does until the last is closed.

use std::{
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use rustix::io::Errno;

use crate::{
    NodeId,
    counters::Counters,
    kept::{KeepsFile, KeptFiles},
};

/// Number of parts that are locked one by one.
const SHARDS: usize = 16;

/// Registers files with the kernel, for it to read and write them by itself.
pub trait Register: Send + Sync {
    /// What the kernel knows a backing file by. Dropping it takes the file back.
    type Id: Send + Sync + 'static;

    /// Registers a file, which may be open as a path only. The kernel will read and write it with
    /// the rights that this thread has now, whatever the descriptor was opened for.
    ///
    /// # Errors
    /// `EPERM` if that may not be or the mount was not made for it, `ELOOP` if the file's file
    /// system is itself stacked too high, and any.
    fn register(&self, file: BorrowedFd<'_>) -> Result<Self::Id, Errno>;
}

/// Whether files are to be passed through at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passthrough {
    /// No file is.
    Never,
    /// Whatever the policy says, if the kernel can.
    Auto,
    /// Whatever the policy says; opens fail if the kernel cannot.
    Require,
}

/// How an inode's opens are served.
pub(crate) enum Mode<Id> {
    /// By the kernel, from this backing file.
    Passthrough(Arc<Id>),
    /// By this process.
    Relay,
}

/// What is to be served, and how it would best be.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'a> {
    Passthrough {
        file: BorrowedFd<'a>,
        /// The same file as a path, if it may be kept when nobody has the file open. One that is
        /// open for writing would keep others from running the file.
        keep: Option<&'a Arc<OwnedFd>>,
    },
    Relay,
}

/// The inodes that are open, how each is served, and backing files for some that were.
pub(crate) struct BackingTable<R: Register> {
    register: R,
    passthrough: Passthrough,
    /// What the kernel said when it refused to pass files through. It is not asked again.
    refusal: OnceLock<Errno>,
    shards: [Mutex<HashMap<NodeId, Inode<R::Id>>>; SHARDS],
    /// Backing files of inodes that are not open any more, for their next open.
    idle: Arc<KeptFiles<Idle<R::Id>>>,
    counters: Arc<Counters>,
}

/// An inode that is open or is being opened.
struct Inode<Id> {
    opens: usize,
    settled: Arc<Mutex<Option<Settled<Id>>>>,
}

impl<Id> Default for Inode<Id> {
    fn default() -> Self {
        Self {
            opens: 0,
            settled: Arc::default(),
        }
    }
}

/// How an inode is served until its last open is closed.
struct Settled<Id> {
    mode: Mode<Id>,
    /// By which path its backing file is kept after that, if it is.
    keep: Option<Arc<OwnedFd>>,
}

/// A backing file that is kept. The path tells what becomes of the file.
struct Idle<Id> {
    id: Arc<Id>,
    path: Arc<OwnedFd>,
}

impl<Id> Clone for Idle<Id> {
    fn clone(&self) -> Self {
        let (id, path) = (Arc::clone(&self.id), Arc::clone(&self.path));
        Self { id, path }
    }
}

impl<Id: Send + Sync + 'static> KeepsFile for Idle<Id> {
    fn file(&self) -> BorrowedFd<'_> {
        self.path.as_fd()
    }
}

impl<R: Register> BackingTable<R> {
    pub(crate) fn new(register: R, passthrough: Passthrough, counters: Arc<Counters>) -> Self {
        Self {
            register,
            passthrough,
            refusal: OnceLock::new(),
            shards: Default::default(),
            idle: Arc::new(KeptFiles::new()),
            counters,
        }
    }

    /// Finds out, with any file, whether the kernel passes files through for this process.
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
            // Whatever else it says is about the file.
            _ => Ok(()),
        }
    }

    /// Whether files are passed through, as far as is known.
    pub(crate) fn passes_through(&self) -> bool {
        self.passthrough != Passthrough::Never && self.refusal.get().is_none()
    }

    /// Whether there is a point in having a file passed through.
    pub(crate) fn can_pass_through(&self) -> bool {
        if self.refusal.get().is_some() {
            self.counters.fallbacks.add(1);
        }
        self.passes_through()
    }

    /// Why no file is passed through any more, if so.
    pub(crate) fn refusal(&self) -> Option<Errno> {
        self.refusal.get().copied()
    }

    /// How many backing files are kept that nobody has open.
    pub(crate) fn idle(&self) -> usize {
        self.idle.len()
    }

    /// Settles how an open is served. It counts as open until what is returned is dropped.
    pub(crate) fn open(
        self: &Arc<Self>,
        node: NodeId,
        wanted: Wanted<'_>,
    ) -> Result<ServedOpen<R>, Errno> {
        let settled = {
            let mut shard = self.shard(node);
            let inode = shard.entry(node).or_default();
            inode.opens += 1;
            Arc::clone(&inode.settled)
        };
        // Whatever comes of it, it is closed in the end.
        let mut open = ServedOpen {
            node,
            mode: Mode::Relay,
            table: Arc::clone(self),
        };
        // Others that open this inode wait for what comes of it, and nobody else.
        let mut settled = settled.lock().unwrap_or_else(PoisonError::into_inner);
        let settled = match &mut *settled {
            Some(settled) => {
                match (&settled.mode, wanted) {
                    (Mode::Passthrough(_), Wanted::Passthrough { .. }) => {
                        self.counters.reused.add(1);
                    }
                    (Mode::Relay, Wanted::Relay) => {}
                    _ => self.counters.followed.add(1),
                }
                settled
            }
            unsettled => unsettled.insert(self.settle(node, wanted)?),
        };
        if let Mode::Passthrough(id) = &settled.mode {
            open.mode = Mode::Passthrough(Arc::clone(id));
            self.counters.passthrough_open.add(1);
        }
        Ok(open)
    }

    fn settle(&self, node: NodeId, wanted: Wanted<'_>) -> Result<Settled<R::Id>, Errno> {
        let relay = Settled {
            mode: Mode::Relay,
            keep: None,
        };
        let Wanted::Passthrough { file, keep } = wanted else {
            return Ok(relay);
        };
        if let Some(Idle { id, path }) = self.idle.remove(node) {
            self.counters.reused.add(1);
            let (mode, keep) = (Mode::Passthrough(id), Some(path));
            return Ok(Settled { mode, keep });
        }
        match self.register.register(file) {
            Ok(id) => {
                self.counters.registered.add(1);
                let (mode, keep) = (Mode::Passthrough(Arc::new(id)), keep.map(Arc::clone));
                Ok(Settled { mode, keep })
            }
            Err(errno) if self.passthrough == Passthrough::Require => Err(errno),
            Err(errno) => {
                self.fall_back(errno);
                Ok(relay)
            }
        }
    }

    /// Notes that the kernel would not take a file.
    fn fall_back(&self, errno: Errno) {
        self.counters.fallbacks.add(1);
        if is_final(errno) && self.refusal.set(errno).is_ok() {
            tracing::warn!(%errno, "the kernel does not pass files through: all are relayed");
        }
    }

    /// Forgets a backing file that was kept for the next open.
    pub(crate) fn forget(&self, node: NodeId) {
        self.idle.remove(node);
    }

    fn close(&self, node: NodeId) {
        let mut shard = self.shard(node);
        let Some(inode) = shard.get_mut(&node) else {
            return;
        };
        inode.opens -= 1;
        if inode.opens > 0 {
            return;
        }
        let inode = shard.remove(&node);
        // Taking a backing file back is I/O.
        drop(shard);
        let settled = inode.and_then(|inode| Arc::into_inner(inode.settled));
        let settled = settled.and_then(|settled| settled.into_inner().ok().flatten());
        if let Some(Settled {
            mode: Mode::Passthrough(id),
            keep: Some(path),
        }) = settled
        {
            self.idle.insert(node, Idle { id, path });
        }
    }

    fn shard(&self, node: NodeId) -> MutexGuard<'_, HashMap<NodeId, Inode<R::Id>>> {
        let shard = self.shards[node.spread(SHARDS)].lock();
        shard.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether what the kernel says of a file holds for the whole mount; anything else may be about this
/// file, or this moment.
fn is_final(errno: Errno) -> bool {
    [Errno::PERM, Errno::LOOP, Errno::NOTTY, Errno::NOSYS].contains(&errno)
}

/// An open that is served in the way of its inode. To be dropped when the kernel has released it.
pub(crate) struct ServedOpen<R: Register> {
    node: NodeId,
    mode: Mode<R::Id>,
    table: Arc<BackingTable<R>>,
}

impl<R: Register> ServedOpen<R> {
    /// The backing file, if it is passed through.
    pub(crate) fn backing(&self) -> Option<&R::Id> {
        match &self.mode {
            Mode::Passthrough(id) => Some(id),
            Mode::Relay => None,
        }
    }
}

impl<R: Register> Drop for ServedOpen<R> {
    fn drop(&mut self) {
        if let Mode::Passthrough(_) = self.mode {
            self.table.counters.passthrough_open.subtract(1);
        }
        self.table.close(self.node);
    }
}
