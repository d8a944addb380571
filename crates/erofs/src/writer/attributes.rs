//! Extended attributes: which inodes share them, and their bytes.

use std::{cmp::Reverse, mem};

use verimount_scan::{Inode, SourceTree, Xattr, XattrId, XattrSetId};
use verimount_tree::MAX_XATTR_LIST;
use zerocopy::IntoBytes;

use super::{BuildError, Unstorable};
use crate::{
    raw::{XATTR_SLOT, XattrEntry, XattrHeader, xattr_index},
    xattrs::{MAX_OWN, filter_position, split_name},
};

/// The most attributes that an inode can share: their number has 8 bits.
const MAX_SHARED: usize = 255;

/// An attribute that takes more is stored with the shared ones, so that inodes stay near each other.
const MAX_INLINE: u64 = 1024;

/// The most bytes of the attributes behind an inode: their number has 16 bits, and counts units of 4 but
/// for the header.
const MAX_REGION: u64 = HEADER + XATTR_SLOT * (u16::MAX as u64 - 1);

/// Bytes of the header of an inode's attributes.
const HEADER: u64 = size_of::<XattrHeader>() as u64;

/// Where the attributes of a tree are stored.
#[derive(Debug)]
pub(super) struct Attributes {
    /// By the attributes' numbers: where a shared one is, in units of 4 bytes.
    shared: Vec<Option<u32>>,
    /// The shared ones in the order of their places.
    in_order: Vec<XattrId>,
    /// Bytes of all shared attributes.
    pub(super) shared_len: u64,
    /// Whether an inode has any.
    pub(super) exist: bool,
    /// Whether an inode has an access control list.
    pub(super) has_access_lists: bool,
}

impl Attributes {
    /// Refuses what the format cannot represent, or nobody could list.
    pub(super) fn new(tree: &SourceTree) -> Result<Self, BuildError> {
        let mut checked = vec![false; tree.xattrs().set_count()];
        let mut uses = vec![0_u64; tree.xattrs().count()];
        for inode in tree.inodes() {
            for (id, _) in tree.xattrs().set(inode.attributes) {
                uses[id.index()] += 1;
            }
            if !mem::replace(&mut checked[inode.attributes.index()], true) {
                check(tree, inode.attributes).map_err(|reason| unstorable(tree, inode, reason))?;
            }
        }
        let mut attributes = Self {
            shared: vec![None; tree.xattrs().count()],
            in_order: Vec::new(),
            shared_len: 0,
            exist: uses.iter().any(|uses| *uses > 0),
            has_access_lists: tree.xattrs().all().any(|(id, xattr)| {
                let (index, _) = parts(xattr);
                let is_list = matches!(index, xattr_index::ACL_ACCESS | xattr_index::ACL_DEFAULT);
                is_list && uses[id.index()] > 0
            }),
        };
        attributes.share(tree, &uses)?;
        let too_long = |inode: &&Inode| attributes.len(tree, inode.attributes) > MAX_REGION;
        match tree.inodes().iter().find(too_long) {
            Some(inode) => Err(unstorable(tree, inode, Unstorable::Attributes)),
            None => Ok(attributes),
        }
    }

    /// Gives each shared attribute a place.
    fn share(&mut self, tree: &SourceTree, uses: &[u64]) -> Result<(), BuildError> {
        self.in_order = shared(tree, uses);
        for id in &self.in_order {
            let place = u32::try_from(self.shared_len / XATTR_SLOT);
            let too_many = |_| BuildError::unstorable(tree.root(), Unstorable::SharedAttributes);
            self.shared[id.index()] = Some(place.map_err(too_many)?);
            self.shared_len += entry_len(tree.xattrs().get(*id));
        }
        Ok(())
    }

    /// The bytes of all shared attributes, one after the other.
    pub(super) fn encode_shared<'t>(
        &'t self,
        tree: &'t SourceTree,
    ) -> impl Iterator<Item = Vec<u8>> + 't {
        self.in_order.iter().map(|id| {
            let mut bytes = Vec::new();
            encode_entry(tree.xattrs().get(*id), &mut bytes);
            bytes
        })
    }

    /// Bytes behind an inode with this set.
    pub(super) fn len(&self, tree: &SourceTree, set: XattrSetId) -> u64 {
        if set == XattrSetId::EMPTY {
            return 0;
        }
        let entries = tree
            .xattrs()
            .set(set)
            .enumerate()
            .map(|(number, (id, xattr))| match self.shared_id(number, id) {
                Some(_) => XATTR_SLOT,
                None => entry_len(xattr),
            });
        HEADER + entries.sum::<u64>()
    }

    /// The bytes behind an inode with this set.
    pub(super) fn encode(&self, tree: &SourceTree, set: XattrSetId) -> Vec<u8> {
        if set == XattrSetId::EMPTY {
            return Vec::new();
        }
        let (mut shared, mut inline, mut absent) = (Vec::new(), Vec::new(), u32::MAX);
        for (number, (id, xattr)) in tree.xattrs().set(set).enumerate() {
            absent &= !filter_bit(xattr);
            match self.shared_id(number, id) {
                Some(place) => shared.push(place),
                None => encode_entry(xattr, &mut inline),
            }
        }
        let header = XattrHeader {
            absent: absent.into(),
            shared: shared.len() as u8,
            reserved: [0; 7],
        };
        let shared = shared.iter().flat_map(|place| place.to_le_bytes());
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend(shared);
        bytes.extend(inline);
        bytes
    }

    /// The place of an attribute that is shared, if it is among the first of its set.
    fn shared_id(&self, number: usize, id: XattrId) -> Option<u32> {
        self.shared[id.index()].filter(|_| number < MAX_SHARED)
    }
}

/// The attributes that several inodes have, or that one has and that are large. What no inode has is not stored: its file was
/// left out or replaced.
///
/// Those of most inodes come first, so that the places that most inodes name do not change with a rare attribute. The
/// attributes' numbers must not count: they depend on the order of an archive's members.
fn shared(tree: &SourceTree, uses: &[u64]) -> Vec<XattrId> {
    let is_shared = |(id, xattr): &(XattrId, &Xattr)| match uses[id.index()] {
        0 => false,
        1 => entry_len(xattr) > MAX_INLINE,
        _ => true,
    };
    let mut shared: Vec<_> = tree.xattrs().all().filter(is_shared).collect();
    shared.sort_unstable_by_key(|(id, xattr)| (Reverse(uses[id.index()]), *xattr));
    shared.into_iter().map(|(id, _)| id).collect()
}

fn unstorable(tree: &SourceTree, inode: &Inode, reason: Unstorable) -> BuildError {
    BuildError::unstorable(tree.entry(inode.first_name), reason)
}

/// The value of `i_xattr_icount` for this many bytes behind an inode.
pub(super) fn count(len: u64) -> u16 {
    match len {
        0 => 0,
        // No longer than `MAX_REGION`.
        _ => ((len - HEADER) / XATTR_SLOT + 1) as u16,
    }
}

/// Refuses a set that the format cannot represent, or of which nobody could list the names.
fn check(tree: &SourceTree, set: XattrSetId) -> Result<(), Unstorable> {
    let names = tree
        .xattrs()
        .set(set)
        .map(|(_, xattr)| xattr.name.len() + 1);
    if names.len() > MAX_OWN {
        return Err(Unstorable::AttributeCount);
    }
    if names.sum::<usize>() > MAX_XATTR_LIST {
        return Err(Unstorable::AttributeNames);
    }
    for (_, xattr) in tree.xattrs().set(set) {
        let name = || String::from_utf8_lossy(&xattr.name).into_owned();
        if split_name(&xattr.name).is_none() {
            return Err(Unstorable::AttributeNamespace(name()));
        }
        if u16::try_from(xattr.value.len()).is_err() {
            return Err(Unstorable::AttributeTooLong(name()));
        }
    }
    Ok(())
}

/// The parts of an attribute that has been checked.
fn parts(xattr: &Xattr) -> (u8, &[u8]) {
    split_name(&xattr.name).unwrap_or_default()
}

/// Bytes of an attribute with its padding.
fn entry_len(xattr: &Xattr) -> u64 {
    let (_, name) = parts(xattr);
    let len = size_of::<XattrEntry>() + name.len() + xattr.value.len();
    (len as u64).next_multiple_of(XATTR_SLOT)
}

fn encode_entry(xattr: &Xattr, bytes: &mut Vec<u8>) {
    let (index, name) = parts(xattr);
    let header = XattrEntry {
        name_len: name.len() as u8,
        index,
        value_len: (xattr.value.len() as u16).into(),
    };
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(&xattr.value);
    bytes.resize(bytes.len().next_multiple_of(XATTR_SLOT as usize), 0);
}

/// The bit for an attribute's name that is 0 where it may be present.
fn filter_bit(xattr: &Xattr) -> u32 {
    let (index, name) = parts(xattr);
    1 << filter_position(index, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_padded() {
        let xattr = Xattr {
            name: (*b"user.ab").into(),
            value: (*b"xyz").into(),
        };
        let mut bytes = Vec::new();
        encode_entry(&xattr, &mut bytes);
        assert_eq!(bytes, b"\x02\x01\x03\0abxyz\0\0\0");
        assert_eq!(entry_len(&xattr), 12);
    }

    #[test]
    fn the_count_has_the_header_as_one() {
        assert_eq!([0, 16, 20].map(count), [0, 2, 3]);
        assert_eq!(count(MAX_REGION), u16::MAX);
    }
}
