//! Extended headers of the pax format: records of a key and a value.

use verimount_tree::Timestamp;

use crate::{attributes::AttributeRecords, error::Defect, number::decimal, sparse::Map, time};

/// What the records of extended headers say. An empty value means that the header's own counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extension {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) link: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) mtime: Option<Timestamp>,
    pub(crate) attributes: AttributeRecords,
    pub(crate) sparse: SparseRecords,
}

/// What the records of GNU tar say about a file with holes.
#[derive(Debug, Clone, Default)]
pub(crate) struct SparseRecords {
    major: u64,
    minor: u64,
    /// Its name, where the header has another one.
    pub(crate) name: Option<Vec<u8>>,
    /// Its length in bytes, with holes.
    pub(crate) size: Option<u64>,
    /// What is not in front of its content.
    pub(crate) map: Map,
    /// An offset without its length.
    offset: Option<u64>,
}

/// Where the map of a file with holes is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MapPlace {
    Records,
    InFront,
}

impl Extension {
    /// Takes the records of the header for one member.
    pub(crate) fn take_all(&mut self, bytes: &[u8]) -> Result<(), Defect> {
        each_record(bytes, |key, value| self.take(key, value))
    }

    /// Takes the records of a header for all members that follow.
    pub(crate) fn take_global(&mut self, bytes: &[u8]) -> Result<(), Defect> {
        each_record(bytes, |key, value| match key {
            b"path" | b"linkpath" | b"size" => Err(Defect::Global(key.into())),
            _ if key.starts_with(b"GNU.sparse.") => Err(Defect::Global(key.into())),
            _ => self.take(key, value),
        })
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), Defect> {
        let invalid = || Defect::Record(key.into());
        let given = Some(value).filter(|value| !value.is_empty());
        let number = || given.map(|value| decimal(value).ok_or_else(invalid));
        let id = || {
            let id = number().transpose()?.map(u32::try_from);
            id.transpose().map_err(|_| invalid())
        };
        match key {
            b"path" => self.path = given.map(Into::into),
            b"linkpath" => self.link = given.map(Into::into),
            b"size" => self.size = number().transpose()?,
            b"uid" => self.uid = id()?,
            b"gid" => self.gid = id()?,
            b"mtime" => {
                let time = given.map(|value| time::parse(value).ok_or_else(invalid));
                self.mtime = time.transpose()?;
            }
            // Names are bytes in both of them.
            b"hdrcharset" => match value {
                b"" | b"BINARY" | b"ISO-IR 10646 2000 UTF-8" => {}
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
                None => self.attributes.take(key, value),
            },
        }
        Ok(())
    }
}

impl SparseRecords {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), Defect> {
        let number = || decimal(value).ok_or(Defect::Map);
        match key {
            b"major" => self.major = number()?,
            b"minor" => self.minor = number()?,
            b"name" => self.name = Some(value.into()),
            b"size" | b"realsize" => self.size = Some(number()?),
            b"offset" => match self.offset.replace(number()?) {
                None => {}
                Some(_) => return Err(Defect::Map),
            },
            b"numbytes" => {
                let offset = self.offset.take().ok_or(Defect::Map)?;
                self.map.add(offset, number()?)?;
            }
            b"map" => self.take_list(value)?,
            // Their number follows from the map.
            b"numblocks" => {}
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
        Ok(())
    }

    /// Where the map is; `None` for a file without holes.
    pub(crate) fn place(&self) -> Result<Option<MapPlace>, Defect> {
        match (self.major, self.minor) {
            _ if self.offset.is_some() => Err(Defect::Map),
            (1, 0) => Ok(Some(MapPlace::InFront)),
            (0, 0 | 1) => Ok(self.size.map(|_| MapPlace::Records)),
            _ => Err(Defect::Map),
        }
    }
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
            ("gid", ""),
            ("mtime", "-1.000001"),
            ("comment", "two\nlines"),
            ("size", "5"),
            ("hdrcharset", "BINARY"),
        ]);
        let extension = extension.unwrap();
        assert_eq!(extension.path.as_deref(), Some(&b"a=b"[..]));
        assert_eq!((extension.uid, extension.gid), (Some(7_000_000), None));
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
        for record in [("path", "a"), ("size", "1"), ("GNU.sparse.major", "1")] {
            let taken = Extension::default().take_global(&encoded(&[record]));
            assert!(matches!(taken, Err(Defect::Global(_))), "{record:?}");
        }
        let global = encoded(&[("mtime", "5")]);
        assert_eq!(Extension::default().take_global(&global), Ok(()));
    }

    #[test]
    fn maps_are_in_records_of_two_forms() {
        let stored = |records: &[(&str, &str)]| {
            let extension = taken(records).unwrap();
            assert_eq!(extension.sparse.place(), Ok(Some(MapPlace::Records)));
            extension.sparse.map.finish(100, 15).unwrap().unwrap()
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
        let place = |minor| {
            let version = [("GNU.sparse.major", "1"), ("GNU.sparse.minor", minor)];
            taken(&version).unwrap().sparse.place()
        };
        assert_eq!(place("0"), Ok(Some(MapPlace::InFront)));
        assert_eq!(place("7"), Err(Defect::Map));
    }
}
