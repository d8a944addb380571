use std::fmt;

/// A way in which files are compressed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// By `gzip`.
    Gzip,
    /// By `zstd`.
    Zstd,
    /// By `xz`.
    Xz,
    /// By `bzip2`.
    Bzip2,
    /// By `lz4`.
    Lz4,
    /// By `lzip`.
    Lzip,
}

/// How compressed files begin.
const MAGIC: [(&[u8], Compression); 6] = [
    (b"\x1f\x8b", Compression::Gzip),
    (b"\x28\xb5\x2f\xfd", Compression::Zstd),
    (b"\xfd7zXZ\0", Compression::Xz),
    (b"BZh", Compression::Bzip2),
    (b"\x04\x22\x4d\x18", Compression::Lz4),
    (b"LZIP", Compression::Lzip),
];

impl Compression {
    /// How many bytes of a file tell, if it has so many.
    pub const MAGIC_LEN: usize = 6;

    /// How a file that begins with these bytes is compressed, if it is.
    pub fn of(beginning: &[u8]) -> Option<Self> {
        let mut all = MAGIC.iter();
        let found = all.find(|(magic, _)| beginning.starts_with(magic));
        found.map(|(_, compression)| *compression)
    }

    /// The name of the program.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
            Self::Lz4 => "lz4",
            Self::Lzip => "lzip",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
