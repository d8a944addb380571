//! Makes images by hand, also impossible ones, with nothing of the reader.

/// The number of the root's inode. It begins 2 KiB into the image.
const ROOT: u64 = 64;

const EXTENDED: u16 = 1;
pub(crate) const FLAT_PLAIN: u16 = 0;
pub(crate) const FLAT_INLINE: u16 = 2;
pub(crate) const CHUNKS: u16 = 4;

pub(crate) const FILE: u8 = 1;
pub(crate) const DIRECTORY: u8 = 2;
pub(crate) const SYMLINK: u8 = 7;

/// An inode of the extended form.
#[derive(Debug, Clone)]
pub(crate) struct Inode {
    pub(crate) mode: u16,
    pub(crate) layout: u16,
    /// Added to the format.
    pub(crate) format: u16,
    pub(crate) size: u64,
    /// Block address or chunk format.
    pub(crate) detail: u32,
    pub(crate) nanoseconds: u32,
    pub(crate) xattr_count: u16,
    /// Attributes, chunk records, the end of the content.
    pub(crate) behind: Vec<u8>,
}

impl Default for Inode {
    fn default() -> Self {
        Self {
            mode: 0o100_644,
            layout: FLAT_PLAIN,
            format: 0,
            size: 0,
            detail: 0,
            nanoseconds: 0,
            xattr_count: 0,
            behind: Vec::new(),
        }
    }
}

impl Inode {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(
            0,
            &(EXTENDED | self.layout << 1 | self.format).to_le_bytes(),
        );
        put(2, &self.xattr_count.to_le_bytes());
        put(4, &self.mode.to_le_bytes());
        put(8, &self.size.to_le_bytes());
        put(16, &self.detail.to_le_bytes());
        put(40, &self.nanoseconds.to_le_bytes());
        put(44, &1_u32.to_le_bytes());
        bytes.extend(&self.behind);
        bytes
    }
}

/// An image that is being made.
#[derive(Debug, Clone)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
    block_bits: u8,
    pub(crate) incompatible: u32,
    pub(crate) extra_devices: u16,
    /// How many inodes the superblock tells of.
    pub(crate) inodes: u64,
}

impl Builder {
    pub(crate) fn new(block_bits: u8) -> Self {
        Self {
            bytes: vec![0; 2048 + 64],
            block_bits,
            incompatible: 0,
            extra_devices: 0,
            inodes: 0,
        }
    }

    /// Adds an inode at the beginning of a block, and returns its number.
    pub(crate) fn inode(&mut self, inode: &Inode) -> u64 {
        self.pad_to_block();
        let nid = self.bytes.len() as u64 / 32;
        self.bytes.extend(inode.bytes());
        nid
    }

    /// Adds content, and returns its first block.
    pub(crate) fn blocks(&mut self, content: &[u8]) -> u32 {
        self.pad_to_block();
        let block = self.bytes.len() >> self.block_bits;
        self.bytes.extend(content);
        self.pad_to_block();
        block as u32
    }

    /// Adds a file with this content, and returns its number.
    pub(crate) fn file(&mut self, content: &[u8]) -> u64 {
        let detail = self.blocks(content);
        self.inode(&Inode {
            size: content.len() as u64,
            detail,
            ..Inode::default()
        })
    }

    /// The content of a directory with these entries, which must be in order, with `.` and `..` among them.
    pub(crate) fn directory(&self, entries: &[(&[u8], u64, u8)]) -> Vec<u8> {
        let mut content = Vec::new();
        let mut rest = entries;
        while !rest.is_empty() {
            let mut len = 0;
            let fit = |(name, _, _): &&(&[u8], u64, u8)| {
                len += 12 + name.len();
                len <= 1 << self.block_bits
            };
            let (block, behind) = rest.split_at(rest.iter().take_while(fit).count());
            content.resize(content.len().next_multiple_of(1 << self.block_bits), 0);
            content.extend(directory_block(block));
            rest = behind;
        }
        content
    }

    /// The image whose root has these entries, besides `.` and `..`.
    pub(crate) fn finish(self, entries: &[(&[u8], u64, u8)]) -> Vec<u8> {
        let dots: [(&[u8], _, _); 2] = [(b".", ROOT, DIRECTORY), (b"..", ROOT, DIRECTORY)];
        let mut entries = [&dots, entries].concat();
        entries.sort_unstable();
        let content = self.directory(&entries);
        self.finish_with_root(&content)
    }

    /// The image whose root has this content.
    pub(crate) fn finish_with_root(mut self, content: &[u8]) -> Vec<u8> {
        let root = Inode {
            mode: 0o040_755,
            size: content.len() as u64,
            detail: self.blocks(content),
            ..Inode::default()
        };
        self.pad_to_block();
        let blocks = (self.bytes.len() >> self.block_bits) as u32;
        let mut put = |at: usize, value: &[u8]| {
            self.bytes[at..at + value.len()].copy_from_slice(value);
        };
        put(2048, &root.bytes());
        put(1024, &0xe0f5_e1e2_u32.to_le_bytes());
        put(1024 + 0x08, &1_u32.to_le_bytes());
        put(1024 + 0x0c, &[self.block_bits]);
        put(1024 + 0x0e, &(ROOT as u16).to_le_bytes());
        put(1024 + 0x10, &self.inodes.to_le_bytes());
        put(1024 + 0x24, &blocks.to_le_bytes());
        put(1024 + 0x50, &self.incompatible.to_le_bytes());
        put(1024 + 0x56, &self.extra_devices.to_le_bytes());
        fix_checksum(&mut self.bytes);
        self.bytes
    }

    fn pad_to_block(&mut self) {
        let len = self.bytes.len().next_multiple_of(1 << self.block_bits);
        self.bytes.resize(len, 0);
    }
}

/// A block of a directory, without padding.
pub(crate) fn directory_block(entries: &[(&[u8], u64, u8)]) -> Vec<u8> {
    let mut block = Vec::new();
    let mut name_at = entries.len() * 12;
    for (name, nid, file_type) in entries {
        block.extend(nid.to_le_bytes());
        block.extend((name_at as u16).to_le_bytes());
        block.extend([*file_type, 0]);
        name_at += name.len();
    }
    block.extend(entries.iter().flat_map(|(name, _, _)| *name));
    block
}

/// Makes the superblock's checksum right, where there is one. Whether it was wrong.
pub(crate) fn fix_checksum(image: &mut [u8]) -> bool {
    let Some(block) = 1_usize.checked_shl(image[1024 + 0x0c].into()) else {
        return false;
    };
    let len = if block > 1024 { block - 1024 } else { block };
    if image.len() < 1024 + len {
        return false;
    }
    let before: [u8; 4] = image[1028..1032].try_into().unwrap();
    image[1028..1032].fill(0);
    let checksum = (!crc32c::crc32c(&image[1024..1024 + len])).to_le_bytes();
    image[1028..1032].copy_from_slice(&checksum);
    before != checksum
}
