//! Extended headers of the pax format: records of a key and a value.

use verimount_tree::Timestamp;

use crate::{attributes::AttributeRecords, error::Defect, number::decimal, sparse::Map};

/// What the records of a member's extended header say. Empty values are values: to the standard they mean that the header's
/// own counts, but not to all programs.
#[derive(Debug, Default)]
pub(crate) struct Extension {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) mtime: Option<Timestamp>,
    /// Whether star gives the length with holes. libarchive takes that for the length of the content.
    pub(crate) has_real_size: bool,
    pub(crate) attributes: AttributeRecords,
    pub(crate) sparse: SparseRecords,
}

/// What the records of GNU tar say about a file with holes.
#[derive(Debug, Default)]
pub(crate) struct SparseRecords {
    /// Whether there is any.
    pub(crate) is_given: bool,
    major: Option<u64>,
    minor: Option<u64>,
    /// Its name, where the header has another one.
    name: Option<Vec<u8>>,
    /// Its length in bytes, with holes: in versions before 1.0, and in that.
    size: Option<u64>,
    real_size: Option<u64>,
    /// What is not in front of its content.
    map: Map,
    has_map: bool,
    /// Whether it is said how many ranges there are.
    has_count: bool,
    /// An offset without its length.
    offset: Option<u64>,
}

/// A file with holes: its length in bytes with them, and where their map is.
#[derive(Debug)]
pub(crate) enum Sparse {
    InRecords(u64, Map),
    InFront(u64),
}

/// Whether a record says something about members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Ignored,
    Taken,
}

/// Checks the records of a header for all members that follow. Some programs apply them, others do not; so there may be none
/// but those that all ignore, such as the comment of `git archive`.
pub(crate) fn check_global(bytes: &[u8]) -> Result<(), Defect> {
    each_record(bytes, |key, value| {
        match Extension::default().take(key, value) {
            Ok(Effect::Ignored) => Ok(()),
            Ok(Effect::Taken) | Err(_) => Err(Defect::Global(key.into())),
        }
    })
}

impl Extension {
    /// Takes the records of the header for one member.
    pub(crate) fn take_all(&mut self, bytes: &[u8]) -> Result<(), Defect> {
        each_record(bytes, |key, value| self.take(key, value).map(drop))
    }

    /// The name in the records, or the one in a header of its own. Which one counts if there are both differs from program to
    /// program.
    pub(crate) fn name(&mut self, long: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, Defect> {
        match (self.sparse.name.take(), self.path.take(), long) {
            (Some(name), Some(path), None) if path == name || is_stand_in(&path, &name) => {
                Ok(Some(name))
            }
            (name, None, None) | (None, name, None) | (None, None, name) => Ok(name),
            _ => Err(Defect::TwoNames),
        }
    }

    /// The target of a link in the records, or the one in a header of its own; an error if there are both.
    pub(crate) fn target(&mut self, long: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, Defect> {
        match (self.link.take(), long) {
            (Some(_), Some(_)) => Err(Defect::TwoNames),
            (link, long) => Ok(link.or(long)),
        }
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<Effect, Defect> {
        let invalid = || Defect::Record(key.into());
        let number = || decimal(value).ok_or_else(invalid);
        let id = || u32::try_from(number()?).map_err(|_| invalid());
        let time = || Timestamp::from_decimal(str::from_utf8(value).ok()?);
        match key {
            b"path" => self.path = Some(value.into()),
            b"linkpath" => self.link = Some(value.into()),
            b"size" => self.size = Some(number()?),
            b"uid" => self.uid = Some(id()?),
            b"gid" => self.gid = Some(id()?),
            b"mtime" => self.mtime = Some(time().ok_or_else(invalid)?),
            b"SCHILY.realsize" => self.has_real_size = true,
            // Names are bytes in both of them.
            b"hdrcharset" => match value {
                b"" | b"BINARY" | b"ISO-IR 10646 2000 UTF-8" => return Ok(Effect::Ignored),
                _ => return Err(invalid()),
            },
            _ => match key.strip_prefix(b"GNU.sparse.") {
                Some(key) => self
                    .sparse
                    .take(key, value)
                    .map_err(|defect| match defect {
                        Defect::Holes => Defect::Holes,
                        _ => invalid(),
                    })?,
                None => return Ok(self.attributes.take(key, value)),
            },
        }
        Ok(Effect::Taken)
    }
}

impl SparseRecords {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), Defect> {
        let number = || decimal(value).ok_or(Defect::Map);
        self.is_given = true;
        match key {
            b"major" => set(&mut self.major, number()?)?,
            b"minor" => set(&mut self.minor, number()?)?,
            b"name" => set(&mut self.name, value.into())?,
            b"size" => set(&mut self.size, number()?)?,
            b"realsize" => set(&mut self.real_size, number()?)?,
            // libarchive takes ranges in front of their number for other ones.
            b"offset" if self.has_count && self.offset.is_none() => self.offset = Some(number()?),
            b"numbytes" => {
                let offset = self.offset.take().ok_or(Defect::Map)?;
                self.map.add(offset, number()?)?;
                self.has_map = true;
            }
            b"map" => self.take_list(value)?,
            // Their number follows from the map.
            b"numblocks" => self.has_count = true,
            _ => return Err(Defect::Map),
        }
        Ok(())
    }

    /// Offsets and lengths in turn.
    fn take_list(&mut self, list: &[u8]) -> Result<(), Defect> {
        let mut numbers = list.split(|byte| *byte == b',').map(decimal);
        while let Some(offset) = numbers.next() {
            match (offset, numbers.next().flatten()) {
                (Some(offset), Some(len)) => self.map.add(offset, len)?,
                _ => return Err(Defect::Map),
            }
        }
        self.has_map = true;
        Ok(())
    }

    /// The file's length and map; `None` without records. A part of them, or those of two versions, is a file with holes to
    /// some programs only.
    pub(crate) fn finish(self) -> Result<Option<Sparse>, Defect> {
        if !self.is_given {
            return Ok(None);
        }
        if self.offset.is_some() {
            return Err(Defect::Map);
        }
        let sizes = (self.size, self.real_size);
        match (self.major, self.minor, sizes) {
            (Some(1), Some(0), (None, Some(size))) if !self.has_map => {
                Ok(Some(Sparse::InFront(size)))
            }
            (None, None, (Some(size), None)) | (Some(0), Some(0 | 1), (Some(size), None))
                if self.has_map =>
            {
                Ok(Some(Sparse::InRecords(size, self.map)))
            }
            _ => Err(Defect::Map),
        }
    }
}

/// Takes a value of which there may be only one.
fn set<T: PartialEq>(field: &mut Option<T>, value: T) -> Result<(), Defect> {
    match field {
        Some(other) if *other != value => Err(Defect::Map),
        _ => {
            *field = Some(value);
            Ok(())
        }
    }
}

/// Whether GNU tar writes this path in the place of the name of a file with holes: `DIRECTORY/GNUSparseFile.NUMBER/NAME`. If
/// that is not ASCII, it is in a record.
fn is_stand_in(path: &[u8], name: &[u8]) -> bool {
    let slash = name.iter().rposition(|byte| *byte == b'/');
    let (directory, last) = match slash.and_then(|slash| name.split_at_checked(slash)) {
        Some((directory, last)) => (directory, last.to_vec()),
        None => (&b"."[..], [b"/", name].concat()),
    };
    let prefix = [directory, b"/GNUSparseFile."].concat();
    let number = path.strip_prefix(&*prefix);
    let number = number.and_then(|rest| rest.strip_suffix(&*last));
    number.is_some_and(|number| decimal(number).is_some())
}

/// Calls `take` with the key and value of each record.
fn each_record(
    mut bytes: &[u8],
    mut take: impl FnMut(&[u8], &[u8]) -> Result<(), Defect>,
) -> Result<(), Defect> {
    while !bytes.is_empty() {
        let (record, rest) = split_record(bytes).ok_or(Defect::Records)?;
        let equals = record.iter().position(|byte| *byte == b'=');
        let equals = equals.filter(|at| *at > 0).ok_or(Defect::Records)?;
        let (key, value) = record.split_at_checked(equals).ok_or(Defect::Records)?;
        take(key, value.get(1..).ok_or(Defect::Records)?)?;
        bytes = rest;
    }
    Ok(())
}

/// Splits off a record, whose length is its first word and includes that, the blank behind it and the line feed at
/// its end.
fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let blank = bytes.iter().position(|byte| *byte == b' ')?;
    let len = usize::try_from(decimal(bytes.get(..blank)?)?).ok()?;
    let (record, rest) = bytes.split_at_checked(len)?;
    let record = record.get(blank.checked_add(1)?..)?;
    Some((record.strip_suffix(b"\n")?, rest))
}

#[cfg(test)]
mod tests {
    use verimount_testkit::pax_record;

    use super::*;

    fn taken(records: &[(&str, &str)]) -> Result<Extension, Defect> {
        let mut extension = Extension::default();
        extension.take_all(&encoded(records))?;
        Ok(extension)
    }

    fn encoded(records: &[(&str, &str)]) -> Vec<u8> {
        let records = records.iter();
        let records = records.map(|(key, value)| pax_record(key.as_bytes(), value.as_bytes()));
        records.collect::<Vec<_>>().concat()
    }

    #[test]
    fn records_say_what_headers_cannot() {
        let extension = taken(&[
            ("path", "a=b"),
            ("uid", "700"),
            ("uid", "7000000"),
            ("gid", "5"),
            ("mtime", "-1.000001"),
            ("comment", "two\nlines"),
            ("size", "5"),
            ("hdrcharset", "BINARY"),
        ]);
        let extension = extension.unwrap();
        assert_eq!(extension.path.as_deref(), Some(&b"a=b"[..]));
        assert_eq!((extension.uid, extension.gid), (Some(7_000_000), Some(5)));
        assert_eq!(extension.size, Some(5));
        assert_eq!(extension.mtime, Timestamp::new(-2, 999_999_000));
    }

    #[test]
    fn records_have_their_lengths() {
        assert!(Extension::default().take_all(b"5 a=\n").is_ok());
        for wrong in [
            &b"x"[..],
            b"4 a=\n",
            b"5 =a\n",
            b"0 a=b\n",
            b"99 a=b\n",
            b"+6 a=b\n",
            b"6 a=bc",
            b"7 uid\n",
            b"18446744073709551615 a=b\n",
        ] {
            let taken = Extension::default().take_all(wrong);
            assert_eq!(taken, Err(Defect::Records), "{wrong:?}");
        }
    }

    #[test]
    fn wrong_values_are_refused() {
        for record in [
            ("uid", "nobody"),
            ("uid", ""),
            ("mtime", ""),
            ("gid", "10000000000"),
            ("size", "-1"),
            ("mtime", "today"),
            ("hdrcharset", "ISO-8859-1"),
            ("GNU.sparse.numbytes", "5"),
            ("GNU.sparse.map", "1,2,"),
            ("GNU.sparse.unknown", "1"),
        ] {
            let taken = taken(&[record]);
            assert!(matches!(taken, Err(Defect::Record(_))), "{record:?}");
        }
    }

    #[test]
    fn nothing_is_said_of_all_members() {
        for record in [
            ("path", "a"),
            ("linkpath", ""),
            ("size", "1"),
            ("uid", "5"),
            ("mtime", "5"),
            ("GNU.sparse.major", "1"),
            ("SCHILY.xattr.user.x", "1"),
            ("SCHILY.acl.access", "user::rwx"),
            ("RHT.security.selinux", "label"),
            ("hdrcharset", "ISO-8859-1"),
        ] {
            let checked = check_global(&encoded(&[("comment", "c"), record]));
            let expected = Defect::Global(record.0.as_bytes().into());
            assert_eq!(checked, Err(expected), "{record:?}");
        }
        let ignored = [("comment", "of git"), ("hdrcharset", "BINARY"), ("x", "y")];
        assert_eq!(check_global(&encoded(&ignored)), Ok(()));
        assert_eq!(check_global(b"no records"), Err(Defect::Records));
    }

    #[test]
    fn only_one_record_or_header_gives_a_name() {
        let name = |records: &[(&str, &str)], long: Option<&str>| {
            let mut extension = taken(records).unwrap();
            let name = extension.name(long.map(Into::into))?;
            Ok(name.map(|name| String::from_utf8(name).unwrap()))
        };
        let same = |name: &str| Ok(Some(name.to_owned()));
        let (path, sparse) = (("path", "p"), ("GNU.sparse.name", "d/s"));
        assert_eq!(name(&[], None), Ok(None));
        assert_eq!(name(&[path], None), same("p"));
        assert_eq!(name(&[], Some("l")), same("l"));
        assert_eq!(name(&[sparse], None), same("d/s"));
        assert_eq!(name(&[sparse, ("path", "d/s")], None), same("d/s"));
        let stand_in = ("path", "d/GNUSparseFile.12/s");
        assert_eq!(name(&[sparse, stand_in], None), same("d/s"));
        let stand_in = [("path", "./GNUSparseFile.0/s"), ("GNU.sparse.name", "s")];
        assert_eq!(name(&stand_in, None), same("s"));
        for path in [
            "d/GNUSparseFile.12/t",
            "e/GNUSparseFile.12/s",
            "d/GNUSparseFile./s",
            "d/GNUSparseFile.1/../s",
            "d/GNUSparseFile.1",
        ] {
            let records = [sparse, ("path", path)];
            assert_eq!(name(&records, None), Err(Defect::TwoNames), "{path}");
        }
        assert_eq!(name(&[path], Some("p")), Err(Defect::TwoNames));
        assert_eq!(name(&[sparse], Some("l")), Err(Defect::TwoNames));
        let mut link = taken(&[("linkpath", "a")]).unwrap();
        assert_eq!(link.target(Some(b"a".into())), Err(Defect::TwoNames));
    }

    #[test]
    fn maps_are_in_records_of_two_forms() {
        let sparse = |records: &[(&str, &str)]| taken(records).unwrap().sparse.finish();
        let stored = |records: &[(&str, &str)]| match sparse(records) {
            Ok(Some(Sparse::InRecords(100, map))) => map.finish(100, 15).unwrap().unwrap(),
            other => panic!("{other:?}"),
        };
        let pairs = [
            ("GNU.sparse.size", "100"),
            ("GNU.sparse.numblocks", "2"),
            ("GNU.sparse.offset", "10"),
            ("GNU.sparse.numbytes", "10"),
            ("GNU.sparse.offset", "50"),
            ("GNU.sparse.numbytes", "5"),
        ];
        assert_eq!(*stored(&pairs), [10..20, 50..55]);
        let list = [("GNU.sparse.size", "100"), ("GNU.sparse.map", "10,10,50,5")];
        assert_eq!(*stored(&list), [10..20, 50..55]);
        let version = |minor| [("GNU.sparse.major", "1"), ("GNU.sparse.minor", minor)];
        let real_size = ("GNU.sparse.realsize", "100");
        let in_front = [&version("0")[..], &[real_size]].concat();
        assert!(matches!(sparse(&in_front), Ok(Some(Sparse::InFront(100)))));
        assert!(matches!(sparse(&[("comment", "")]), Ok(None)));
        // Some programs take these for files with holes, or find the map in another place.
        for doubtful in [
            &[("GNU.sparse.name", "name")][..],
            &list[..1],
            &list[1..],
            &pairs[..2],
            &[list[0], list[1], real_size],
            &[&in_front[..], &list].concat(),
            &[&version("0")[..], &list].concat(),
            &[&version("7")[..], &[real_size]].concat(),
        ] {
            assert_eq!(sparse(doubtful).err(), Some(Defect::Map), "{doubtful:?}");
        }
        let twice = taken(&[list[0], ("GNU.sparse.size", "99")]);
        assert!(matches!(twice, Err(Defect::Record(_))), "{twice:?}");
    }
}
