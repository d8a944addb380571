//! Archives as no program writes them.

use std::{fs::File, io::Write};

/// The unit of an archive in bytes.
const BLOCK: usize = 512;

/// Where the checksum is in a header.
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// Makes a tar archive in the ustar format, member by member.
#[derive(Debug, Clone, Default)]
pub struct TarArchive(Vec<u8>);

impl TarArchive {
    /// Adds a member with mode 0644, owner 1, group 2 and the time 3.
    #[must_use]
    pub fn member(self, type_flag: u8, name: &[u8], link: &[u8], content: &[u8]) -> Self {
        self.member_with(type_flag, name, link, content, |_| {})
    }

    /// Adds a member whose header is changed before its checksum is computed.
    #[must_use]
    pub fn member_with(
        mut self,
        type_flag: u8,
        name: &[u8],
        link: &[u8],
        content: &[u8],
        change: impl FnOnce(&mut [u8; BLOCK]),
    ) -> Self {
        let mut header = [0; BLOCK];
        header[..name.len()].copy_from_slice(name);
        header[100..107].copy_from_slice(b"0000644");
        header[108..115].copy_from_slice(b"0000001");
        header[116..123].copy_from_slice(b"0000002");
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[136..147].copy_from_slice(b"00000000003");
        header[156] = type_flag;
        header[157..157 + link.len()].copy_from_slice(link);
        header[257..265].copy_from_slice(b"ustar\x0000");
        change(&mut header);
        header[CHECKSUM].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend(header);
        self.bytes(content)
    }

    /// Adds an empty file.
    #[must_use]
    pub fn file(self, name: &str) -> Self {
        self.member(b'0', name.as_bytes(), b"", b"")
    }

    /// Adds an extended header for the next member.
    #[must_use]
    pub fn records(self, records: &[(&str, &[u8])]) -> Self {
        let records = records.iter();
        let records = records.map(|(key, value)| pax_record(key.as_bytes(), value));
        self.member(b'x', b"records", b"", &records.collect::<Vec<_>>().concat())
    }

    /// Adds bytes, and zeros up to a whole block.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
        self
    }

    /// The archive with its end.
    pub fn finish(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * BLOCK, 0);
        self.0
    }

    /// The archive with its end, in a temporary file.
    ///
    /// # Panics
    /// If there is none.
    pub fn in_file(self) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&self.finish()).unwrap();
        file
    }

    /// The archive without an end.
    pub fn unfinished(self) -> Vec<u8> {
        self.0
    }
}

/// A record of an extended header, in front of which is its length.
pub fn pax_record(key: &[u8], value: &[u8]) -> Vec<u8> {
    // Without the digits of the length.
    let rest = key.len() + value.len() + 3;
    let mut len = rest;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    [len.to_string().as_bytes(), b" ", key, b"=", value, b"\n"].concat()
}
