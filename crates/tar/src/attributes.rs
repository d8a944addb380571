//! Extended attributes, which every archiver has in records of its own.

use std::collections::{BTreeMap, btree_map::Entry};

use ct_codecs::{Base64NoPadding, Decoder};

use verimount_tree::{ACCESS_LIST, AccessList, DEFAULT_ACCESS_LIST, Permissions};

use crate::{Kind, Xattr, acl, error::Defect, extension::Effect};

/// The longest name in bytes.
const MAX_NAME: usize = 255;

/// The attribute with a label of SELinux.
const LABEL: &[u8] = b"security.selinux";

/// The attributes in the records of a member. An empty ACL or label record counts as absent.
#[derive(Debug, Default)]
pub(crate) struct AttributeRecords {
    /// Those of star and GNU tar: names, in which some writers escape bytes, and values.
    plain: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Those of libarchive: names with percent signs, values in Base64.
    encoded: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Access control lists as text.
    access_list: Vec<u8>,
    default_list: Vec<u8>,
    /// A label of SELinux, without the NUL at its end.
    label: Vec<u8>,
    /// There is an access control list of NFS, whose text stands for nothing that Linux stores.
    pub(crate) has_nfs_list: bool,
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
                b"SCHILY.acl.ace" => {
                    self.has_nfs_list = !value.is_empty();
                    return Effect::Taken;
                }
                _ => return Effect::Ignored,
            };
            *field = value.into();
        }
        Effect::Taken
    }

    /// The permissions and the attributes, by the bytes of their names, of a member of this kind, whose header has these
    /// permissions. What is there as an attribute itself counts more than what stands for it.
    pub(crate) fn finish(
        self,
        kind: &Kind,
        permissions: Permissions,
    ) -> Result<(Permissions, Vec<Xattr>), Defect> {
        let mut all = BTreeMap::new();
        for (name, value) in self.plain {
            // libarchive writes each attribute in both records, under one name.
            let plain = if self.encoded.contains_key(&name) {
                unescape(&name)?
            } else {
                unescape_gnu(&name)
            };
            all.insert(plain, value);
        }
        for (name, value) in self.encoded {
            if let Entry::Vacant(entry) = all.entry(unescape(&name)?) {
                entry.insert(decode(&value)?);
            }
        }
        let access = list(all.remove(ACCESS_LIST.as_bytes()), &self.access_list)?;
        let default = list(
            all.remove(DEFAULT_ACCESS_LIST.as_bytes()),
            &self.default_list,
        )?;
        let (permissions, access) = match (kind, access) {
            // They have no permissions of their own.
            (Kind::Symlink(_), _) => (Permissions::new(0o777), None),
            (_, Some(list)) => list.set_on(permissions),
            (_, None) => (permissions, None),
        };
        // Nothing is made in other files, and no program that unpacks gives them such a list.
        let default = default.filter(|_| *kind == Kind::Directory);
        for (name, list) in [(ACCESS_LIST, access), (DEFAULT_ACCESS_LIST, default)] {
            if let Some(list) = list {
                all.insert(name.into(), list.encode());
            }
        }
        if !self.label.is_empty() {
            let value = [&*self.label, b"\0"].concat();
            all.entry(LABEL.into()).or_insert(value);
        }
        let attributes = all.into_iter().map(attribute);
        Ok((permissions, attributes.collect::<Result<_, _>>()?))
    }
}

/// The list in an attribute, if there is one, or else in a text, which may name users without their numbers.
fn list(attribute: Option<Vec<u8>>, text: &[u8]) -> Result<Option<AccessList>, Defect> {
    match attribute {
        Some(value) => Ok(AccessList::decode(&value)?),
        None if text.is_empty() => Ok(None),
        None => acl::parse(text).map(Some),
    }
}

fn attribute((name, value): (Vec<u8>, Vec<u8>)) -> Result<Xattr, Defect> {
    if name.contains(&0) || !(1..=MAX_NAME).contains(&name.len()) {
        return Err(Defect::AttributeName);
    }
    Ok(Xattr {
        name: name.into(),
        value: value.into(),
    })
}

/// A name in which GNU tar has escaped percent and equals signs. Other writers escape nothing.
fn unescape_gnu(name: &[u8]) -> Vec<u8> {
    let mut parts = name.split(|byte| *byte == b'%');
    let mut plain = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let (byte, rest) = match part {
            [b'3', b'D', rest @ ..] => (b'=', rest),
            [b'2', b'5', rest @ ..] | rest => (b'%', rest),
        };
        plain.push(byte);
        plain.extend_from_slice(rest);
    }
    plain
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

    type NamesAndValues = Vec<(String, Vec<u8>)>;

    /// What a member of this kind has with these records. Its header says 6600.
    fn finished(kind: &Kind, records: &[(&str, &[u8])]) -> Result<(u16, NamesAndValues), Defect> {
        let mut all = AttributeRecords::default();
        for (key, value) in records {
            all.take(key.as_bytes(), value);
        }
        let name = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
        let (permissions, all) = all.finish(kind, Permissions::new(0o6600))?;
        let all = all.into_iter();
        let attributes = all.map(|attribute| (name(&attribute.name), attribute.value.to_vec()));
        Ok((permissions.bits(), attributes.collect()))
    }

    fn attributes(records: &[(&str, &[u8])]) -> Result<NamesAndValues, Defect> {
        let (_, attributes) = finished(&Kind::Directory, records)?;
        Ok(attributes)
    }

    /// As GNU tar 1.35, bsdtar 3.6 and Python's tarfile, which escapes nothing, write such names.
    #[test]
    fn names_are_unescaped_as_their_writer_escapes_them() {
        let cases: [(&[&str], &str); 7] = [
            (&["SCHILY.xattr.user.a%3D%25/"], "user.a=%/"),
            (&["SCHILY.xattr.user.50%25"], "user.50%"),
            (&["SCHILY.xattr.user.%253D"], "user.%3D"),
            (&["SCHILY.xattr.user.50%"], "user.50%"),
            (&["SCHILY.xattr.user.%3d"], "user.%3d"),
            (
                &[
                    "SCHILY.xattr.user.%C3%A9%20%3D%25",
                    "LIBARCHIVE.xattr.user.%C3%A9%20%3D%25",
                ],
                "user.é =%",
            ),
            (&["LIBARCHIVE.xattr.user.a%3D%25/"], "user.a=%/"),
        ];
        for (keys, name) in cases {
            let records: Vec<_> = keys.iter().map(|key| (*key, &b"AAEC"[..])).collect();
            let found = attributes(&records).unwrap();
            let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, [name], "{keys:?}");
        }
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

    const ACCESS: &str = "SCHILY.acl.access";
    const DEFAULT: &str = "SCHILY.acl.default";
    const NAMED: &[u8] = b"user::rw-,user:1234:rw-,group::---,mask::rw-,other::---";
    const MINIMAL: &[u8] = b"user::rwx,group::r--,other::r--";

    /// In each form that programs write. The modes are those that `stat` shows after `chmod 6600` and then `setfacl --set` of the
    /// same list, in Linux 6.18.
    #[test]
    fn a_list_decides_the_mode_in_whatever_form_it_is() {
        let value = acl::parse(NAMED).unwrap().encode();
        let minimal = acl::parse(MINIMAL).unwrap().encode();
        let plain = "SCHILY.xattr.system.posix_acl_access";
        let encoded = "LIBARCHIVE.xattr.system.posix_acl_access";
        for (record, expected) in [
            ((ACCESS, NAMED), 0o6660),
            ((ACCESS, b"u::rw-,u:1234:rw-,g::---,o::---"), 0o6660),
            ((ACCESS, b"u::rw-,u:1234:-w-,g::r--,o::--x"), 0o6661),
            ((ACCESS, b"u::rw-,g::rw-,m::r--,o::---"), 0o6640),
            ((plain, &value), 0o6660),
            (
                (
                    encoded,
                    b"AgAAAAEABgD/////AgAGANIEAAAEAAAA/////xAABgD/////IAAAAP////8",
                ),
                0o6660,
            ),
        ] {
            let (mode, attributes) = finished(&Kind::Fifo, &[record]).unwrap();
            assert_eq!(mode, expected, "{record:?}");
            assert_eq!(attributes[0].0, ACCESS_LIST, "{record:?}");
            if expected == 0o6660 {
                assert_eq!(attributes[0].1, value, "{record:?}");
            }
        }
        for record in [(ACCESS, MINIMAL), (plain, &minimal)] {
            let found = finished(&Kind::Fifo, &[record]);
            assert_eq!(found, Ok((0o6744, Vec::new())), "{record:?}");
        }
        for record in [(ACCESS, &b""[..]), (plain, b""), (plain, b"\x02\0\0\0")] {
            let found = finished(&Kind::Fifo, &[record]);
            assert_eq!(found, Ok((0o6600, Vec::new())), "{record:?}");
        }
    }

    /// Linux refuses lists of links, and those for what is made in something that is no directory.
    #[test]
    fn a_file_has_the_lists_that_its_kind_can_have() {
        let records = [(ACCESS, NAMED), (DEFAULT, MINIMAL)];
        let has = |kind: &Kind| {
            let (mode, attributes) = finished(kind, &records).unwrap();
            (
                mode,
                Vec::from_iter(attributes.into_iter().map(|(name, _)| name)),
            )
        };
        let both = vec![ACCESS_LIST.to_owned(), DEFAULT_ACCESS_LIST.to_owned()];
        assert_eq!(has(&Kind::Fifo), (0o6660, both[..1].to_vec()));
        assert_eq!(has(&Kind::Directory), (0o6660, both));
        let link = Kind::Symlink(b"target".into());
        assert_eq!(has(&link), (0o777, Vec::new()));
    }

    #[test]
    fn a_list_as_attribute_counts_more_than_its_text() {
        let text = (ACCESS, &b"u::rwx,u:joe:r--,g::r-x,m::r-x,o::r-x"[..]);
        assert_eq!(
            attributes(&[text]),
            Err(Defect::AccessListName((*b"joe").into()))
        );
        let value = acl::parse(NAMED).unwrap().encode();
        let binary = ("SCHILY.xattr.system.posix_acl_access", &*value);
        let expected = [(ACCESS_LIST.to_owned(), value.clone())];
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
            (DEFAULT, b"nonsense"),
            ("SCHILY.xattr.system.posix_acl_access", b"nonsense"),
            ("SCHILY.xattr.system.posix_acl_default", b"\x02\0\0"),
        ] {
            assert!(attributes(&[(key, value)]).is_err(), "{key}");
        }
        let long = format!("SCHILY.xattr.{}", "x".repeat(256));
        assert_eq!(attributes(&[(&long, b"1")]), Err(Defect::AttributeName));
    }
}
