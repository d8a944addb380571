mod kept;
mod loaders;
mod memory;
mod pressure;
mod sealing;
mod selected;

use std::{
    collections::HashSet,
    convert::Infallible,
    num::NonZeroUsize,
    ops::ControlFlow::{self, Break, Continue},
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread,
    time::{Duration, Instant},
};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use verimount_bridge::{OpenInodes, Register};
use verimount_fuse::{Backing, Connection, Handle, OpenFlags, Opened};
use verimount_sync::Mutex;
use verimount_tree::{Attr, NodeId, walk_readable};

use self::{
    kept::Kept,
    loaders::{LoadError, Loaders},
    memory::NewFile,
    pressure::Pressure,
};
use crate::{Registrar, VerifiedTree, handles::Handles};

pub use self::{
    memory::{ResidentError, ResidentMemory},
    selected::SelectedFiles,
};

/// The handle of files that are not selected, of which nothing is remembered.
const UNSELECTED: Handle = Handle(u64::MAX);

/// How many damaged files are remembered, which are not loaded again.
const MAX_DAMAGED: usize = 1 << 16;

/// How long the kernel may take to give back the memory of a file that it no longer has open.
const RELEASE: Duration = Duration::from_millis(10);

/// Keeps selected files of a tree in memory, whole and verified, and has the kernel read them there.
///
/// A file is loaded when it is first opened. All opens of it wait for that, in threads that answer the kernel: there must be
/// others for other requests.
pub struct Resident {
    tree: Arc<VerifiedTree>,
    memory: Arc<ResidentMemory>,
    selected: SelectedFiles,
    loaders: Loaders,
    registrar: Registrar,
    /// What the opens of an inode share: the loaded file, or that it is read lazily.
    inodes: OpenInodes<NodeId, Option<Arc<Backing>>>,
    opens: Handles<NodeId>,
    /// What the kernel has as backing files.
    kept: Mutex<Kept<Backing>>,
    /// Held while memory is made free for a file.
    making_room: Mutex<()>,
    damaged: Mutex<HashSet<NodeId>>,
    /// What tells when memory is short; the kernel's reason if nothing does.
    pressure: Result<Arc<Pressure>, Errno>,
    /// Memory was short, or the mount has ended: nothing more is loaded ahead.
    is_ahead_over: AtomicBool,
    counters: Counters,
}

#[derive(Default)]
struct Counters {
    loading: AtomicU64,
    loads: AtomicU64,
    evictions: AtomicU64,
    failures: AtomicU64,
    unfit: AtomicU64,
    has_told_unfit: AtomicBool,
}

/// The statistics of resident files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ResidentStatus {
    /// Files that are loaded.
    pub files: u64,
    /// The memory that is taken, in bytes, also by files that were given up and are still mapped.
    pub bytes: u64,
    /// The most that may be taken, in bytes.
    pub limit: u64,
    /// Files that are being loaded.
    pub loading: u64,
    /// Bytes of them that no thread has begun to read.
    pub loading_bytes: u64,
    /// Files that were loaded so far, each time.
    pub loads: u64,
    /// Files that were given up, for others or as memory was short.
    pub evictions: u64,
    /// Loads that failed, so that the file was read as it is needed.
    pub failures: u64,
    /// Opens of files for which there was no room.
    pub unfit: u64,
}

impl Resident {
    /// Keeps the selected files of `tree`, loaded by this many threads.
    pub fn new(
        tree: Arc<VerifiedTree>,
        memory: Arc<ResidentMemory>,
        selected: SelectedFiles,
        threads: NonZeroUsize,
    ) -> Arc<Self> {
        let trigger = memory.pressure.clone();
        let pressure = trigger.and_then(|trigger| Pressure::new(trigger).map(Arc::new));
        let resident = Arc::new(Self {
            pressure,
            loaders: Loaders::new(tree.clone(), threads),
            tree,
            memory,
            selected,
            registrar: Registrar::default(),
            inodes: OpenInodes::default(),
            opens: Handles::default(),
            kept: Mutex::default(),
            making_room: Mutex::default(),
            damaged: Mutex::default(),
            is_ahead_over: AtomicBool::new(false),
            counters: Counters::default(),
        });
        resident.give_back_under_pressure();
        resident
    }

    /// Gives up half of what nobody has open, the least recently used files first, whenever memory is short.
    fn give_back_under_pressure(self: &Arc<Self>) {
        let pressure = match &self.pressure {
            Ok(pressure) => pressure.clone(),
            Err(errno) => {
                tracing::warn!(
                    %errno,
                    "the kernel does not tell when memory is short: only the limit for resident files holds"
                );
                return;
            }
        };
        let resident = Arc::downgrade(self);
        let give_back = move || {
            while pressure.wait() {
                let Some(resident) = resident.upgrade() else {
                    return;
                };
                resident.is_ahead_over.store(true, Relaxed);
                let bytes = resident.kept.lock().unused_bytes();
                resident.evict(bytes / 2);
            }
        };
        let thread = thread::Builder::new().name("pressure".to_owned());
        // Without it, only the limit holds.
        let _ = thread.spawn(give_back);
    }

    /// Gives up files that nobody has open, at least this many bytes of them if there are as many. Whether it was any.
    fn evict(&self, bytes: u64) -> bool {
        let evicted = self.kept.lock().evict(bytes);
        let count = evicted.len() as u64;
        self.counters.evictions.fetch_add(count, Relaxed);
        count > 0
    }

    /// Begins to use the connection to the kernel.
    ///
    /// # Errors
    /// Those of registering a file.
    pub(crate) fn connect(&self, connection: Connection) -> Result<(), Errno> {
        self.registrar.connect(connection);
        let probe = self.memory.new_file()?.seal()?;
        self.registrar.register(probe.as_fd()).map(drop)
    }

    /// Loads the selected files in the background, in the order of the tree, as many as there is room for, until memory is short
    /// or the mount ends.
    pub fn load_ahead(self: &Arc<Self>) {
        let resident = Arc::downgrade(self);
        let load = move || {
            let Some(tree) = resident.upgrade().map(|resident| resident.tree.clone()) else {
                return;
            };
            // What cannot be found is told when it is needed.
            let _ = walk_readable(tree.inner(), |found| match (found, resident.upgrade()) {
                (_, None) => Break(()),
                (Ok((_, node)), Some(resident)) => resident.load_unopened(node),
                (Err(_), Some(resident)) => resident.goes_on(),
            });
        };
        let thread = thread::Builder::new().name("prefetch".to_owned());
        // Without it, files are loaded as they are opened.
        let _ = thread.spawn(load);
    }

    /// Loads a file ahead if it is selected and there is room for it. Breaks if nothing more is to be loaded ahead.
    fn load_unopened(&self, node: NodeId) -> ControlFlow<()> {
        self.goes_on()?;
        let attr = self.tree.inner().attr(node);
        let fits = |attr: &Attr| self.selected.contains(attr) && attr.size <= self.memory.free();
        if let Some(attr) = attr.ok().filter(fits) {
            // Failures are counted, and told.
            let _ = self.shared(node, attr.size);
            self.inodes.close(node);
        }
        Continue(())
    }

    fn goes_on(&self) -> ControlFlow<()> {
        if self.is_ahead_over.load(Relaxed) {
            Break(())
        } else {
            Continue(())
        }
    }

    /// Opens a file, which is loaded if it is selected and not loaded yet.
    ///
    /// # Errors
    /// Those of reading its attributes.
    pub(crate) fn open(&self, node: NodeId) -> Result<Opened, Errno> {
        let attr = self.tree.plain_attr(node)?;
        let lazily = OpenFlags::NOFLUSH | OpenFlags::KEEP_CACHE;
        if !self.selected.contains(&attr) {
            return Ok(Opened {
                handle: UNSELECTED,
                flags: lazily,
                backing: 0,
            });
        }
        let loaded = self.shared(node, attr.size);
        let (flags, backing) = match &loaded {
            Some(file) => {
                let flags = OpenFlags::NOFLUSH | OpenFlags::PASSTHROUGH;
                (flags, file.id())
            }
            None => (lazily, 0),
        };
        Ok(Opened {
            handle: self.opens.insert(node),
            flags,
            backing,
        })
    }

    /// The kernel has closed a file.
    pub(crate) fn release(&self, handle: Handle) {
        if let Some(node) = self.opens.remove(handle) {
            self.inodes.close(*node);
            self.kept.lock().used(*node);
        }
    }

    /// Gives up what is being loaded, as the mount has ended.
    pub(crate) fn end(&self) {
        self.is_ahead_over.store(true, Relaxed);
        self.loaders.end();
        if let Ok(pressure) = &self.pressure {
            pressure.end();
        }
    }

    /// What the opens of a file share, of which there is one more now.
    fn shared(&self, node: NodeId, size: u64) -> Option<Arc<Backing>> {
        let Ok(loaded) = self.inodes.open(node, |shared| {
            let find = || self.kept.lock().used(node);
            let decide = || find().or_else(|| self.load(node, size));
            Ok::<_, Infallible>(shared.get_or_insert_with(decide).clone())
        });
        loaded
    }

    /// Loads a file; `None` if it has to be read lazily, which was told.
    fn load(&self, node: NodeId, size: u64) -> Option<Arc<Backing>> {
        if self.damaged.lock().contains(&node) {
            return None;
        }
        let file = self.memory.new_file();
        let file = file.and_then(|file| self.make_room(&file, size).map(|()| file));
        let loaded = match file {
            Ok(file) => {
                self.counters.loading.fetch_add(1, Relaxed);
                let loaded = self.loaders.load(node, size, file);
                self.counters.loading.fetch_sub(1, Relaxed);
                loaded
            }
            Err(Errno::NOSPC) => {
                self.tell_unfit(node, size);
                return None;
            }
            Err(errno) => Err(LoadError::Failed(errno)),
        };
        let backing = loaded.and_then(|sealed| {
            let backing = self.registrar.register(sealed.as_fd());
            backing.map_err(LoadError::Failed)
        });
        match backing {
            Ok(backing) => {
                let backing = Arc::new(backing);
                let taken = ResidentMemory::taken_by(size);
                self.counters.loads.fetch_add(1, Relaxed);
                self.kept.lock().insert(node, backing.clone(), taken);
                Some(backing)
            }
            Err(error) => {
                self.failed(node, error);
                None
            }
        }
    }

    fn failed(&self, node: NodeId, error: LoadError) {
        self.counters.failures.fetch_add(1, Relaxed);
        match error {
            LoadError::Damaged => {
                let mut damaged = self.damaged.lock();
                if damaged.len() < MAX_DAMAGED {
                    damaged.insert(node);
                }
            }
            LoadError::Failed(errno) => {
                let file = self.tree.shown_name(node);
                tracing::warn!(%errno, file, "the file was not loaded, and is read as it is needed");
            }
            LoadError::Ended => {}
        }
    }

    fn tell_unfit(&self, node: NodeId, size: u64) {
        self.counters.unfit.fetch_add(1, Relaxed);
        if !self.counters.has_told_unfit.swap(true, SeqCst) {
            let limit = self.memory.limit;
            tracing::warn!(
                size,
                limit,
                file = self.tree.shown_name(node),
                "there is no room for the file, which is read as it is needed; further ones are only counted",
            );
        }
    }

    /// Takes memory for a file, and gives up others that nobody has open as far as necessary.
    ///
    /// # Errors
    /// `ENOSPC` if there is not enough.
    fn make_room(&self, file: &NewFile, size: u64) -> Result<(), Errno> {
        let taken = ResidentMemory::taken_by(size);
        if taken > self.memory.limit {
            return Err(Errno::NOSPC);
        }
        let reserve = || {
            if self.memory.free() < taken {
                Err(Errno::NOSPC)
            } else {
                file.reserve(size)
            }
        };
        // It takes long for a large file. Meanwhile others get what is free, too.
        let mut reserved = reserve();
        if reserved == Err(Errno::NOSPC) {
            let _one_at_a_time = self.making_room.lock();
            reserved = reserve();
            while reserved == Err(Errno::NOSPC) && self.give_up_for(taken) {
                reserved = reserve();
            }
        }
        reserved
    }

    /// Gives up files that nobody has open, for one that takes this many bytes. Whether more is free now.
    fn give_up_for(&self, taken: u64) -> bool {
        let before = self.memory.free();
        // What keeps account of the file itself may be missing, too.
        let wanted = taken.max(before + 1);
        let missing = wanted - before;
        if self.kept.lock().unused_bytes() < missing || !self.evict(missing) {
            return false;
        }
        // It stays as it is if they are still mapped, as the next ones may be, too.
        let since = Instant::now();
        while self.memory.free() < wanted && since.elapsed() < RELEASE {
            thread::sleep(RELEASE / 10);
        }
        self.memory.free() > before
    }

    /// The statistics.
    pub(crate) fn status(&self) -> ResidentStatus {
        let counters = &self.counters;
        ResidentStatus {
            files: self.kept.lock().len() as u64,
            bytes: self.memory.limit.saturating_sub(self.memory.free()),
            limit: self.memory.limit,
            loading: counters.loading.load(Relaxed),
            loading_bytes: self.loaders.left(),
            loads: counters.loads.load(Relaxed),
            evictions: counters.evictions.load(Relaxed),
            failures: counters.failures.load(Relaxed),
            unfit: counters.unfit.load(Relaxed),
        }
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.end();
    }
}
