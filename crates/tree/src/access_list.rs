//! POSIX access control lists: their form as an attribute, and what a list and the permissions of its file say of each
//! other.

#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

use bitflags::bitflags;
use thiserror::Error;

use crate::Permissions;

/// The attribute with the access control list of a file.
pub const ACCESS_LIST: &str = "system.posix_acl_access";

/// The attribute with the access control list that files in a directory inherit.
pub const DEFAULT_ACCESS_LIST: &str = "system.posix_acl_default";

/// The version of the form as an attribute.
const VERSION: [u8; 4] = 2_u32.to_le_bytes();

/// The number in entries that name nobody.
const NOBODY: u32 = u32::MAX;

/// Set-id and sticky bits, of which lists say nothing.
const SPECIAL: Permissions = Permissions::new(0o7000);

/// What the group may do; of a file with a list, the mask.
const GROUP: Permissions = Permissions::new(0o070);

/// All that only the owner may do.
const OWNERS: Permissions = Permissions::new(0o7700);

/// To whom an entry applies (`linux/posix_acl.h`).
mod tag {
    pub(super) const OWNER: u16 = 0x01;
    pub(super) const USER: u16 = 0x02;
    pub(super) const OWNING_GROUP: u16 = 0x04;
    pub(super) const GROUP: u16 = 0x08;
    pub(super) const MASK: u16 = 0x10;
    pub(super) const OTHERS: u16 = 0x20;
}

bitflags! {
    /// What an entry of a list allows.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Rights: u16 {
        /// To read.
        const READ = 4;
        /// To write.
        const WRITE = 2;
        /// To execute, or to search a directory.
        const EXECUTE = 1;
    }
}

/// To whom an entry of a list applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// The owner of the file.
    Owner,
    /// The user with this number.
    User(u32),
    /// The group of the file.
    OwningGroup,
    /// The group with this number.
    Group(u32),
    /// All but the owner and others: the most that their entries allow.
    Mask,
    /// Everybody else.
    Others,
}

/// It is not an access control list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the access control list is invalid")]
pub struct InvalidAccessList;

/// An access control list that Linux takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessList {
    owner: Rights,
    users: Vec<(u32, Rights)>,
    group: Rights,
    groups: Vec<(u32, Rights)>,
    /// There is one if users or groups are named.
    mask: Option<Rights>,
    others: Rights,
}

impl AccessList {
    /// The list of these entries, in any order. If it needs a mask and has none, it gets that of `setfacl`: all that the
    /// entries below it allow.
    ///
    /// # Errors
    /// [`InvalidAccessList`] if the owner, the group or others are missing, if one of them or the mask is there twice, or
    /// for a user or group of no number.
    pub fn new(
        entries: impl IntoIterator<Item = (Who, Rights)>,
    ) -> Result<Self, InvalidAccessList> {
        let (mut owner, mut group, mut mask, mut others) = (None, None, None, None);
        let (mut users, mut groups) = (Vec::new(), Vec::new());
        for (who, rights) in entries {
            let only = match who {
                Who::User(NOBODY) | Who::Group(NOBODY) => return Err(InvalidAccessList),
                Who::User(id) => {
                    users.push((id, rights));
                    continue;
                }
                Who::Group(id) => {
                    groups.push((id, rights));
                    continue;
                }
                Who::Owner => &mut owner,
                Who::OwningGroup => &mut group,
                Who::Mask => &mut mask,
                Who::Others => &mut others,
            };
            if only.replace(rights).is_some() {
                return Err(InvalidAccessList);
            }
        }
        let (Some(owner), Some(group), Some(others)) = (owner, group, others) else {
            return Err(InvalidAccessList);
        };
        let named = users.iter().chain(&groups).map(|(_, rights)| *rights);
        let needed = named.reduce(Rights::union);
        Ok(Self {
            owner,
            users,
            group,
            groups,
            mask: mask.or_else(|| Some(needed?.union(group))),
            others,
        })
    }

    /// The list in the value of an attribute; `None` if it has no entries, which Linux takes for no list.
    ///
    /// # Errors
    /// As [`Self::new`], and for what is not the value of such an attribute.
    pub fn decode(value: &[u8]) -> Result<Option<Self>, InvalidAccessList> {
        if value.is_empty() {
            return Ok(None);
        }
        let (version, entries) = value.split_first_chunk().ok_or(InvalidAccessList)?;
        let (entries, rest) = entries.as_chunks();
        if *version != VERSION || !rest.is_empty() {
            return Err(InvalidAccessList);
        }
        let entries = entries.iter().map(decode_entry);
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        if entries.is_empty() {
            Ok(None)
        } else {
            Self::new(entries).map(Some)
        }
    }

    /// The value of the attribute.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = VERSION.to_vec();
        let mut add = |tag: u16, rights: Rights, id: u32| {
            value.extend(tag.to_le_bytes());
            value.extend(rights.bits().to_le_bytes());
            value.extend(id.to_le_bytes());
        };
        add(tag::OWNER, self.owner, NOBODY);
        for (id, rights) in &self.users {
            add(tag::USER, *rights, *id);
        }
        add(tag::OWNING_GROUP, self.group, NOBODY);
        for (id, rights) in &self.groups {
            add(tag::GROUP, *rights, *id);
        }
        if let Some(mask) = self.mask {
            add(tag::MASK, mask, NOBODY);
        }
        add(tag::OTHERS, self.others, NOBODY);
        value
    }

    /// What a file with these permissions has when it gets this list, as Linux sets it: the permissions are those of the
    /// owner, of the mask or else the group, and of others. A list that says no more than they do is none.
    pub fn set_on(self, permissions: Permissions) -> (Permissions, Option<Self>) {
        let group = self.mask.unwrap_or(self.group);
        let special = permissions.intersection(SPECIAL).bits();
        let permissions = Permissions::new(u32::from(special | of(self.owner, group, self.others)));
        (permissions, self.mask.is_some().then_some(self))
    }

    /// What a file with these permissions, and a list in this attribute, has when it loses the list: nobody can do more than
    /// before.
    pub fn removed_from(permissions: Permissions, value: &[u8]) -> Permissions {
        // Linux looks at no list if the group has no rights.
        if permissions.intersection(GROUP).bits() == 0 {
            return permissions;
        }
        match Self::decode(value) {
            Ok(None) => permissions,
            Ok(Some(list)) => permissions.intersection(list.least()),
            // With such a list, only the owner has access.
            Err(InvalidAccessList) => permissions.intersection(OWNERS),
        }
    }

    /// What the list denies to nobody in each class. A named user may be in the file's group or not, and so may the members
    /// of a named group, but these have the rights of all their groups.
    fn least(&self) -> Permissions {
        let mask = self.mask.unwrap_or(Rights::all());
        let least = |named: &[(u32, Rights)]| {
            let masked = named.iter().map(|(_, rights)| rights.intersection(mask));
            masked.fold(Rights::all(), Rights::intersection)
        };
        let users = least(&self.users);
        let group = self.group.intersection(mask).intersection(users);
        let others = self.others.intersection(users);
        let others = others.intersection(least(&self.groups));
        let shared = of(Rights::empty(), group, others);
        Permissions::new(u32::from(OWNERS.bits() | shared))
    }
}

fn decode_entry(entry: &[u8; 8]) -> Result<(Who, Rights), InvalidAccessList> {
    let &[tag0, tag1, rights0, rights1, id0, id1, id2, id3] = entry;
    let id = u32::from_le_bytes([id0, id1, id2, id3]);
    let who = match u16::from_le_bytes([tag0, tag1]) {
        tag::OWNER => Who::Owner,
        tag::USER => Who::User(id),
        tag::OWNING_GROUP => Who::OwningGroup,
        tag::GROUP => Who::Group(id),
        tag::MASK => Who::Mask,
        tag::OTHERS => Who::Others,
        _ => return Err(InvalidAccessList),
    };
    let rights = Rights::from_bits(u16::from_le_bytes([rights0, rights1]));
    Ok((who, rights.ok_or(InvalidAccessList)?))
}

/// The bits of permissions that these three have.
fn of(owner: Rights, group: Rights, others: Rights) -> u16 {
    (owner.bits() << 6) | (group.bits() << 3) | others.bits()
}
