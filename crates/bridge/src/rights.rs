//! The rights with which operations run.
//!
//! The kernel checks access before it sends a request, with all groups of the caller
//! (`default_permissions`). Two tasks remain here: new files must belong to the caller, and callers
//! must not gain effects that only root's own operations have. So if this process is root, each
//! thread that serves a mirror is prepared once:
//!
//! - **The file system ids are the caller's while a file is created**, and are then restored. Owner,
//!   group, setgid directories and quotas therefore follow the file system's own rules.
//! - **`SECBIT_NO_SETUID_FIXUP`**: by default the kernel removes `CAP_DAC_OVERRIDE` and similar
//!   capabilities from a thread whose file system user id is no longer 0. The source would then check
//!   access a second time, and wrongly: only the kernel knows all groups of the caller, and an access
//!   control list may refer to any of them. Also, restoring 0 would return dropped capabilities.
//! - **`CAP_FSETID` is dropped**: root's writes leave set-user-id and set-group-id bits in place, but
//!   those of all others must clear them. This also affects the kernel's writes to a backing file,
//!   since it uses the rights of the thread that registered it. To set a bit that the kernel has
//!   already granted, [`KeepingSetGid`] restores the capability for a moment.
//! - **`CAP_SYS_RESOURCE` is dropped**: it would let everybody ignore quotas.
//! - **The file system user id is not 0** on a file system that reserves blocks for root and
//!   identifies root by this id (such as ext4): otherwise everybody could fill them. This also
//!   affects backing files. On other file systems it stays 0, because a server may check it.
//!
//! As an ordinary user, all operations run with that user's rights, and nothing is switched.

use std::{cell::Cell, marker::PhantomData};

use rustix::{
    fs::Mode,
    io::Errno,
    process::{geteuid, umask},
    thread::{
        CapabilitiesSecureBits, CapabilitySet, capabilities, capabilities_secure_bits,
        set_capabilities, set_capabilities_secure_bits,
    },
};
use verimount_sys::{set_thread_fs_gid, set_thread_fs_uid, unshare_umask};

use crate::{Caller, file_system::FileSystemKind};

/// The capabilities that root needs to act for other users.
const NEEDED: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETPCAP);

/// The capabilities that no operation may use.
const GIVEN_UP: CapabilitySet = CapabilitySet::FSETID.union(CapabilitySet::SYS_RESOURCE);

/// The user id of nobody: no file system reserves anything for it.
const NOBODY: u32 = 65534;

/// With whose rights files are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Those of each caller: this process is root.
    Callers {
        /// The file system user id of a thread while it creates nothing.
        between: u32,
    },
    /// Those of the user who runs this process.
    Own,
}

/// The preparation of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preparation {
    None,
    /// Done. With the last value of its own umask, if it has one.
    Done(Option<Mode>),
}

thread_local! {
    static PREPARATION: Cell<Preparation> = const { Cell::new(Preparation::None) };
}

impl Rights {
    /// The rights of this process on a file system of this kind.
    pub(crate) fn of_this_process(file_system: FileSystemKind) -> Result<Self, Errno> {
        let is_able = capabilities(None)?.effective.contains(NEEDED);
        let between = match file_system.reserves_blocks() {
            true => NOBODY,
            false => 0,
        };
        Ok(match is_able && geteuid().is_root() {
            true => Self::Callers { between },
            false => Self::Own,
        })
    }

    /// Prepares the calling thread for serving a mirror, for the rest of its life; later calls have
    /// no effect. Operations call this themselves; callers that write to [`crate::OpenFile::fd`]
    /// must call it first.
    ///
    /// # Errors
    /// As `prctl` and `capset`.
    pub fn prepare_thread(self) -> Result<(), Errno> {
        self.own_umask().map(drop)
    }

    fn own_umask(self) -> Result<Option<Mode>, Errno> {
        if let Preparation::Done(umask) = PREPARATION.get() {
            return Ok(umask);
        }
        if let Self::Callers { between } = self {
            let bits = capabilities_secure_bits()? | CapabilitiesSecureBits::NO_SETUID_FIXUP;
            set_capabilities_secure_bits(bits)?;
            change_effective(|effective| effective.difference(GIVEN_UP))?;
            set_thread_fs_uid(between);
        }
        let own = unshare_umask().is_ok().then(|| {
            let none = Mode::empty();
            umask(none);
            none
        });
        PREPARATION.set(Preparation::Done(own));
        Ok(own)
    }

    /// Files that this thread creates belong to the caller until the result is dropped.
    pub(crate) fn act_for(self, caller: Caller) -> Result<Acting, Errno> {
        self.prepare_thread()?;
        let (mut uid, mut gid) = (None, None);
        if let Self::Callers { between } = self {
            gid = (caller.gid != 0).then(|| set_thread_fs_gid(caller.gid));
            uid = (caller.uid != between).then(|| set_thread_fs_uid(caller.uid));
        }
        let _thread = PhantomData;
        Ok(Acting { uid, gid, _thread })
    }

    /// Lets this thread set a set-group-id bit that the kernel has granted, until the result is
    /// dropped.
    pub(crate) fn keep_set_gid(self) -> Result<KeepingSetGid, Errno> {
        self.prepare_thread()?;
        if let Self::Callers { .. } = self {
            change_effective(|effective| effective.union(CapabilitySet::FSETID))?;
        }
        Ok(KeepingSetGid {
            rights: self,
            _thread: PhantomData,
        })
    }

    /// Makes the kernel apply `mask` to files that this thread creates, unless the directory has a
    /// default access control list, which only the file system knows at no cost. Returns the mode
    /// with which to create the file.
    ///
    /// If a sandbox denies threads their own umask, the mask always applies.
    pub(crate) fn with_umask(self, mode: Mode, mask: Mode) -> Result<Mode, Errno> {
        match self.own_umask()? {
            None => Ok(mode.difference(mask)),
            Some(current) => {
                if current != mask {
                    umask(mask);
                    PREPARATION.set(Preparation::Done(Some(mask)));
                }
                Ok(mode)
            }
        }
    }
}

fn change_effective(change: impl FnOnce(CapabilitySet) -> CapabilitySet) -> Result<(), Errno> {
    let mut sets = capabilities(None)?;
    sets.effective = change(sets.effective);
    set_capabilities(None, sets)
}

/// While this lives, files that its thread creates belong to the caller.
#[must_use]
pub(crate) struct Acting {
    /// The user id to restore, if it was changed.
    uid: Option<u32>,
    /// The group id to restore, if it was changed.
    gid: Option<u32>,
    /// Another thread must not drop it.
    _thread: PhantomData<*const ()>,
}

impl Drop for Acting {
    fn drop(&mut self) {
        self.uid.map(set_thread_fs_uid);
        self.gid.map(set_thread_fs_gid);
    }
}

/// While this lives, its thread has `CAP_FSETID`.
#[must_use]
pub(crate) struct KeepingSetGid {
    rights: Rights,
    /// Another thread must not drop it.
    _thread: PhantomData<*const ()>,
}

impl Drop for KeepingSetGid {
    fn drop(&mut self) {
        if let Rights::Callers { .. } = self.rights {
            // Dropping capabilities is never denied.
            let _ = change_effective(|effective| effective.difference(GIVEN_UP));
        }
    }
}
