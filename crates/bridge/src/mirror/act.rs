use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::Mirror;
use crate::{Attr, Caller, Rights, credentials::Owner, node::FileId, rights::Involved};

/// What an operation changes.
#[derive(Clone, Copy)]
pub(super) enum Changed<'a> {
    /// A file, which must be the caller's own, or the caller must have a capability.
    Own(&'a OwnedFd),
    /// A file.
    File(&'a OwnedFd),
    /// A directory, in which a file is made.
    Directory(&'a OwnedFd),
    /// Entries of directories. The file of which a name is changed is found when it matters.
    Entries(
        &'a [&'a OwnedFd],
        &'a dyn Fn() -> Result<(FileId, Attr), Errno>,
    ),
}

/// Acting for callers.
impl Mirror {
    /// Makes a change with the rights of its caller.
    pub(super) fn act<T>(
        &self,
        caller: Caller,
        changed: Changed<'_>,
        change: impl Fn() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.for_change()?;
        let _acting = self
            .rights
            .act_as(&self.callers, caller, || self.involved(changed))?;
        change()
    }

    /// Makes a change that its caller, as an owner, may make whatever their groups and capabilities are, and with the
    /// same effect: these are found out only if it fails without.
    pub(super) fn act_as_owner<T>(
        &self,
        caller: Caller,
        changed: Changed<'_>,
        change: impl Fn() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.for_change()?;
        if let Rights::Callers { .. } = self.rights
            && self.may_own(caller, changed)?
        {
            // Only ownership counts for an own file. Elsewhere, what is made gets the group, and a
            // directory that is moved may be writable for it.
            let group_counts = !matches!(changed, Changed::Own(_));
            let acting = self.rights.act_as_owner(caller, group_counts)?;
            let made = change();
            drop(acting);
            if !matches!(made, Err(Errno::PERM | Errno::ACCESS)) {
                return made;
            }
        }
        self.act(caller, changed, change)
    }

    /// Whether a caller seems to own what is changed. Others get access by groups, which would be missing.
    fn may_own(&self, caller: Caller, changed: Changed<'_>) -> Result<bool, Errno> {
        let owns = |file: &OwnedFd| {
            let (_, attr) = self.source.examine_open(file)?;
            Ok(attr.uid == caller.uid)
        };
        match changed {
            // The source refuses it to all others.
            Changed::Own(_) => Ok(true),
            Changed::File(file) | Changed::Directory(file) => owns(file),
            Changed::Entries(directories, _) => {
                for directory in directories {
                    if !owns(directory)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn involved(&self, changed: Changed<'_>) -> Result<Involved, Errno> {
        let owner = |file: &OwnedFd| Ok(Owner::from(&self.source.examine_open(file)?.1));
        Ok(match changed {
            Changed::Own(file) | Changed::File(file) => Involved {
                changed: Some(owner(file)?),
                directories: Vec::new(),
            },
            Changed::Directory(directory) => Involved {
                changed: None,
                directories: vec![owner(directory)?],
            },
            Changed::Entries(directories, file) => Involved {
                changed: Some(Owner::from(&file()?.1)),
                directories: directories
                    .iter()
                    .map(|directory| owner(directory))
                    .collect::<Result<_, Errno>>()?,
            },
        })
    }
}
