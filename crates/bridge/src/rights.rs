//! The rights with which operations run.
//!
//! The kernel checks access before it sends a request (`default_permissions`), but with the owners and
//! permissions that it remembers. So the source checks again: if this process is root, each operation
//! that changes anything runs with the ids, groups and capabilities of its caller ([`Rights::act_as`]). Each
//! thread that serves a mirror is prepared for that once:
//!
//! - **`SECBIT_NO_SETUID_FIXUP`**: a thread's capabilities do not depend on its file system user id, which
//!   is the caller's during an operation and then restored.
//! - **`CAP_FSETID` is dropped**: root's writes leave set-user-id and set-group-id bits in place, but
//!   those of all others must clear them. This also affects the kernel's writes to a backing file,
//!   since it uses the rights of the thread that registered it.
//! - **`CAP_SYS_RESOURCE` is dropped**: it would let everybody ignore quotas and fill reserved blocks.
//! - **The file system user id is not 0, and there are no supplementary groups**, on a file system that
//!   reserves blocks for a user or a group (such as ext4): otherwise everybody could fill them. This also
//!   affects backing files. On other file systems the user id stays 0, because a server may check it.
//!
//! As an ordinary user, all operations run with that user's rights, and nothing is switched.

use std::{cell::Cell, marker::PhantomData};

use rustix::{
    fs::Mode,
    io::Errno,
    process::{Gid, geteuid, umask},
    thread::{
        CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities,
        capabilities_secure_bits, set_capabilities, set_capabilities_secure_bits,
        set_thread_groups,
    },
};
use verimount_sys::{set_thread_fs_gid, set_thread_fs_uid, unshare_umask};

use crate::{
    Caller,
    credentials::{Callers, MappedIds, Owner},
    file_system::FileSystemKind,
};

/// The capabilities that root needs to act for other users.
const NEEDED: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETPCAP);

/// The capabilities that no operation may use, unless its caller has them.
const GIVEN_UP: CapabilitySet = CapabilitySet::FSETID.union(CapabilitySet::SYS_RESOURCE);

/// The capabilities that replace permissions.
const ACCESS: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);

/// The capabilities whose effect depends on a file's attributes, so that an operation has those of its
/// caller. The kernel checks all others (`CAP_MKNOD`, or `CAP_SYS_ADMIN` for `trusted.*`) when it is asked,
/// whatever it remembers.
const CALLERS: CapabilitySet = ACCESS
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETFCAP);

/// The user id of threads where blocks are reserved: the last one, which nobody has.
const NO_USER: u32 = u32::MAX - 1;

/// With whose rights operations run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Those of each caller: this process is root.
    Callers {
        /// The file system user id of a thread while it acts for nobody.
        between: u32,
    },
    /// Those of the user who runs this process.
    Own,
}

/// What a thread has been prepared with.
#[derive(Debug, Clone, Copy)]
struct Prepared {
    /// The last value of its own umask, if it has one.
    umask: Option<Mode>,
    /// Its capabilities while it acts for nobody.
    capabilities: CapabilitySets,
}

thread_local! {
    static PREPARED: Cell<Option<Prepared>> = const { Cell::new(None) };
}

impl Rights {
    /// The rights of this process on a file system of this kind.
    pub(crate) fn of_this_process(file_system: FileSystemKind) -> Result<Self, Errno> {
        let is_able = capabilities(None)?.effective.contains(NEEDED);
        let between = if file_system.reserves_blocks() {
            NO_USER
        } else {
            0
        };
        Ok(if is_able && geteuid().is_root() {
            Self::Callers { between }
        } else {
            Self::Own
        })
    }

    /// Prepares the calling thread for serving a mirror, for the rest of its life; later calls have
    /// no effect. Operations call this themselves; callers that write to [`crate::OpenFile::fd`]
    /// must call it first.
    ///
    /// # Errors
    /// As `prctl` and `capset`.
    pub fn prepare_thread(self) -> Result<(), Errno> {
        self.prepared().map(drop)
    }

    fn prepared(self) -> Result<Prepared, Errno> {
        if let Some(prepared) = PREPARED.get() {
            return Ok(prepared);
        }
        if let Self::Callers { between } = self {
            let bits = capabilities_secure_bits()? | CapabilitiesSecureBits::NO_SETUID_FIXUP;
            set_capabilities_secure_bits(bits)?;
            let mut sets = capabilities(None)?;
            sets.effective = sets.effective.difference(GIVEN_UP);
            set_capabilities(None, sets)?;
            set_thread_groups(&[])?;
            set_thread_fs_uid(between);
        }
        let umask = unshare_umask().is_ok().then(|| {
            let none = Mode::empty();
            umask(none);
            none
        });
        let prepared = Prepared {
            umask,
            capabilities: capabilities(None)?,
        };
        PREPARED.set(Some(prepared));
        Ok(prepared)
    }

    /// This thread has the rights of the caller until the result is dropped. `involved` returns which
    /// files an operation concerns.
    pub(crate) fn act_as(
        self,
        callers: &Callers,
        caller: Caller,
        involved: impl FnOnce() -> Result<Involved, Errno>,
    ) -> Result<Acting, Errno> {
        let prepared = self.prepared()?;
        match self {
            Self::Own => Ok(Acting::default()),
            Self::Callers { .. } => Identity::of(callers, caller, involved)?.assume(prepared),
        }
    }

    /// This thread has the caller's user id until the result is dropped, but no groups and capabilities, which need not
    /// be found out for that; and the caller's group id if that `has_effect`.
    pub(crate) fn act_as_owner(self, caller: Caller, has_effect: bool) -> Result<Acting, Errno> {
        let prepared = self.prepared()?;
        let identity = Identity {
            uid: caller.uid,
            gid: has_effect.then_some(caller.gid),
            groups: Vec::new(),
            capabilities: CapabilitySet::empty(),
        };
        match self {
            Self::Own => Ok(Acting::default()),
            Self::Callers { .. } => identity.assume(prepared),
        }
    }

    /// Makes the kernel apply `mask` to files that this thread creates, unless the directory has a
    /// default access control list, which only the file system knows at no cost. Returns the mode
    /// with which to create the file.
    ///
    /// If a sandbox denies threads their own umask, the mask always applies.
    pub(crate) fn with_umask(self, mode: Mode, mask: Mode) -> Result<Mode, Errno> {
        let prepared = self.prepared()?;
        let Some(current) = prepared.umask else {
            return Ok(mode.difference(mask));
        };
        if current != mask {
            umask(mask);
            PREPARED.set(Some(Prepared {
                umask: Some(mask),
                ..prepared
            }));
        }
        Ok(mode)
    }
}

/// The owners of the files that an operation concerns.
pub(crate) struct Involved {
    /// The owner of the file that the operation changes or removes; `None` if it makes one.
    pub(crate) changed: Option<Owner>,
    /// Those of the directories whose entries it changes.
    pub(crate) directories: Vec<Owner>,
}

/// The rights of an operation.
struct Identity {
    uid: u32,
    /// `None` if it has no effect.
    gid: Option<u32>,
    groups: Vec<Gid>,
    /// Those of [`CALLERS`] that it has.
    capabilities: CapabilitySet,
}

impl Identity {
    /// The rights of a caller.
    fn of(
        callers: &Callers,
        caller: Caller,
        involved: impl FnOnce() -> Result<Involved, Errno>,
    ) -> Result<Self, Errno> {
        let (uid, gid) = (caller.uid, Some(caller.gid));
        let Some(credentials) = callers.credentials(caller) else {
            // Its groups are unknown, so the kernel's check of permissions has to do.
            return Ok(Self {
                uid,
                gid,
                groups: Vec::new(),
                capabilities: if uid == 0 { CALLERS } else { ACCESS },
            });
        };
        let mut identity = Self {
            uid,
            gid,
            groups: credentials.groups,
            capabilities: credentials.capabilities.intersection(CALLERS),
        };
        if let Some(ids) = credentials.ids {
            identity.restrict(&involved()?, &ids);
        }
        Ok(identity)
    }

    /// Restricts the capabilities to those that have an effect on these files: an owner or group that does
    /// not exist in the caller's user namespace is outside.
    ///
    /// The owner may change before the operation. So `CAP_FOWNER` and `CAP_FSETID` are replaced by the ids
    /// of the present owner: the source then finds out by itself whether they still are the file's.
    fn restrict(&mut self, involved: &Involved, ids: &MappedIds) {
        let capabilities = self.capabilities;
        let mut all = involved.changed.iter().chain(&involved.directories);
        self.capabilities = if all.all(|owner| ids.contain(*owner)) {
            capabilities.difference(CapabilitySet::FOWNER | CapabilitySet::FSETID)
        } else {
            CapabilitySet::empty()
        };
        let Some(owner) = involved.changed else {
            return;
        };
        let is_inside = ids.contain(owner);
        // Attributes are changed by whoever could be the owner. For names, the group must be inside, too.
        let is_owner = is_inside || involved.directories.is_empty() && ids.contain_user(owner.uid);
        if is_owner && capabilities.contains(CapabilitySet::FOWNER) {
            self.uid = owner.uid;
        }
        if is_inside && capabilities.contains(CapabilitySet::FSETID) {
            self.groups.push(Gid::from_raw(owner.gid));
        }
    }

    /// Gives this thread these rights.
    fn assume(self, prepared: Prepared) -> Result<Acting, Errno> {
        // Whatever was done before an error is undone when it is dropped.
        let mut acting = Acting::default();
        if !self.groups.is_empty() {
            set_thread_groups(&self.groups)?;
            acting.has_groups = true;
        }
        acting.gid = self.gid.map(set_thread_fs_gid);
        acting.uid = Some(set_thread_fs_uid(self.uid));
        let before = prepared.capabilities;
        let others = before.effective.difference(CALLERS);
        let callers = before.permitted.intersection(self.capabilities);
        let effective = others.union(callers);
        set_capabilities(
            None,
            CapabilitySets {
                effective,
                ..before
            },
        )?;
        acting.capabilities = Some(before);
        Ok(acting)
    }
}

/// While this lives, its thread has the rights of a caller.
#[must_use]
#[derive(Default)]
pub(crate) struct Acting {
    /// The capabilities to restore, if they were changed.
    capabilities: Option<CapabilitySets>,
    /// The user id to restore, if it was changed.
    uid: Option<u32>,
    /// The group id to restore, if it was changed.
    gid: Option<u32>,
    /// Whether the thread has supplementary groups.
    has_groups: bool,
    /// Another thread must not drop it.
    _thread: PhantomData<*const ()>,
}

impl Drop for Acting {
    fn drop(&mut self) {
        // The thread had all of this before, and has kept the capabilities to change its ids.
        if let Some(before) = self.capabilities {
            let _ = set_capabilities(None, before);
        }
        self.uid.map(set_thread_fs_uid);
        self.gid.map(set_thread_fs_gid);
        if self.has_groups {
            let _ = set_thread_groups(&[]);
        }
    }
}
