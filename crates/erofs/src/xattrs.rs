//! Extended attributes.

use std::{ffi::OsStr, ops::ControlFlow, os::unix::ffi::OsStrExt};

use twox_hash::XxHash32;
use verimount_tree::{Error as TreeError, XattrNames};
use zerocopy::{FromBytes, little_endian::U32};

use crate::{
    Error,
    error::Defect,
    features::Compatible,
    image::Image,
    inode::Inode,
    numbers::{to_u64, to_usize},
    raw::{self, XATTR_SLOT, xattr_index},
    space::{Address, Space},
};

/// The most attributes in an inode's own region, which could have 2¹⁶: each that is asked for is looked for among all. More than
/// a listing has room for with names of 3 bytes and their prefixes.
pub(crate) const MAX_OWN: usize = 1 << 13;

/// What is added to the number of a name's beginning as the seed of its hash.
const FILTER_SEED: u32 = 0x25bb_e08f;

/// The beginnings of names by number. Names with others are not shown by any reader.
const BASES: [(u8, &[u8]); 5] = [
    (xattr_index::USER, b"user."),
    (xattr_index::ACL_ACCESS, b"system.posix_acl_access"),
    (xattr_index::ACL_DEFAULT, b"system.posix_acl_default"),
    (xattr_index::TRUSTED, b"trusted."),
    (xattr_index::SECURITY, b"security."),
];

/// An attribute as it is stored.
#[derive(Clone, Copy)]
struct Stored<'b> {
    index: u8,
    /// What follows the prefix.
    name: &'b [u8],
    value: &'b [u8],
}

impl Image {
    /// The names of a file's attributes.
    pub(crate) fn xattr_names(&self, inode: &Inode) -> Result<XattrNames, TreeError> {
        let mut names = XattrNames::default();
        let mut failed = None;
        self.each_xattr(inode, |stored| {
            let Some(name) = self.full_name(stored) else {
                return ControlFlow::Continue(());
            };
            match names.push(OsStr::from_bytes(&name)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(names), Err)
    }

    /// The value of an attribute; `None` if the file has none of this name.
    pub(crate) fn xattr(&self, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if inode.xattrs.len == 0 || self.is_filtered_out(inode, name)? {
            return Ok(None);
        }
        let mut value = None;
        self.each_xattr(inode, |stored| {
            if self.has_name(stored, name) {
                value = Some(stored.value.to_vec());
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        Ok(value)
    }

    /// Gives the attributes of an inode to `visit` until it breaks: its own, then the shared ones.
    fn each_xattr(
        &self,
        inode: &Inode,
        mut visit: impl FnMut(Stored<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let region = inode.xattrs;
        if region.len == 0 {
            return Ok(());
        }
        let bytes = self.bytes(region.at, to_usize(region.len))?;
        let corrupt = || Defect::XattrRange.at(region.at);
        let (shared, mut own) = split(&bytes).ok_or_else(corrupt)?;
        for _ in 0..MAX_OWN {
            if own.is_empty() {
                break;
            }
            self.work.add_attribute();
            let (stored, rest) = parse(own).ok_or_else(corrupt)?;
            if visit(stored).is_break() {
                return Ok(());
            }
            own = rest;
        }
        if !own.is_empty() {
            return Err(Defect::XattrCount.at(region.at).into());
        }
        for number in shared {
            if self.visit_shared(number.get(), &mut visit)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Gives the shared attribute with this number to `visit`.
    fn visit_shared(
        &self,
        number: u32,
        visit: &mut impl FnMut(Stored<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Error> {
        self.work.add_attribute();
        let address = self.shared_xattr(number)?;
        let entry: raw::XattrEntry = self.structure(address)?;
        let bytes = self.bytes(address, entry_len(&entry))?;
        let (stored, _) = parse(&bytes).ok_or(Defect::XattrRange.at(address))?;
        Ok(visit(stored))
    }

    /// Where the shared attribute with this number is.
    fn shared_xattr(&self, number: u32) -> Result<Address, Error> {
        let superblock = &self.superblock;
        let is_in_metabox = superblock
            .compatible
            .contains(Compatible::SHARED_XATTRS_IN_METABOX);
        let metabox = superblock.metabox.filter(|_| is_in_metabox);
        let first = Address {
            space: metabox.map_or(Space::Image, Space::Content),
            at: superblock.xattrs_at,
        };
        let address = first.plus(u64::from(number).saturating_mul(XATTR_SLOT));
        Ok(address.ok_or(Defect::XattrRange.at(first))?)
    }

    /// Where the shared attributes of an inode are.
    pub(crate) fn shared_xattrs(&self, inode: &Inode) -> Result<Vec<Address>, Error> {
        let region = inode.xattrs;
        if region.len == 0 {
            return Ok(Vec::new());
        }
        let bytes = self.bytes(region.at, to_usize(region.len))?;
        let (shared, _) = split(&bytes).ok_or(Defect::XattrRange.at(region.at))?;
        let addresses = shared.iter().map(|number| self.shared_xattr(number.get()));
        addresses.collect()
    }

    /// The length in bytes of the attribute at `at`.
    pub(crate) fn xattr_len(&self, at: Address) -> Result<u64, Error> {
        let entry: raw::XattrEntry = self.structure(at)?;
        Ok(to_u64(entry_len(&entry)))
    }

    /// Whether the inode's filter says that it has no attribute of this name, which saves looking for it.
    fn is_filtered_out(&self, inode: &Inode, name: &[u8]) -> Result<bool, Error> {
        if !self.superblock.has_xattr_filter {
            return Ok(false);
        }
        let header: raw::XattrHeader = self.structure(inode.xattrs.at)?;
        Ok(split_name(name).is_some_and(|(base, rest)| {
            header.absent.get() & 1_u32.rotate_left(filter_position(base, rest)) != 0
        }))
    }

    /// The whole name; `None` if it is not shown.
    fn full_name(&self, stored: Stored<'_>) -> Option<Vec<u8>> {
        let (base, infix) = self.prefix(stored.index)?;
        let name = [base, infix, stored.name].concat();
        split_name(&name).is_some().then_some(name)
    }

    fn has_name(&self, stored: Stored<'_>, name: &[u8]) -> bool {
        let suffix = self
            .prefix(stored.index)
            .and_then(|(base, infix)| name.strip_prefix(base)?.strip_prefix(infix));
        suffix == Some(stored.name) && split_name(name).is_some()
    }

    /// What a name with this number begins with, in two parts.
    fn prefix(&self, index: u8) -> Option<(&'static [u8], &[u8])> {
        let (base, infix) = match index & xattr_index::LONG_PREFIX {
            0 => (index, &[][..]),
            _ => {
                let prefix = self.xattr_prefixes.get(index & !xattr_index::LONG_PREFIX)?;
                (prefix.base, prefix.infix.as_slice())
            }
        };
        let (_, name) = BASES.iter().find(|(number, _)| *number == base)?;
        Some((name, infix))
    }
}

/// The number of a name's beginning, and the rest of the name. `None` of a name that no reader shows.
pub(crate) fn split_name(name: &[u8]) -> Option<(u8, &[u8])> {
    BASES.iter().find_map(|(base, beginning)| {
        let rest = name.strip_prefix(*beginning)?;
        // `user.` alone is no name, while those of access control lists have nothing behind.
        (rest.is_empty() != beginning.ends_with(b".")).then_some((*base, rest))
    })
}

/// The bit of a filter for a name without its numbered beginning.
pub(crate) fn filter_position(base: u8, name: &[u8]) -> u32 {
    XxHash32::oneshot(FILTER_SEED.wrapping_add(base.into()), name) & 31
}

/// The attributes of an inode: the numbers of shared ones, and the bytes of its own.
fn split(region: &[u8]) -> Option<(&[U32], &[u8])> {
    let (header, rest) = raw::XattrHeader::read_from_prefix(region).ok()?;
    <[U32]>::ref_from_prefix_with_elems(rest, header.shared.into()).ok()
}

/// The length of an attribute in bytes, without padding.
fn entry_len(entry: &raw::XattrEntry) -> usize {
    size_of::<raw::XattrEntry>()
        .saturating_add(entry.name_len.into())
        .saturating_add(entry.value_len.get().into())
}

/// The attribute at the beginning of `bytes`, and what follows its padding.
fn parse(bytes: &[u8]) -> Option<(Stored<'_>, &[u8])> {
    let (entry, behind) = raw::XattrEntry::read_from_prefix(bytes).ok()?;
    let (name, behind) = behind.split_at_checked(entry.name_len.into())?;
    let value = behind.get(..entry.value_len.get().into())?;
    let padded = to_u64(entry_len(&entry)).checked_next_multiple_of(XATTR_SLOT)?;
    // A last one need not be padded.
    let rest = bytes.get(to_usize(padded)..).unwrap_or_default();
    let index = entry.index;
    Some((Stored { index, name, value }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_into_number_and_rest() {
        for (name, expected) in [
            ("user.a.b", Some((1, "a.b"))),
            ("trusted.x", Some((4, "x"))),
            ("security.capability", Some((6, "capability"))),
            ("system.posix_acl_access", Some((2, ""))),
            ("system.posix_acl_default", Some((3, ""))),
            ("system.posix_acl_other", None),
            ("lustre.lov", None),
            ("user", None),
            ("user.", None),
            ("trusted.", None),
            ("security.", None),
        ] {
            let expected = expected.map(|(index, rest): (u8, &str)| (index, rest.as_bytes()));
            assert_eq!(split_name(name.as_bytes()), expected, "{name}");
        }
    }
}
