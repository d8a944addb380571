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
    Attr, Caller, NodeId, Rights, SetAttr, SetTime,
    file::OpenFile,
    reopen::{PathTo, reopen},
};

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
    /// Any; the first of the changes may then have been done.
    pub fn setattr(
        &self,
        caller: Caller,
        node: NodeId,
        changes: &SetAttr,
        open: Option<&OpenFile>,
    ) -> Result<Attr, Errno> {
        let file = self.descriptor(node)?;
        let change = || self.change(&file, changes, open);
        // An owner may do this, too, with the same effect unless a set-group-id bit stays set for members.
        let keeps_owner = || -> Result<bool, Errno> {
            let (_, attr) = self.source.examine_open(&file)?;
            let is_owner = attr.uid == caller.uid;
            Ok(is_owner && keep_owner(changes, &attr) && !has_set_group_id(attr.mode))
        };
        let is_for_any_owner =
            are_for_any_owner(changes) || are_of_owner(changes) && keeps_owner()?;
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
        changes: &SetAttr,
        open: Option<&OpenFile>,
    ) -> Result<(), Errno> {
        // A change of owner clears set-id bits, so it precedes a change of mode.
        if changes.uid.is_some() || changes.gid.is_some() {
            set_owner(file, changes)?;
        } else if *changes == SetAttr::default() {
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
        if changes.atime.is_some() || changes.mtime.is_some() {
            let times = Timestamps {
                last_access: timespec(changes.atime),
                last_modification: timespec(changes.mtime),
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
        match set_owner(file, &SetAttr::default()) {
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

/// Whether an owner may do this whatever their groups and capabilities are, with the same effect.
fn are_for_any_owner(changes: &SetAttr) -> bool {
    let rest = SetAttr {
        mode: None,
        atime: None,
        mtime: None,
        ..*changes
    };
    let is_any = *changes != SetAttr::default();
    is_any
        && rest == SetAttr::default()
        && !changes.mode.is_some_and(has_set_group_id)
        && ![changes.atime, changes.mtime].contains(&Some(SetTime::Now))
}

/// Whether this is nothing but a `chown`.
fn are_of_owner(changes: &SetAttr) -> bool {
    let rest = SetAttr {
        uid: None,
        gid: None,
        ..*changes
    };
    rest == SetAttr::default() && *changes != rest
}

/// Whether a file keeps its owner and group.
fn keep_owner(changes: &SetAttr, attr: &Attr) -> bool {
    changes.uid.is_none_or(|uid| uid == attr.uid) && changes.gid.is_none_or(|gid| gid == attr.gid)
}

fn has_set_group_id(mode: u32) -> bool {
    Mode::from_raw_mode(mode).contains(Mode::SGID)
}

fn set_owner(file: &OwnedFd, changes: &SetAttr) -> Result<(), Errno> {
    let uid = changes.uid.map(Uid::from_raw);
    let gid = changes.gid.map(Gid::from_raw);
    chownat(file, c"", uid, gid, AtFlags::EMPTY_PATH)
}

fn timespec(time: Option<SetTime>) -> Timespec {
    let (tv_sec, tv_nsec) = match time {
        None => (0, UTIME_OMIT),
        Some(SetTime::Now) => (0, UTIME_NOW),
        Some(SetTime::At(time)) => (time.seconds, time.nanoseconds.into()),
    };
    Timespec { tv_sec, tv_nsec }
}
