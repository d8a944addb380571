//! Access control lists: as text in archives, in binary form as an extended attribute.

use std::collections::BTreeMap;

use crate::{error::Defect, number::decimal};

/// The version of the binary form.
const VERSION: u32 = 2;

/// The id of an entry that has none.
const NO_ID: u32 = u32::MAX;

/// To whom an entry applies.
mod tag {
    pub(super) const OWNER: u16 = 0x01;
    pub(super) const USER: u16 = 0x02;
    pub(super) const GROUP_OF_FILE: u16 = 0x04;
    pub(super) const GROUP: u16 = 0x08;
    pub(super) const MASK: u16 = 0x10;
    pub(super) const OTHERS: u16 = 0x20;
}

/// A list: permissions by tag and id.
#[derive(Debug)]
pub(crate) struct List(BTreeMap<(u16, u32), u16>);

impl List {
    /// Parses a list: entries between commas or line feeds, of tag, user or group, permissions and perhaps the number
    /// of the user or group, between colons.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, Defect> {
        let mut list = BTreeMap::new();
        for entry in text.split(|byte| matches!(byte, b',' | b'\n')) {
            let entry = entry.split(|byte| *byte == b'#').next();
            let entry = entry.unwrap_or_default().trim_ascii();
            if entry.is_empty() {
                continue;
            }
            let (key, permissions) = parse_entry(entry)?;
            if list.insert(key, permissions).is_some() {
                return Err(Defect::AccessList);
            }
        }
        let has = |tag| list.contains_key(&(tag, NO_ID));
        let names_others = list.keys().any(|(_, id)| *id != NO_ID);
        let is_complete = [tag::OWNER, tag::GROUP_OF_FILE, tag::OTHERS]
            .into_iter()
            .all(has);
        match is_complete && (has(tag::MASK) || !names_others) {
            true => Ok(Self(list)),
            false => Err(Defect::AccessList),
        }
    }

    /// Whether it says no more than the permissions of a file do.
    pub(crate) fn is_minimal(&self) -> bool {
        self.0.len() == 3
    }

    /// The value of the extended attribute.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for ((tag, id), permissions) in &self.0 {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(permissions.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }
}

fn parse_entry(entry: &[u8]) -> Result<((u16, u32), u16), Defect> {
    let fields: Vec<_> = entry.split(|byte| *byte == b':').collect();
    let (tag, who, rights, number) = match *fields {
        [tag, rights] => (tag, &b""[..], rights, None),
        [tag, who, rights] => (tag, who, rights, None),
        [tag, who, rights, number] => (tag, who, rights, Some(number)),
        _ => return Err(Defect::AccessList),
    };
    let (tag, takes_id) = match (tag, who) {
        (b"u" | b"user", b"") => (tag::OWNER, false),
        (b"u" | b"user", _) => (tag::USER, true),
        (b"g" | b"group", b"") => (tag::GROUP_OF_FILE, false),
        (b"g" | b"group", _) => (tag::GROUP, true),
        (b"m" | b"mask", b"") => (tag::MASK, false),
        (b"o" | b"other", b"") => (tag::OTHERS, false),
        _ => return Err(Defect::AccessList),
    };
    let id = match takes_id {
        false => NO_ID,
        true => {
            let id = decimal(number.unwrap_or(who)).and_then(|id| u32::try_from(id).ok());
            let id = id.filter(|id| *id != NO_ID);
            id.ok_or_else(|| Defect::AccessListName(who.into()))?
        }
    };
    Ok(((tag, id), permissions(rights)?))
}

fn permissions(rights: &[u8]) -> Result<u16, Defect> {
    rights.iter().try_fold(0, |bits, right| match right {
        b'r' => Ok(bits | 4),
        b'w' => Ok(bits | 2),
        b'x' => Ok(bits | 1),
        b'-' => Ok(bits),
        _ => Err(Defect::AccessList),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_encoded_in_the_kernels_order() {
        let text = b"user::rw-\nuser:joe:r--:1234\nuser:7:rwx\ngroup::r--\ngroup:5:--x #effective:---\nmask::rw-\nother::r--";
        let list = List::parse(text).unwrap();
        assert!(!list.is_minimal());
        let entries: [(u16, u16, u32); 7] = [
            (1, 6, NO_ID),
            (2, 7, 7),
            (2, 4, 1234),
            (4, 4, NO_ID),
            (8, 1, 5),
            (16, 6, NO_ID),
            (32, 4, NO_ID),
        ];
        let mut expected = vec![2, 0, 0, 0];
        for (tag, permissions, id) in entries {
            expected.extend(tag.to_le_bytes());
            expected.extend(permissions.to_le_bytes());
            expected.extend(id.to_le_bytes());
        }
        assert_eq!(list.encode(), expected);
        let short = List::parse(b"u::rwx,g::r-x,o:r-x").unwrap();
        assert!(short.is_minimal());
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for wrong in [
            &b""[..],
            b"user::rwx",
            b"user::rwx,group::r-x,other::r-x,user:5:r--",
            b"user::rwx,user::rwx,group::r-x,other::r-x",
            b"user::rwz,group::r-x,other::r-x",
            b"who::rwx,group::r-x,other::r-x",
            b"user::rwx,group::r-x,other:5:r-x",
        ] {
            assert_eq!(
                List::parse(wrong).err(),
                Some(Defect::AccessList),
                "{wrong:?}"
            );
        }
        let named = List::parse(b"u::rwx,u:joe:r--,g::r-x,m::r-x,o::r-x");
        assert_eq!(named.err(), Some(Defect::AccessListName((*b"joe").into())));
    }
}
