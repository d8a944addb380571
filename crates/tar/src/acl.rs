//! Access control lists as text.

use std::collections::BTreeMap;

use verimount_tree::{AccessList, Rights, Who};

use crate::{error::Defect, number::decimal};

/// The list in a text: entries between commas or line feeds, of tag, user or group, permissions and perhaps the number of the
/// user or group, between colons.
pub(crate) fn parse(text: &[u8]) -> Result<AccessList, Defect> {
    let mut entries = BTreeMap::new();
    for entry in text.split(|byte| matches!(byte, b',' | b'\n')) {
        let entry = entry.split(|byte| *byte == b'#').next();
        let entry = entry.unwrap_or_default().trim_ascii();
        if entry.is_empty() {
            continue;
        }
        let (who, rights) = parse_entry(entry)?;
        if entries.insert(who, rights).is_some() {
            return Err(Defect::AccessList);
        }
    }
    Ok(AccessList::new(entries)?)
}

fn parse_entry(entry: &[u8]) -> Result<(Who, Rights), Defect> {
    let fields: Vec<_> = entry.split(|byte| *byte == b':').collect();
    let (tag, who, rights, number) = match *fields {
        [tag, rights] => (tag, &b""[..], rights, None),
        [tag, who, rights] => (tag, who, rights, None),
        [tag, who, rights, number] => (tag, who, rights, Some(number)),
        _ => return Err(Defect::AccessList),
    };
    let id = || {
        let id = decimal(number.unwrap_or(who)).and_then(|id| u32::try_from(id).ok());
        let id = id.filter(|id| *id != u32::MAX);
        id.ok_or_else(|| Defect::AccessListName(who.into()))
    };
    let who = match (tag, who) {
        (b"u" | b"user", b"") => Who::Owner,
        (b"u" | b"user", _) => Who::User(id()?),
        (b"g" | b"group", b"") => Who::OwningGroup,
        (b"g" | b"group", _) => Who::Group(id()?),
        (b"m" | b"mask", b"") => Who::Mask,
        (b"o" | b"other", b"") => Who::Others,
        _ => return Err(Defect::AccessList),
    };
    Ok((who, parse_rights(rights)?))
}

fn parse_rights(rights: &[u8]) -> Result<Rights, Defect> {
    rights.iter().try_fold(Rights::empty(), |all, right| {
        let right = match right {
            b'r' => Rights::READ,
            b'w' => Rights::WRITE,
            b'x' => Rights::EXECUTE,
            b'-' => Rights::empty(),
            _ => return Err(Defect::AccessList),
        };
        Ok(all.union(right))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_the_kernels_order() {
        let text = b"user::rw-\nuser:joe:r--:1234\nuser:7:rwx\ngroup::r--\ngroup:5:--x #effective:---\nmask::rw-\nother::r--";
        let entries: [(u16, u16, u32); 7] = [
            (1, 6, !0),
            (2, 7, 7),
            (2, 4, 1234),
            (4, 4, !0),
            (8, 1, 5),
            (16, 6, !0),
            (32, 4, !0),
        ];
        let mut expected = vec![2, 0, 0, 0];
        for (tag, permissions, id) in entries {
            expected.extend(tag.to_le_bytes());
            expected.extend(permissions.to_le_bytes());
            expected.extend(id.to_le_bytes());
        }
        assert_eq!(parse(text).unwrap().encode(), expected);
        let short = parse(b"u::rwx,g::r-x,o:r-x").unwrap();
        assert_eq!(short, parse(b"other::rx,group::xr,user::xwr").unwrap());
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for wrong in [
            &b""[..],
            b"user::rwx",
            b"user:5:r--",
            b"user::rwx,user::rwx,group::r-x,other::r-x",
            b"user::rwx,user:5:rwx,user:5:r--,group::r-x,other::r-x",
            b"user::rwz,group::r-x,other::r-x",
            b"who::rwx,group::r-x,other::r-x",
            b"user::rwx,group::r-x,other:5:r-x",
        ] {
            assert_eq!(parse(wrong), Err(Defect::AccessList), "{wrong:?}");
        }
        let named = parse(b"u::rwx,u:joe:r--,g::r-x,m::r-x,o::r-x");
        assert_eq!(named, Err(Defect::AccessListName((*b"joe").into())));
    }
}
