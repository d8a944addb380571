//! Taking romfs images apart and changing them, for images that no tool makes.

/// The name, mode and place of a file header.
#[derive(Debug, Clone)]
pub struct RomfsHeader {
    /// Its offset in the image.
    pub at: usize,
    /// Its name.
    pub name: Vec<u8>,
}

/// A header's type bits: a hard link.
pub const HARD_LINK: u32 = 0;
/// A directory.
pub const DIRECTORY: u32 = 1;
/// A regular file.
pub const FILE: u32 = 2;

/// Bytes before the name.
const FIXED: usize = 16;

/// An image, to be changed.
#[derive(Clone)]
pub struct RomfsImage(pub Vec<u8>);

impl RomfsImage {
    /// An image of nothing but these headers: place, next and mode, spec, name. The first is the
    /// root's, at [`Self::ROOT`].
    pub fn crafted(headers: &[(usize, u32, u32, &str)]) -> Self {
        let last = headers.iter().map(|header| header.0).max().unwrap();
        let size = last + 256;
        let mut image = Self(vec![0; size.next_multiple_of(1024)]);
        image.0[..8].copy_from_slice(b"-rom1fs-");
        image.set_word(8, size as u32);
        for (at, next_and_mode, spec, name) in headers {
            image.set_word(*at, *next_and_mode);
            image.set_word(at + 4, *spec);
            let name_at = at + FIXED;
            image.0[name_at..name_at + name.len()].copy_from_slice(name.as_bytes());
            let end = padded(name_at, &image.0);
            fix_checksum(&mut image.0[*at..end]);
        }
        image.fix_superblock();
        image
    }

    /// Where the root's header is when the volume has no name.
    pub const ROOT: usize = 32;

    /// The word at this offset.
    pub fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    /// Changes the word at this offset.
    pub fn set_word(&mut self, at: usize, word: u32) {
        self.0[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }

    /// The accessible bytes, by the superblock.
    fn size(&self) -> usize {
        self.word(8) as usize
    }

    /// Where the root's header is.
    pub fn root(&self) -> usize {
        padded(FIXED, &self.0)
    }

    /// The first header of this name in the order of the bytes, found by trying every place where
    /// one can be.
    pub fn header(&self, name: &str) -> RomfsHeader {
        (self.root()..self.size())
            .step_by(16)
            .find(|&at| {
                self.0[at + FIXED..].starts_with(name.as_bytes())
                    && self.0.get(at + FIXED + name.len()) == Some(&0)
                    && sum(&self.0[at..padded(at + FIXED, &self.0)]) == 0
            })
            .map(|at| RomfsHeader {
                at,
                name: name.into(),
            })
            .unwrap_or_else(|| panic!("there is no {name}"))
    }

    /// Changes one of a header's words: 0 next and mode, 1 spec, 2 size.
    pub fn change(&mut self, header: &RomfsHeader, word: usize, value: u32) {
        self.set_word(header.at + word * 4, value);
        self.fix_checksums(header.at);
    }

    /// Changes a header's name to one of the same length.
    pub fn rename(&mut self, header: &RomfsHeader, name: &[u8]) {
        assert_eq!(name.len(), header.name.len());
        let at = header.at + FIXED;
        let end = padded(at, &self.0);
        self.0[at..at + name.len()].copy_from_slice(name);
        fix_checksum(&mut self.0[header.at..end]);
        self.fix_superblock();
    }

    fn fix_checksums(&mut self, header: usize) {
        let end = padded(header + FIXED, &self.0);
        fix_checksum(&mut self.0[header..end]);
        self.fix_superblock();
    }

    /// Corrects the checksum of the superblock.
    pub fn fix_superblock(&mut self) {
        let end = self.size().min(512).min(self.0.len());
        fix_checksum(&mut self.0[..end]);
    }

    /// Where the header index begins.
    pub fn index(&self) -> usize {
        let at = self.size().next_multiple_of(1024);
        assert!(self.0[at..].starts_with(b"VMINDEX1"));
        at
    }

    /// Makes readers follow the chains of headers.
    pub fn without_index(mut self) -> Self {
        let at = self.index();
        self.0[at] = b'-';
        self
    }

    /// Where the index's entry record is whose header is this one.
    pub fn index_record(&self, header: &RomfsHeader) -> usize {
        let directories = self.word(self.index() + 8) as usize;
        let records = self.index() + 32 + 12 * directories;
        (records..self.0.len() - FIXED)
            .find(|&at| self.word(at + 4) & !0xf == header.at as u32 && self.word(at + 4) & 7 != 0)
            .unwrap()
    }
}

/// Where a NUL-ended name that starts at `at` ends, with its padding.
fn padded(at: usize, bytes: &[u8]) -> usize {
    let len = bytes[at..].iter().position(|&byte| byte == 0).unwrap();
    (at + len + 1).next_multiple_of(16)
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(4).fold(0, |sum: u32, word| {
        sum.wrapping_add(u32::from_be_bytes(word.try_into().unwrap()))
    })
}

fn fix_checksum(bytes: &mut [u8]) {
    bytes[12..16].fill(0);
    let sum = sum(bytes);
    bytes[12..16].copy_from_slice(&sum.wrapping_neg().to_be_bytes());
}
