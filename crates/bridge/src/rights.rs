//! Whose rights an operation has.
//!
//! The kernel decides who may do what, with the caller's true groups, before it asks
//! (`default_permissions`). What is left to do here is that what the caller makes becomes the
//! caller's, and that what a caller must not bring about does not come about because it is root who
//! does the work. So each thread that serves a mirror is prepared once, where it is root's:
//!
//! - **The file system ids are the caller's while something is made**, and root's again after.
//!   Owner, group, setgid directories and quotas are then as the file system wants them.
//! - **`SECBIT_NO_SETUID_FIXUP`**: by default the kernel takes `CAP_DAC_OVERRIDE` and its like from a
//!   thread whose file system user id is no longer 0. The source would then check access a second
//!   time, and wrongly: only the kernel knows all groups of the caller, and an access control list
//!   may go by any of them. Besides, the way back to 0 would return capabilities that were given up.
//! - **`CAP_FSETID` is given up**, as root's writes leave set-user-id and set-group-id bits in place
//!   and everybody else's must clear them. That goes for what the kernel does with a file that was
//!   registered for passthrough, too, since it takes over the rights of the thread that registered
//!   it. Where a bit is asked for that the kernel has already granted, [`KeepingSetGid`] takes the
//!   capability back for a moment.
//! - **`CAP_SYS_RESOURCE` is given up**, which would let everybody ignore quotas.
//! - **The file system user id is not 0** on a file system that reserves blocks for root and goes by
//!   that id (ext4 does): else everybody could fill them. That goes for registered files, too. On any
//!   other it stays 0, as there it may be what a server checks.
//!
//! As an ordinary user, everything happens with that user's rights and nothing is switched.

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

/// What root must be allowed for work to be done in others' names.
const NEEDED: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETPCAP);

/// What no operation may make use of.
const GIVEN_UP: CapabilitySet = CapabilitySet::FSETID.union(CapabilitySet::SYS_RESOURCE);

/// The id that stands for nobody: no file system reserves anything for it.
const NOBODY: u32 = 65534;

/// In whose name files are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// In each caller's: this process is root's.
    Callers {
        /// The file system user id of a thread while it makes nothing.
        between: u32,
    },
    /// In that of the user who runs this process.
    Own,
}

/// What was done to a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preparation {
    None,
    /// With its own umask, as it last was, or without.
    Done(Option<Mode>),
}

thread_local! {
    static PREPARATION: Cell<Preparation> = const { Cell::new(Preparation::None) };
}

impl Rights {
    /// What this process can do on a file system of this kind.
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

    /// Prepares the calling thread for serving a mirror, for as long as it lives; a second time,
    /// nothing is done. Operations see to it themselves; whoever writes by [`crate::OpenFile::fd`]
    /// must have called this before.
    ///
    /// # Errors
    /// What `prctl` and `capset` say.
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

    /// Makes what this thread makes the caller's, until what is returned is dropped.
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

    /// Lets a set-group-id bit that the kernel has granted stay, until what is returned is dropped.
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

    /// Has the kernel apply `mask` to what this thread makes, where the directory has no default
    /// access control list: only the file system knows that at no cost. Returns the mode to ask for.
    ///
    /// Where a sandbox lets threads have no umask of their own, the mask always applies.
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

/// While this lives, what its thread makes is the caller's.
#[must_use]
pub(crate) struct Acting {
    /// The user id to go back to, if it was changed.
    uid: Option<u32>,
    /// The group id to go back to, if it was changed.
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
            // To have fewer capabilities is never denied.
            let _ = change_effective(|effective| effective.difference(GIVEN_UP));
        }
    }
}
