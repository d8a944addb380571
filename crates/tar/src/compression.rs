use verimount_names::named;

named! {
    /// A way in which files are compressed as a whole, named as the program for it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Compression {
        /// By `gzip`.
        Gzip = "gzip",
        /// By `zstd`.
        Zstd = "zstd",
        /// By `xz`.
        Xz = "xz",
        /// By `bzip2`.
        Bzip2 = "bzip2",
        /// By `lz4`.
        Lz4 = "lz4",
        /// By `lzip`.
        Lzip = "lzip",
    }
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
        // A skippable frame (RFC 8878, 3.1.2), with which pzstd begins.
        if let [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] = beginning {
            return Some(Self::Zstd);
        }
        let mut all = MAGIC.iter();
        let found = all.find(|(magic, _)| beginning.starts_with(magic));
        found.map(|(_, compression)| *compression)
    }
}
