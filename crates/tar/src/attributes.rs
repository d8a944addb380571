//! Extended attributes, which every archiver has in records of its own.

use std::collections::{BTreeMap, btree_map::Entry};

use ct_codecs::{Base64NoPadding, Decoder};

use crate::{Attribute, acl::List, error::Defect, extension::Effect};

/// The longest name in bytes.
const MAX_NAME: usize = 255;

/// The attributes that other records stand for.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";
const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";
const LABEL: &[u8] = b"security.selinux";

/// The attributes in the records of a member. An empty ACL or label record counts as absent.
#[derive(Debug, Default)]
pub(crate) struct AttributeRecords {
    /// Those of star and GNU tar: names and values.
    plain: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Those of libarchive: names with percent signs, values in Base64.
    encoded: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Access control lists as text.
    access_list: Vec<u8>,
    default_list: Vec<u8>,
    /// A label of SELinux, without the NUL at its end.
    label: Vec<u8>,
}

impl AttributeRecords {
    /// Takes a record, if it is one of an attribute.
    pub(crate) fn take(&mut self, key: &[u8], value: &[u8]) -> Effect {
        if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
            self.plain.insert(name.into(), value.into());
        } else if let Some(name) = key.strip_prefix(b"LIBARCHIVE.xattr.") {
            self.encoded.insert(name.into(), value.into());
        } else {
            let field = match key {
                b"SCHILY.acl.access" => &mut self.access_list,
                b"SCHILY.acl.default" => &mut self.default_list,
                b"RHT.security.selinux" => &mut self.label,
                _ => return Effect::Ignored,
            };
            *field = value.into();
        }
        Effect::Taken
    }

    /// The attributes, by the bytes of their names. What is there as an attribute itself counts more than what
    /// stands for it.
    pub(crate) fn finish(self) -> Result<Vec<Attribute>, Defect> {
        let mut all = self.plain;
        for (name, value) in self.encoded {
            if let Entry::Vacant(entry) = all.entry(unescape(&name)?) {
                entry.insert(decode(&value)?);
            }
        }
        if let Some(list) =
            list(&self.access_list, &all, ACCESS_LIST)?.filter(|list| !list.is_minimal())
        {
            all.insert(ACCESS_LIST.into(), list.encode());
        }
        if let Some(list) = list(&self.default_list, &all, DEFAULT_LIST)? {
            all.insert(DEFAULT_LIST.into(), list.encode());
        }
        if !self.label.is_empty() {
            let value = [&*self.label, b"\0"].concat();
            all.entry(LABEL.into()).or_insert(value);
        }
        let attributes = all.into_iter().map(|(name, value)| {
            match (1..=MAX_NAME).contains(&name.len()) && !name.contains(&0) {
                true => Ok(Attribute {
                    name: name.into(),
                    value: value.into(),
                }),
                false => Err(Defect::AttributeName),
            }
        });
        attributes.collect()
    }
}

/// The list in a record, unless the attribute itself is there: a text may name users without their numbers.
fn list(
    text: &[u8],
    all: &BTreeMap<Vec<u8>, Vec<u8>>,
    attribute: &[u8],
) -> Result<Option<List>, Defect> {
    match text.is_empty() || all.contains_key(attribute) {
        true => Ok(None),
        false => List::parse(text).map(Some),
    }
}

/// A name in which characters are written as a percent sign and two hexadecimal digits.
fn unescape(name: &[u8]) -> Result<Vec<u8>, Defect> {
    let mut plain = Vec::new();
    let mut rest = name;
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        let byte = match byte {
            b'%' => {
                let (digits, behind) = rest.split_at_checked(2).ok_or(Defect::AttributeName)?;
                rest = behind;
                let digits = str::from_utf8(digits).map_err(|_| Defect::AttributeName)?;
                u8::from_str_radix(digits, 16).map_err(|_| Defect::AttributeName)?
            }
            byte => *byte,
        };
        plain.push(byte);
    }
    Ok(plain)
}

/// A value in Base64, with or without padding.
fn decode(value: &[u8]) -> Result<Vec<u8>, Defect> {
    let decoded = Base64NoPadding::decode_to_vec(value, Some(b"="));
    decoded.map_err(|_| Defect::Record((*b"LIBARCHIVE.xattr").into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(records: &[(&str, &[u8])]) -> Result<Vec<(String, Vec<u8>)>, Defect> {
        let mut all = AttributeRecords::default();
        for (key, value) in records {
            all.take(key.as_bytes(), value);
        }
        let name = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
        let all = all.finish()?.into_iter();
        Ok(all
            .map(|attribute| (name(&attribute.name), attribute.value.to_vec()))
            .collect())
    }

    #[test]
    fn attributes_come_from_the_records_of_all_archivers() {
        let found = attributes(&[
            ("SCHILY.xattr.user.empty", b""),
            ("SCHILY.xattr.user.x", b"1\n2"),
            ("LIBARCHIVE.xattr.user.x", b"ignored, and no Base64"),
            ("LIBARCHIVE.xattr.user.a%25%0a", b"AAEC"),
            ("LIBARCHIVE.xattr.user.b", b"AA=="),
            ("RHT.security.selinux", b"label"),
            ("SCHILY.acl.access", b"user::rwx,group::r-x,other::r-x"),
            ("SCHILY.acl.default", b"user::rwx,group::r-x,other::---"),
            ("SCHILY.ino", b"5"),
        ]);
        let found = found.unwrap();
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        let expected = [
            "security.selinux",
            "system.posix_acl_default",
            "user.a%\n",
            "user.b",
            "user.empty",
            "user.x",
        ];
        assert_eq!(names, expected);
        assert_eq!(found[0].1, b"label\0");
        assert_eq!(found[1].1.len(), 28);
        let values: Vec<_> = found[2..]
            .iter()
            .map(|(_, value)| value.as_slice())
            .collect();
        assert_eq!(values, [&[0, 1, 2][..], &[0], b"", b"1\n2"]);
    }

    #[test]
    fn a_list_as_attribute_counts_more_than_its_text() {
        let text = (
            "SCHILY.acl.access",
            &b"u::rwx,u:joe:r--,g::r-x,m::r-x,o::r-x"[..],
        );
        assert_eq!(
            attributes(&[text]),
            Err(Defect::AccessListName((*b"joe").into()))
        );
        let binary = ("SCHILY.xattr.system.posix_acl_access", &b"binary"[..]);
        let expected = [("system.posix_acl_access".to_owned(), b"binary".to_vec())];
        assert_eq!(attributes(&[text, binary]).unwrap(), expected);
    }

    #[test]
    fn wrong_names_and_values_are_refused() {
        for (key, value) in [
            ("SCHILY.xattr.", &b"1"[..]),
            ("SCHILY.xattr.user.\0", b"1"),
            ("LIBARCHIVE.xattr.user.%4", b"AAEC"),
            ("LIBARCHIVE.xattr.user.%xx", b"AAEC"),
            ("LIBARCHIVE.xattr.user.x", b"A A"),
            ("SCHILY.acl.default", b"nonsense"),
        ] {
            assert!(attributes(&[(key, value)]).is_err(), "{key}");
        }
        let long = format!("SCHILY.xattr.{}", "x".repeat(256));
        assert_eq!(attributes(&[(&long, b"1")]), Err(Defect::AttributeName));
    }
}
