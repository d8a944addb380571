//! Owners and permissions that a mount shows instead of those in a tree.

use rustix::process::{getegid, geteuid};
use thiserror::Error;
use verimount_tree::{Attr, FileType, Ownership, Permissions};

/// What a mount shows instead of the owners and permissions in a tree's attributes. `None` leaves them
/// as they are.
///
/// Users and groups in access control lists stay as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Owners {
    /// The owner of all files.
    pub uid: Option<u32>,
    /// The group of all files.
    pub gid: Option<u32>,
    /// What is missing from the permissions of all files but symbolic links: 0777 for directories and
    /// executable files, 0666 for others.
    pub umask: Option<Permissions>,
}

/// A tree stores permissions, which cannot be replaced: a mask would grant what they deny.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("its files have permissions of their own, which no umask replaces")]
pub struct PermissionsStored;

impl Owners {
    /// Those of a mount for which nothing else is asked: files of an unknown owner belong to the user who
    /// mounts.
    pub(super) fn default_of(ownership: Ownership) -> Self {
        match ownership {
            Ownership::Unknown => Self {
                uid: Some(geteuid().as_raw()),
                gid: Some(getegid().as_raw()),
                umask: None,
            },
            Ownership::Stored | Ownership::Borrowed => Self::default(),
        }
    }

    /// These, and where they leave something as it is, what the others say.
    pub(super) fn or(self, others: Self) -> Self {
        Self {
            uid: self.uid.or(others.uid),
            gid: self.gid.or(others.gid),
            umask: self.umask.or(others.umask),
        }
    }

    /// The attributes to show.
    pub(super) fn applied(self, attr: &Attr) -> Attr {
        let masked = |umask| match attr.file_type {
            FileType::Symlink => attr.permissions,
            _ => full_permissions(attr).difference(umask),
        };
        Attr {
            uid: self.uid.unwrap_or(attr.uid),
            gid: self.gid.unwrap_or(attr.gid),
            permissions: self.umask.map_or(attr.permissions, masked),
            ..*attr
        }
    }
}

/// What a umask is subtracted from.
fn full_permissions(attr: &Attr) -> Permissions {
    let is_executable = attr.permissions.bits() & 0o111 != 0;
    if attr.is_directory() || is_executable {
        Permissions::new(0o777)
    } else {
        Permissions::new(0o666)
    }
}

#[cfg(test)]
mod tests {
    use verimount_tree::NodeId;

    use super::*;

    fn attr(file_type: FileType, mode: u32) -> Attr {
        Attr {
            uid: 1,
            gid: 2,
            ..Attr::new(NodeId::ROOT, file_type, Permissions::new(mode), 3)
        }
    }

    fn mode(umask: u32, attr: &Attr) -> u16 {
        let owners = Owners {
            umask: Some(Permissions::new(umask)),
            ..Owners::default()
        };
        owners.applied(attr).permissions.bits()
    }

    #[test]
    fn what_is_not_replaced_stays() {
        let attr = attr(FileType::RegularFile, 0o6444);
        assert_eq!(Owners::default().applied(&attr), attr);
        let owned = Owners {
            uid: Some(1000),
            ..Owners::default()
        };
        assert_eq!(owned.applied(&attr), Attr { uid: 1000, ..attr });
        let owned = Owners {
            gid: Some(0),
            ..Owners::default()
        };
        assert_eq!(owned.applied(&attr), Attr { gid: 0, ..attr });
    }

    #[test]
    fn a_umask_keeps_types_and_executables() {
        let directory = attr(FileType::Directory, 0o555);
        let program = attr(FileType::RegularFile, 0o500);
        let data = attr(FileType::RegularFile, 0o400);
        let link = attr(FileType::Symlink, 0o777);
        for (umask, expected) in [
            (0o022, [0o755, 0o755, 0o644, 0o777]),
            (0o077, [0o700, 0o700, 0o600, 0o777]),
            (0, [0o777, 0o777, 0o666, 0o777]),
            (0o777, [0, 0, 0, 0o777]),
        ] {
            let modes = [&directory, &program, &data, &link].map(|attr| mode(umask, attr));
            assert_eq!(modes, expected, "{umask:o}");
        }
        assert_eq!(mode(0, &attr(FileType::RegularFile, 0o6755)), 0o777);
    }

    #[test]
    fn only_unknown_owners_become_the_user_who_mounts() {
        let by =
            |ownership| Owners::default_of(ownership).applied(&attr(FileType::Directory, 0o755));
        let user = (geteuid().as_raw(), getegid().as_raw());
        let unknown = by(Ownership::Unknown);
        assert_eq!((unknown.uid, unknown.gid), user);
        for ownership in [Ownership::Stored, Ownership::Borrowed] {
            assert_eq!(by(ownership), attr(FileType::Directory, 0o755));
        }
    }
}
