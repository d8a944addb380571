use std::os::fd::{AsFd, OwnedFd};

use rustix::{
    fs::{
        AtFlags, CWD, Gid, Mode, OFlags, StatVfs, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid,
        chmodat, chownat, fstatvfs, ftruncate, utimensat,
    },
    io::Errno,
};

use super::{Mirror, act::Changed};
use crate::{
    Attr, Caller, NodeId, Rights, Timestamp,
    file::OpenFile,
    reopen::{PathTo, reopen},
};

/// Changes of a file's attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changes {
    /// New permission bits, set-id bits and sticky bit.
    pub mode: Option<u32>,
    /// A new owner.
    pub uid: Option<u32>,
    /// A new group.
    pub gid: Option<u32>,
    /// A new length in bytes.
    pub size: Option<u64>,
    /// A new time of last access.
    pub accessed: Option<NewTime>,
    /// A new time of last modification.
    pub modified: Option<NewTime>,
}

impl Changes {
    /// Whether an owner may do this whatever their groups and capabilities are, with the same effect.
    fn are_for_any_owner(&self) -> bool {
        let is_now = |time: Option<NewTime>| time == Some(NewTime::Now);
        let keeps_rest = Self {
            mode: None,
            accessed: None,
            modified: None,
            ..*self
        } == Self::default();
        let is_any = *self != Self::default();
        is_any
            && keeps_rest
            && !self.mode.is_some_and(has_set_group_id)
            && !is_now(self.accessed)
            && !is_now(self.modified)
    }

    /// Whether this is nothing but a `chown`.
    fn are_of_owner(&self) -> bool {
        let rest = Self {
            uid: None,
            gid: None,
            ..*self
        };
        rest == Self::default() && *self != rest
    }

    /// Whether a file keeps its owner and group.
    fn keep_owner(&self, attr: &Attr) -> bool {
        self.uid.is_none_or(|uid| uid == attr.uid) && self.gid.is_none_or(|gid| gid == attr.gid)
    }
}

/// A time to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewTime {
    /// The file system's current time.
    Now,
    /// This time.
    At(Timestamp),
}

/// Operations on attributes.
impl Mirror {
    /// A file's attributes.
    ///
    /// # Errors
    /// Any.
    pub fn getattr(&self, node: NodeId) -> Result<Attr, Errno> {
        let attr = |(_, attr)| attr;
        if let Some(file) = self.at_hand(node) {
            return self.source.examine_open(&file).map(attr);
        }
        let traces = self.nodes.traces(node).ok_or(Errno::STALE)?;
        if let Ok(name) = traces.location.name() {
            let directory = self.descriptor(traces.location.parent)?;
            match self.source.examine(directory.as_fd(), name) {
                Ok((file, found)) if file == traces.file => return Ok(found),
                _ => {}
            }
        }
        let file = self.descriptor(node)?;
        self.source.examine_open(&file).map(attr)
    }

    /// Changes attributes and returns them all. `open`, if given, is the open file with which to
    /// change the size. Empty changes mean a `chown` that keeps owner and group: if the owner or
    /// root requests it, it clears set-id bits.
    ///
    /// # Errors
    /// Any; the first of the [`Changes`] may then have been done.
    pub fn setattr(
        &self,
        caller: Caller,
        node: NodeId,
        changes: &Changes,
        open: Option<&OpenFile>,
    ) -> Result<Attr, Errno> {
        let file = self.descriptor(node)?;
        let change = || self.change(&file, changes, open);
        // An owner may do this, too, with the same effect unless a set-group-id bit stays set for members.
        let keeps_owner = || {
            let (_, attr) = self.source.examine_open(&file)?;
            let is_owner = attr.uid == caller.uid;
            Ok(is_owner && changes.keep_owner(&attr) && !has_set_group_id(attr.mode))
        };
        let is_for_any_owner =
            changes.are_for_any_owner() || changes.are_of_owner() && keeps_owner()?;
        if is_for_any_owner {
            self.act_as_owner(caller, Changed::Own(&file), change)?;
        } else {
            self.act(caller, Changed::File(&file), change)?;
        }
        self.source.examine_open(&file).map(|(_, attr)| attr)
    }

    fn change(
        &self,
        file: &OwnedFd,
        changes: &Changes,
        open: Option<&OpenFile>,
    ) -> Result<(), Errno> {
        // A change of owner clears set-id bits, so it precedes a change of mode.
        if changes.uid.is_some() || changes.gid.is_some() {
            set_owner(file, changes)?;
        } else if *changes == Changes::default() {
            self.confirm_owner(file)?;
        }
        if let Some(mode) = changes.mode {
            let mode = Mode::from_raw_mode(mode);
            chmodat(CWD, &*PathTo::new(file), mode, AtFlags::empty())?;
        }
        if let Some(size) = changes.size {
            match open.filter(|open| open.is_writable()) {
                Some(open) => ftruncate(open.fd()?, size)?,
                None => ftruncate(reopen(file, OFlags::WRONLY)?, size)?,
            }
        }
        if changes.accessed.is_some() || changes.modified.is_some() {
            let times = Timestamps {
                last_access: timespec(changes.accessed),
                last_modification: timespec(changes.modified),
            };
            utimensat(file, c"", &times, AtFlags::EMPTY_PATH)?;
        }
        Ok(())
    }

    /// Sets the owner of a file to its present owner, which clears set-id bits.
    ///
    /// The kernel sends the same request before anybody writes to such a file, without checking
    /// whether the caller may `chown` it. So for other callers this does nothing: the write will.
    fn confirm_owner(&self, file: &OwnedFd) -> Result<(), Errno> {
        match set_owner(file, &Changes::default()) {
            Err(Errno::PERM) if matches!(self.rights, Rights::Callers { .. }) => Ok(()),
            other => other,
        }
    }

    /// Statistics of the file system that a node is on.
    ///
    /// # Errors
    /// Any.
    pub fn statfs(&self, node: NodeId) -> Result<StatVfs, Errno> {
        fstatvfs(&self.descriptor(node)?)
    }
}

fn has_set_group_id(mode: u32) -> bool {
    Mode::from_raw_mode(mode).contains(Mode::SGID)
}

fn set_owner(file: &OwnedFd, changes: &Changes) -> Result<(), Errno> {
    let uid = changes.uid.map(Uid::from_raw);
    let gid = changes.gid.map(Gid::from_raw);
    chownat(file, c"", uid, gid, AtFlags::EMPTY_PATH)
}

fn timespec(time: Option<NewTime>) -> Timespec {
    let (tv_sec, tv_nsec) = match time {
        None => (0, UTIME_OMIT),
        Some(NewTime::Now) => (0, UTIME_NOW),
        Some(NewTime::At(time)) => (time.seconds, time.nanoseconds.into()),
    };
    Timespec { tv_sec, tv_nsec }
}
