mod open_files;
mod operations;
mod policy_file;

use std::{
    io,
    num::NonZeroUsize,
    os::fd::BorrowedFd,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{FileType, Mode},
    io::Errno,
};
use verimount_bridge::{
    self as bridge, Audit, Bridge, BridgeStatus, BridgedFile, Mirror, OpenFile, Passthrough,
    Register, Serving, policy::Policy,
};
use verimount_fuse::{
    Answering, Attr, Backing, Capabilities, Connection, Entry, Generation, Node, NodeId, OpenFlags,
    Opened, SessionOptions,
};
use verimount_mount::Mountable;

use self::open_files::{OpenFiles, OpenFor};
pub use self::policy_file::PolicyFile;
use crate::{
    CachePolicy, Kind, Served, Status,
    errno::errno,
    handles::Handles,
    limits::session,
    listings::Listings,
    unchanged::{LastSeen, Pages, Stamp},
};

/// How many threads answer on each processor through io_uring: several, so that one that waits for
/// storage does not block others.
const THREADS_PER_PROCESSOR: NonZeroUsize = NonZeroUsize::new(4).unwrap();

/// The capabilities that are requested for every bridge.
const CAPABILITIES: Capabilities = Capabilities::ATOMIC_O_TRUNC
    .union(Capabilities::ASYNC_DIO)
    .union(Capabilities::DO_READDIRPLUS)
    .union(Capabilities::READDIRPLUS_AUTO)
    .union(Capabilities::PARALLEL_DIROPS)
    .union(Capabilities::NO_OPENDIR_SUPPORT)
    // A default access control list replaces the umask, so the source's file system must apply it.
    .union(Capabilities::POSIX_ACL)
    .union(Capabilities::DONT_MASK)
    .union(Capabilities::HANDLE_KILLPRIV_V2)
    .union(Capabilities::DIRECT_IO_ALLOW_MMAP)
    // Files get their numbers when they are looked up.
    .union(Capabilities::NO_EXPORT_SUPPORT);

/// Registers files with the kernel, once there is a connection to it.
#[derive(Clone, Default)]
pub struct Registrar(Arc<OnceLock<Connection>>);

impl Registrar {
    /// Uses this connection from now on.
    pub(crate) fn connect(&self, connection: Connection) {
        // There is only one.
        let _ = self.0.set(connection);
    }
}

impl Register for Registrar {
    type Id = Backing;

    fn register(&self, file: BorrowedFd<'_>) -> Result<Backing, Errno> {
        let connection = self.0.get().ok_or(Errno::PERM)?;
        connection.register(file).map_err(|error| errno(&error))
    }
}

/// How a bridge is served.
#[derive(Clone)]
pub struct BridgeOptions {
    /// How long the kernel may cache names, attributes and content.
    pub cache: CachePolicy,
    /// Whether files are to be passed through.
    pub passthrough: Passthrough,
    /// Whether other users may use the mount, so that no user's requests may block another's.
    pub is_shared: bool,
    /// Whether the mount has no extended attributes, which saves the kernel's requests for them.
    pub no_xattr: bool,
    /// Where decisions are recorded.
    pub audit: Option<Audit>,
}

/// The adapter between FUSE and a [`Bridge`].
pub struct BridgeFs {
    bridge: Bridge<Registrar>,
    registrar: Registrar,
    options: BridgeOptions,
    served: Served,
    policy_file: Option<PolicyFile>,
    generation: Generation,
    files: Handles<Open>,
    open_files: Arc<OpenFiles>,
    listings: Listings,
    last_seen: LastSeen,
}

/// An open file.
struct Open {
    file: BridgedFile<Registrar>,
    /// What the kernel does with cached pages when it gets the answer to the open.
    pages: Pages,
    _counted: OpenFor,
}

impl BridgeFs {
    /// Serves `mirror`, which `served` describes and whose opens are decided by `policy`, from `policy_file`.
    pub fn new(
        mirror: Mirror,
        policy: Policy,
        policy_file: Option<PolicyFile>,
        mut options: BridgeOptions,
        served: Served,
    ) -> Self {
        let registrar = Registrar::default();
        let bridge = Bridge::new(mirror, policy, options.passthrough, registrar.clone());
        Self {
            bridge: bridge.with_audit(options.audit.take()),
            registrar,
            options,
            served,
            policy_file,
            generation: Generation::random(),
            files: Handles::default(),
            open_files: OpenFiles::new(bridge::max_open_files()),
            listings: Listings::default(),
            last_seen: LastSeen::default(),
        }
    }

    /// The served bridge.
    pub fn bridge(&self) -> &Bridge<Registrar> {
        &self.bridge
    }

    /// Replaces the policy by the one that was read from its file again. If that failed, for this reason,
    /// the old one stays in force.
    pub fn reload(&self, read: Result<Policy, &str>) {
        let file = self.policy_file.as_ref();
        match read {
            Ok(policy) => {
                self.bridge.set_policy(policy);
                file.iter().for_each(|file| file.reloaded());
            }
            Err(reason) => file.iter().for_each(|file| file.failed(reason)),
        }
    }

    /// Its status. The requests are those that reach the bridge: reads and writes that are passed through
    /// do not.
    fn status(&self) -> Status {
        let bridge = BridgeStatus {
            policy: self.policy_file.as_ref().map(PolicyFile::status),
            ..self.bridge.status()
        };
        let (opens, relayed) = (&bridge.opens, &bridge.relayed);
        let requests = [
            ("open", opens.passthrough.get() + opens.relay.get()),
            ("read", relayed.reads.get()),
            ("write", relayed.writes.get()),
        ];
        Status {
            version: Status::VERSION,
            served: self.served.clone(),
            requests: requests
                .map(|(name, count)| (name.to_owned(), count))
                .into(),
            mismatches: 0,
            kind: Kind::Bridge(bridge),
        }
    }

    fn mirror(&self) -> &Mirror {
        self.bridge.mirror()
    }

    fn attr(&self, found: Attr) -> (Attr, Duration) {
        (found, self.attr_lifetime(&found))
    }

    /// How long the kernel may cache attributes. Those of a file with set-ID bits are not cached: a write
    /// clears these bits in the source, which the kernel does not notice.
    fn attr_lifetime(&self, found: &Attr) -> Duration {
        let set_id = Mode::from_raw_mode(found.mode).intersects(Mode::SUID | Mode::SGID);
        if set_id && found.file_type() == FileType::RegularFile {
            Duration::ZERO
        } else {
            self.options.cache.lifetime()
        }
    }

    fn entry(&self, found: bridge::Entry) -> Entry {
        Entry {
            node: Some(Node {
                id: found.node,
                generation: self.generation,
            }),
            attr: found.attr,
            entry_valid: self.options.cache.lifetime(),
            attr_valid: self.attr_lifetime(&found.attr),
        }
    }

    /// A negative entry, valid as long as names are.
    fn no_entry(&self) -> Entry {
        Entry {
            node: None,
            attr: Attr::default(),
            entry_valid: self.options.cache.lifetime(),
            attr_valid: Duration::ZERO,
        }
    }

    fn opened(&self, file: BridgedFile<Registrar>, counted: OpenFor) -> Opened {
        // Saves a round trip per close: errors of writing are reported by fsync in any case.
        let mut flags = OpenFlags::NOFLUSH;
        let (backing, pages) = match file.serving() {
            Serving::Passthrough(backing) => {
                flags |= OpenFlags::PASSTHROUGH;
                if file.file().is_writable() {
                    self.last_seen.forget(file.file().node());
                }
                (backing.id(), Pages::Keep)
            }
            Serving::AppendOnly(backing) => {
                flags |= OpenFlags::DIRECT_IO;
                flags.set(OpenFlags::PASSTHROUGH, backing.is_some());
                (backing.map_or(0, Backing::id), Pages::Drop)
            }
            Serving::Relay => {
                // During a write through the page cache, a modified page can be dropped and read again
                // before the write arrives here. So writable files bypass the page cache.
                flags.set(OpenFlags::DIRECT_IO, file.file().is_writable());
                let pages = self.pages(file.file());
                flags.set(OpenFlags::KEEP_CACHE, pages == Pages::Keep);
                (0, pages)
            }
        };
        let handle = self.files.insert(Open {
            file,
            pages,
            _counted: counted,
        });
        Opened {
            handle,
            flags,
            backing,
        }
    }

    /// What the kernel is to do with cached pages of a file that is relayed.
    fn pages(&self, file: &OpenFile) -> Pages {
        let (node, cache) = (file.node(), self.options.cache);
        let asked = SystemTime::now();
        match (cache, self.mirror().getattr(node)) {
            (CachePolicy::Strict, _) | (_, Err(_)) => Pages::Drop,
            (_, Ok(attr)) => self.last_seen.pages(node, Stamp::new(&attr), asked, || {
                let can_change = self.mirror().can_change_unnoticed(file);
                // If unknown: nobody else changes an exclusive source.
                can_change.unwrap_or(cache != CachePolicy::Exclusive)
            }),
        }
    }

    /// Notes a request for an open file: the kernel has processed the answer to the open.
    fn was_opened(&self, open: &Open) {
        if let Pages::DropBefore(stamp) = open.pages {
            self.last_seen.dropped(open.file.file().node(), stamp);
        }
    }

    /// Has `list` list a part of a directory. It returns the position of the next part; `None` at the
    /// end.
    fn list(
        &self,
        node: NodeId,
        position: u64,
        list: impl FnOnce(&bridge::OpenDirectory) -> Result<Option<u64>, Errno>,
    ) -> Result<(), Errno> {
        let directory = self.listings.take(self.mirror(), node, position)?;
        if let Some(next) = list(&directory)? {
            self.listings.keep(directory, next);
        }
        Ok(())
    }
}

impl Mountable for BridgeFs {
    fn session_options(&self) -> SessionOptions {
        let mut capabilities = CAPABILITIES | self.options.cache.capabilities();
        // Also for files that must not be mapped.
        let has_backing = self.options.passthrough != Passthrough::Never || self.options.is_shared;
        capabilities.set(Capabilities::PASSTHROUGH, has_backing);
        // A request that is held must not keep a thread, nor a place in a queue of the kernel's.
        let holds = self.bridge.audit().is_some();
        let answering = if self.options.is_shared || holds {
            Answering::Fairly
        } else {
            Answering::ByProcessor(THREADS_PER_PROCESSOR)
        };
        SessionOptions {
            max_stack_depth: match self.options.passthrough {
                Passthrough::Never => 1,
                _ => 1 + u32::from(self.mirror().is_stacked()),
            },
            holds,
            ..session(capabilities, answering)
        }
    }

    fn agreed(&self, granted: Capabilities, connection: Connection) -> io::Result<()> {
        let has_it = granted.contains(Capabilities::PASSTHROUGH);
        if self.options.passthrough == Passthrough::Require && !has_it {
            return Err(io::Error::other(
                "this kernel does not pass files through (Linux 6.9 does)",
            ));
        }
        if let Some(audit) = self.bridge.audit() {
            let connection = connection.clone();
            audit
                .log
                .on_overdue(move |request| connection.fail(request, Errno::IO));
        }
        self.registrar.connect(connection);
        self.bridge.probe_passthrough().map_err(|errno| {
            io::Error::other(format!(
                "the kernel does not pass files through here: {errno}"
            ))
        })
    }
}
