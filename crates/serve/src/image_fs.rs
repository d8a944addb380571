mod administrators;
mod listing;
mod owners;
pub(crate) mod values;

use std::{cell::LazyCell, ffi::OsStr, io, os::unix::ffi::OsStrExt, sync::Arc, time::Duration};

use rustix::{fs::OFlags, io::Errno};
use verimount_fuse::{
    Answering, Attr, Caller, Capabilities, Connection, Entry, EntryName, FileSystem, Generation,
    Handle, Names, Node, NodeId, Opened, Read, Seek, SessionOptions, StatFs,
};
use verimount_mount::{Mountable, STATUS_XATTR};
use verimount_source::Scratch;
use verimount_sys::FS_IOC_MEASURE_VERITY;
use verimount_tree::{self as tree, Error, ExtentKind, MAX_XATTR_VALUE, Measurement, Ownership};

use self::{
    administrators::{has_all_users, is_administrator},
    listing::{add_dots, continue_if, name},
    values::{file, fuse_attr, no_entry},
};
use crate::{
    Resident, Served, VerifiedTree,
    limits::{FOREVER, MAX_REQUEST, session},
};

pub use self::owners::{Owners, PermissionsStored};

/// The capabilities that are requested. An image never changes, so the kernel may cache everything
/// and need not send OPENs, unless files are to be resident. Who calls decides nothing but which attributes are listed, so that mounts can be idmapped.
const CAPABILITIES: Capabilities = Capabilities::ALLOW_IDMAP
    .union(Capabilities::NO_OPEN_SUPPORT)
    .union(Capabilities::NO_OPENDIR_SUPPORT)
    .union(Capabilities::DO_READDIRPLUS)
    .union(Capabilities::READDIRPLUS_AUTO)
    .union(Capabilities::PARALLEL_DIROPS)
    .union(Capabilities::CACHE_SYMLINKS)
    .union(Capabilities::EXPLICIT_INVAL_DATA);

/// The adapter between FUSE and a [`VerifiedTree`].
pub struct ImageFs {
    tree: Arc<VerifiedTree>,
    served: Served,
    owners: Owners,
    generation: Generation,
    /// Whether user 0 of this process's user namespace is the system's root, who alone may read attributes in `trusted.`.
    has_root: bool,
    /// The files that the kernel reads from memory.
    resident: Option<Arc<Resident>>,
}

impl ImageFs {
    /// Serves `tree`, which `served` describes. Files of unknown owners belong to the user of this process.
    pub fn new(tree: Arc<VerifiedTree>, served: Served) -> Self {
        let owners = Owners::default_of(tree.inner().ownership());
        Self {
            generation: tree.generation().unwrap_or_else(Generation::random),
            tree,
            served,
            owners,
            // In doubt it is.
            has_root: has_all_users("self").unwrap_or(true),
            resident: None,
        }
    }

    /// Adds files that the kernel reads from memory.
    pub fn with_resident(mut self, resident: Option<Arc<Resident>>) -> Self {
        self.resident = resident;
        self
    }

    /// Serves files with other owners and permissions.
    ///
    /// # Errors
    /// [`PermissionsStored`] if the tree has permissions of its own and `owners` replaces them.
    pub fn with_owners(mut self, owners: Owners) -> Result<Self, PermissionsStored> {
        let is_stored = self.tree.inner().ownership() == Ownership::Stored;
        if is_stored && owners.umask.is_some() {
            return Err(PermissionsStored);
        }
        self.owners = owners.or(self.owners);
        Ok(self)
    }

    fn shown(&self, attr: &tree::Attr) -> Attr {
        fuse_attr(&self.owners.applied(attr))
    }

    fn entry(&self, attr: &tree::Attr) -> Entry {
        Entry {
            node: Some(Node {
                id: NodeId(attr.node.get()),
                generation: self.generation,
            }),
            attr: self.shown(attr),
            ..no_entry()
        }
    }

    /// The file that a handle has the number of (`.`), or the directory that such a directory is in (`..`). `/` is the name of what the
    /// kernel has found by a handle and not by a name, which overlays look up again.
    ///
    /// # Errors
    /// `ESTALE` if there is none, and those of the tree.
    fn by_handle(&self, node: tree::NodeId, name: &OsStr) -> Result<Entry, Errno> {
        let is_parent = name == ".." && node != tree::NodeId::ROOT;
        let found = if is_parent {
            self.tree.parent(node)
        } else {
            self.tree.by_handle(node)
        };
        match found {
            Ok(attr) => Ok(self.entry(&attr)),
            Err(Error::NotFound) => Err(Errno::STALE),
            Err(error) => Err(error.into()),
        }
    }
}

/// The mount has ended, while files may be loaded ahead.
impl Drop for ImageFs {
    fn drop(&mut self) {
        if let Some(resident) = &self.resident {
            resident.end();
        }
    }
}

impl Mountable for ImageFs {
    fn session_options(&self) -> SessionOptions {
        let mut requested = SessionOptions {
            // Nothing is written; this is the kernel's minimum.
            max_write: 4096,
            // Large reads are faster with threads that may run on any processor.
            ..session(CAPABILITIES, Answering::ByThreads)
        };
        // With it the kernel reads the access control list of each file that is accessed. Without it,
        // the group's permissions would grant access that the list denies.
        let has_lists = self.tree.inner().has_access_lists();
        requested
            .capabilities
            .set(Capabilities::POSIX_ACL, has_lists);
        // Files have the same numbers in each mount, and so do those of other images.
        requested.capabilities |= match self.tree.generation() {
            Some(_) => Capabilities::EXPORT_SUPPORT,
            None => Capabilities::NO_EXPORT_SUPPORT,
        };
        if self.resident.is_none() {
            return requested;
        }
        // Opens wait for files to be loaded: those of one user, whom an idmapped mount would not tell, must not block others.
        requested.capabilities -= Capabilities::NO_OPEN_SUPPORT | Capabilities::ALLOW_IDMAP;
        requested.capabilities |= Capabilities::PASSTHROUGH;
        SessionOptions {
            max_stack_depth: 1,
            answering: Answering::Fairly,
            ..requested
        }
    }

    fn agreed(&self, granted: Capabilities, connection: Connection) -> io::Result<()> {
        let Some(resident) = &self.resident else {
            return Ok(());
        };
        if !granted.contains(Capabilities::PASSTHROUGH) {
            return Err(io::Error::other(
                "this kernel does not pass files through, as resident files need (Linux 6.9 does)",
            ));
        }
        resident.connect(connection).map_err(|errno| {
            io::Error::other(format!(
                "the kernel does not pass resident files through: {errno}"
            ))
        })
    }
}

impl FileSystem for ImageFs {
    type Scratch = Scratch;

    fn unmounted(&self) {
        self.tree.close();
        if let Some(resident) = &self.resident {
            resident.end();
        }
    }

    fn lookup(&self, _: Caller, (parent, name): EntryName<'_>) -> Result<Entry, Errno> {
        let parent = file(parent)?;
        if [".", "..", "/"].iter().any(|handled| name == *handled) {
            return self.by_handle(parent, name);
        }
        match self.tree.lookup(parent, name) {
            Ok(attr) => Ok(self.entry(&attr)),
            Err(Error::NotFound) => Ok(no_entry()),
            Err(error) => Err(error.into()),
        }
    }

    fn getattr(&self, node: NodeId) -> Result<(Attr, Duration), Errno> {
        let attr = self.tree.attr(file(node)?)?;
        Ok((self.shown(&attr), FOREVER))
    }

    fn readlink<'s>(&self, node: NodeId, scratch: &'s mut Scratch) -> Result<&'s [u8], Errno> {
        Ok(self.tree.readlink(file(node)?, scratch)?)
    }

    fn open(&self, _: Caller, node: NodeId, _: OFlags) -> Result<Opened, Errno> {
        match &self.resident {
            Some(resident) => resident.open(file(node)?),
            // After this the kernel sends no more OPENs, and keeps pages cached.
            None => Err(Errno::NOSYS),
        }
    }

    fn release(&self, handle: Handle) {
        if let Some(resident) = &self.resident {
            resident.release(handle);
        }
    }

    fn read<'s>(
        &self,
        node: NodeId,
        read: Read,
        scratch: &'s mut Scratch,
    ) -> Result<&'s [u8], Errno> {
        let size = read.size.min(MAX_REQUEST) as usize;
        Ok(self.tree.read(file(node)?, read.offset, size, scratch)?)
    }

    fn readdir(&self, node: NodeId, position: u64, names: &mut Names) -> Result<(), Errno> {
        let Some(from) = add_dots(node, position, |dot| names.add(dot, no_entry)) else {
            return Ok(());
        };
        let (tree, node) = (&self.tree, file(node)?);
        let listed = if names.wants_entries() {
            tree.list_with_attrs(node, from, &mut |listed, next, attr| {
                // An entry whose attributes cannot be read is listed without them.
                let found = || attr.map_or_else(no_entry, |attr| self.entry(attr));
                continue_if(names.add(name(&listed, next), found))
            })
        } else {
            tree.list(node, from, &mut |listed, next| {
                continue_if(names.add(name(&listed, next), no_entry))
            })
        };
        Ok(listed?)
    }

    fn statfs(&self, _: NodeId) -> Result<StatFs, Errno> {
        const BLOCK: u32 = 4096;
        let usage = self.tree.inner().usage();
        Ok(StatFs {
            block_size: BLOCK,
            io_size: BLOCK,
            blocks: usage.bytes.div_ceil(BLOCK.into()),
            name_max: usage.name_max,
            ..Default::default()
        })
    }

    fn getxattr(&self, node: NodeId, name: &OsStr) -> Result<Vec<u8>, Errno> {
        if has_status(node) && name == STATUS_XATTR {
            let resident = self.resident.as_ref().map(|resident| resident.status());
            return self.tree.status(self.served.clone(), resident).to_json();
        }
        let value = self.tree.xattr(file(node)?, name)?;
        if value.len() <= MAX_XATTR_VALUE {
            Ok(value)
        } else {
            Err(Errno::TOOBIG)
        }
    }

    fn listxattr(&self, caller: Caller, node: NodeId) -> Result<Vec<u8>, Errno> {
        let stored = self.tree.xattr_names(file(node)?)?;
        // The status is not listed, as copies would get it.
        let is_status = |name: &OsStr| has_status(node) && name == STATUS_XATTR;
        // The kernel checks only access to values, not who may know of names. To find that out can take reading /proc.
        let is_administrator = LazyCell::new(|| self.has_root && is_administrator(caller));
        let is_trusted = |name: &OsStr| name.as_bytes().starts_with(b"trusted.");
        let is_shown = |name: &OsStr| !is_status(name) && (!is_trusted(name) || *is_administrator);
        let shown = stored.iter().filter(|name| is_shown(name));
        Ok(shown
            .flat_map(|name| [name.as_bytes(), &[0]].concat())
            .collect())
    }

    fn lseek(&self, node: NodeId, _: Handle, offset: u64, to: Seek) -> Result<u64, Errno> {
        if !self.tree.inner().has_holes() {
            // After this the kernel sends no more LSEEK, and treats everything as data.
            return Err(Errno::NOSYS);
        }
        let wanted = match to {
            Seek::Data => ExtentKind::Data,
            Seek::Hole => ExtentKind::Hole,
        };
        Ok(self.tree.seek(file(node)?, wanted, offset)?)
    }

    fn ioctl(&self, node: NodeId, command: u32) -> Result<Vec<u8>, Errno> {
        if command != FS_IOC_MEASURE_VERITY {
            return Err(Errno::NOTTY);
        }
        let measured = self.tree.measure(file(node)?)?;
        let Measurement { algorithm, digest } = measured.ok_or(Errno::NODATA)?;
        // struct fsverity_digest: number of the hash algorithm, length of the digest, digest.
        let numbers = [algorithm, digest.len() as u16].map(u16::to_ne_bytes);
        Ok([numbers.as_flattened(), &digest].concat())
    }
}

/// Whether a node has the mount's status as an extended attribute, besides those of the tree.
fn has_status(node: NodeId) -> bool {
    node == NodeId::ROOT
}
