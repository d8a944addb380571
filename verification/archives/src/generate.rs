//! Archives as few programs write them: members with pairs of everything that formats have added to the header.

use verimount_testkit::{Random, TarArchive, noise, pax_record};

/// The most members with extensions in an archive.
const MAX_MEMBERS: usize = 4;

/// What formats have added to the header of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extension {
    Path,
    EmptyPath,
    LinkPath,
    Size,
    OtherSize,
    Uid,
    EmptyGid,
    Time,
    Comment,
    Repeated,
    Charset,
    Attribute,
    RealSize,
    GlobalComment,
    GlobalTime,
    LongName,
    LongLink,
    Prefix,
    GnuFormat,
    OldFormat,
    BinaryNumbers,
    LinkSize,
    SlashBehind,
    SparsePairs,
    SparseList,
    SparseInFront,
    SparseName,
    GnuSparse,
    Label,
}

impl Extension {
    /// All of them.
    pub(crate) const ALL: [Self; 29] = [
        Self::Path,
        Self::EmptyPath,
        Self::LinkPath,
        Self::Size,
        Self::OtherSize,
        Self::Uid,
        Self::EmptyGid,
        Self::Time,
        Self::Comment,
        Self::Repeated,
        Self::Charset,
        Self::Attribute,
        Self::RealSize,
        Self::GlobalComment,
        Self::GlobalTime,
        Self::LongName,
        Self::LongLink,
        Self::Prefix,
        Self::GnuFormat,
        Self::OldFormat,
        Self::BinaryNumbers,
        Self::LinkSize,
        Self::SlashBehind,
        Self::SparsePairs,
        Self::SparseList,
        Self::SparseInFront,
        Self::SparseName,
        Self::GnuSparse,
        Self::Label,
    ];
}

/// An archive, and which pairs of extensions its members have.
pub(crate) struct Generated {
    pub(crate) bytes: Vec<u8>,
    pub(crate) pairs: Vec<(Extension, Extension)>,
}

/// A member before it is written.
struct Draft {
    /// A part of all its names: programs that unpack a pipe and then a file of the same name wait for ever.
    number: usize,
    type_flag: u8,
    name: String,
    link: &'static str,
    content: Vec<u8>,
    /// Headers in front of it: their types and contents.
    in_front: Vec<(u8, Vec<u8>)>,
    records: Vec<(&'static str, Vec<u8>)>,
    /// Where the header is changed, and to what.
    changes: Vec<(usize, Vec<u8>)>,
}

/// Makes an archive.
pub(crate) fn generate(random: &mut Random) -> Generated {
    let mut archive = TarArchive::default()
        .member(b'0', b"first", b"", b"first content")
        .member(b'0', b"second", b"", b"second content");
    let mut pairs = Vec::new();
    for number in 0..=random.below(MAX_MEMBERS) {
        let mut draft = Draft::new(random, number);
        let first = random.below(Extension::ALL.len());
        let behind = 1 + random.below(Extension::ALL.len() - 1);
        let second = (first + behind) % Extension::ALL.len();
        let pair = [first, second].map(|at| Extension::ALL[at]);
        for extension in pair {
            draft.extend(extension, random);
        }
        pairs.push((pair[0].min(pair[1]), pair[0].max(pair[1])));
        // Programs that take content for members, or the other way round, do not see what is behind it, or see others.
        let behind = format!("behind{number}");
        archive = draft
            .write(archive, random)
            .member(b'0', behind.as_bytes(), b"", b"content");
    }
    let bytes = archive.finish();
    Generated { bytes, pairs }
}

impl Draft {
    fn new(random: &mut Random, number: usize) -> Self {
        let type_flag = random.choose(b"0000\x0011225667");
        let len = random.choose(&[0, 1, 511, 512, 513, 1024, 3000]);
        let directory = random.choose(&["", "", "./", "d/"]);
        Self {
            number,
            type_flag,
            name: format!("{directory}member{number}"),
            link: match type_flag {
                b'1' | b'2' => "first",
                _ => "",
            },
            content: match type_flag {
                0 | b'0' | b'7' => noise(len, random.number()),
                _ => Vec::new(),
            },
            in_front: Vec::new(),
            records: Vec::new(),
            changes: Vec::new(),
        }
    }

    fn extend(&mut self, extension: Extension, random: &mut Random) {
        use Extension as E;
        let of = |text: &str| text.as_bytes().to_vec();
        let number = |number: u64| number.to_string().into_bytes();
        let len = self.content.len() as u64;
        match extension {
            E::Path => self
                .records
                .push(("path", of(&format!("path{}", self.number)))),
            E::EmptyPath => self.records.push(("path", of(""))),
            E::LinkPath => self.records.push(("linkpath", of("./second"))),
            // In front of what changes it, such as the record of star.
            E::Size => self.records.insert(0, ("size", number(len))),
            E::OtherSize => {
                self.records.insert(0, ("size", number(len)));
                self.changes.push((124, of("00000000001")));
            }
            E::Uid => self.records.push(("uid", number(3_000_000))),
            E::EmptyGid => self.records.push(("gid", of(""))),
            // libarchive 3.6 takes negative times with decimal places for others.
            E::Time => {
                let time = random.choose(&["7", "1.5", "-1", "7000000000.25"]);
                self.records.push(("mtime", of(time)));
            }
            E::Comment => self.records.push(("comment", of("two\nlines"))),
            E::Repeated => {
                self.records.push(("uid", number(5)));
                self.records.push(("uid", number(6)));
            }
            E::Charset => self.records.push(("hdrcharset", of("BINARY"))),
            E::Attribute => self.records.push(("SCHILY.xattr.user.x", of("1"))),
            E::RealSize => self.records.push(("SCHILY.realsize", number(len + 1))),
            E::GlobalComment => self.in_front.push((b'g', pax_record(b"comment", b"all"))),
            E::GlobalTime => self.in_front.push((b'g', pax_record(b"mtime", b"5"))),
            E::LongName => self
                .in_front
                .push((b'L', of(&format!("long{}\0", self.number)))),
            E::LongLink => self.in_front.push((b'K', of("./first\0"))),
            E::Prefix => self.changes.push((345, of("prefix"))),
            E::GnuFormat => self.changes.push((257, of("ustar  \0"))),
            E::OldFormat => self.changes.push((257, vec![0; 8])),
            E::BinaryNumbers => {
                self.changes.push((108, vec![0x80, 0, 0, 0, 0, 1, 0, 0]));
                let mut time = vec![0xff; 12];
                time[11] = 0xfe;
                self.changes.push((136, time));
            }
            E::LinkSize => {
                // Programs that do not look for content then do so with pax headers.
                self.records.push(("comment", of("pax")));
                if self.type_flag == b'1' {
                    self.changes.push((124, of("00000001000")));
                }
            }
            E::SlashBehind => self.name.push('/'),
            // No program writes two maps.
            E::SparsePairs | E::SparseList if self.has_map() => {}
            E::SparsePairs => {
                self.holes("GNU.sparse.size");
                if random.below(8) > 0 {
                    self.records.push(("GNU.sparse.numblocks", number(1)));
                }
                self.records.push(("GNU.sparse.offset", number(1000)));
                self.records.push(("GNU.sparse.numbytes", number(len)));
            }
            E::SparseList => {
                self.holes("GNU.sparse.size");
                let map = format!("1000,{len}").into_bytes();
                self.records.push(("GNU.sparse.map", map));
            }
            E::SparseInFront => {
                self.holes("GNU.sparse.realsize");
                self.records.push(("GNU.sparse.major", number(1)));
                self.records.push(("GNU.sparse.minor", number(0)));
                let mut map = format!("1\n1000\n{len}\n").into_bytes();
                map.resize(512, 0);
                self.content.splice(0..0, map);
            }
            E::SparseName => self
                .records
                .push(("GNU.sparse.name", of(&format!("sparse{}", self.number)))),
            E::GnuSparse => {
                self.type_flag = b'S';
                self.changes.push((257, of("ustar  \0")));
                self.changes.push((386, of("00000001000")));
                self.changes.push((398, format!("{len:011o}").into_bytes()));
                let size = format!("{:011o}", len + 512).into_bytes();
                self.changes.push((483, size));
            }
            E::Label => self.in_front.push((b'V', Vec::new())),
        }
    }

    fn has_map(&self) -> bool {
        let mut keys = self.records.iter().map(|(key, _)| *key);
        keys.any(|key| key.starts_with("GNU.sparse.") && key != "GNU.sparse.name")
    }

    /// The content is behind a hole of 1000 bytes.
    fn holes(&mut self, size: &'static str) {
        let len = self.content.len() + 1000;
        self.records.push((size, len.to_string().into_bytes()));
    }

    fn write(mut self, mut archive: TarArchive, random: &mut Random) -> TarArchive {
        self.in_front
            .sort_by_key(|(type_flag, _)| *type_flag != b'g');
        // libarchive takes what comes last.
        self.records
            .sort_by_key(|(key, _)| *key == "SCHILY.realsize");
        if !self.records.is_empty() {
            let records = self.records.iter();
            let records = records.map(|(key, value)| pax_record(key.as_bytes(), value));
            let records = records.collect::<Vec<_>>().concat();
            // Only behind headers for all members, as programs write them.
            let globals = self
                .in_front
                .iter()
                .filter(|(type_flag, _)| *type_flag == b'g');
            let first = globals.count();
            let place = first + random.below(self.in_front.len() + 1 - first);
            self.in_front.insert(place, (b'x', records));
        }
        for (type_flag, content) in &self.in_front {
            archive = archive.member(*type_flag, b"in front", b"", content);
        }
        let (name, link) = (self.name.as_bytes(), self.link.as_bytes());
        archive.member_with(self.type_flag, name, link, &self.content, |header| {
            for (at, bytes) in &self.changes {
                header[*at..at + bytes.len()].copy_from_slice(bytes);
            }
        })
    }
}
