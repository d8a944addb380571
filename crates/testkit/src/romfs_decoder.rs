//! A second, simple decoder of romfs images that shares no code with the reader and ignores the header index.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    ops::Range,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use crate::plain_tree::{Tree, What, tree};

/// A header of an entry, in the order of a walk along the chains.
#[derive(Debug, Clone)]
pub struct Header {
    /// Its path in the image.
    pub path: PathBuf,
    /// Its offset in the image.
    pub at: usize,
    /// The data after the header; empty for all but files and symbolic links.
    pub data: Range<usize>,
    /// Whether it is a further name of another entry.
    pub is_hard_link: bool,
}

/// A decoder of an image, which must be valid.
pub struct Decoder<'a> {
    image: &'a [u8],
    /// The headers of all entries.
    pub headers: Vec<Header>,
    nodes: BTreeMap<PathBuf, (usize, What)>,
}

impl<'a> Decoder<'a> {
    /// Decodes an image.
    ///
    /// # Panics
    /// If it is not valid.
    pub fn new(image: &'a [u8]) -> Self {
        assert_eq!(&image[..8], b"-rom1fs-");
        let mut decoder = Self {
            image,
            headers: Vec::new(),
            nodes: BTreeMap::new(),
        };
        assert_eq!(decoder.sum(0..decoder.size().min(512)), 0);
        let root = decoder.end_of_name(0);
        assert_eq!(decoder.name(root), b".");
        assert_eq!(
            decoder.word(root + 4),
            root,
            "the root's chain starts with itself"
        );
        decoder.directory(Path::new(""), root, root);
        decoder
    }

    /// The size that the superblock says.
    pub fn size(&self) -> usize {
        self.word(8)
    }

    /// Everything in it.
    pub fn tree(&self) -> Tree {
        tree(self.nodes.clone())
    }

    /// Offsets and lengths of all headers, `.` and `..` included.
    pub fn header_ranges(&self) -> Vec<Range<usize>> {
        let root = self.end_of_name(0);
        let mut starts = vec![root, self.word(root) & !15];
        for header in &self.headers {
            starts.push(header.at);
            if self.word(header.at) & 7 == 1 {
                let dot = self.word(header.at + 4);
                starts.extend([dot, self.word(dot) & !15]);
            }
        }
        starts
            .into_iter()
            .map(|at| at..self.end_of_name(at))
            .collect()
    }

    fn directory(&mut self, path: &Path, at: usize, parent: usize) {
        let mut next = self.word(at + 4);
        while next != 0 {
            let header = next;
            let (mode, spec) = (self.word(header) & 15, self.word(header + 4));
            next = self.word(header) & !15;
            let body = self.end_of_name(header);
            assert_eq!(
                self.sum(header..body),
                0,
                "checksum of the header at {header}"
            );
            match self.name(header) {
                b"." => assert!(header == at || (mode, spec) == (0, at)),
                b".." => assert_eq!((mode, spec), (0, parent)),
                name => self.entry(path.join(OsStr::from_bytes(name)), header, at),
            }
        }
    }

    fn entry(&mut self, path: PathBuf, header: usize, directory: usize) {
        let is_hard_link = self.word(header) & 7 == 0;
        let data = self.data(header);
        self.headers.push(Header {
            path: path.clone(),
            at: header,
            data,
            is_hard_link,
        });
        let target = if is_hard_link {
            self.word(header + 4)
        } else {
            header
        };
        let what = self.what(target);
        let is_directory = what == What::Directory;
        self.nodes.insert(path.clone(), (target, what));
        if is_directory {
            self.directory(&path, header, directory);
        }
    }

    fn what(&self, header: usize) -> What {
        let spec = self.word(header + 4);
        let (major, minor) = ((spec >> 16) as u16, spec as u16);
        let data = self.image[self.data(header)].to_vec();
        match self.word(header) & 15 {
            9 => What::Directory,
            mode @ (2 | 10) => What::File {
                contents: data,
                executable: mode == 10,
            },
            3 => What::Symlink(data),
            4 => What::BlockDevice(major, minor),
            5 => What::CharDevice(major, minor),
            6 => What::Socket,
            7 => What::Fifo,
            mode => panic!("mode {mode} at {header}"),
        }
    }

    fn data(&self, header: usize) -> Range<usize> {
        let start = self.end_of_name(header);
        start..start + self.word(header + 8)
    }

    fn name(&self, header: usize) -> &'a [u8] {
        let name = &self.image[header + 16..];
        name.split(|byte| *byte == 0).next().unwrap()
    }

    fn end_of_name(&self, header: usize) -> usize {
        (header + 16 + self.name(header).len() + 1).div_ceil(16) * 16
    }

    fn word(&self, at: usize) -> usize {
        u32::from_be_bytes(self.image[at..at + 4].try_into().unwrap()) as usize
    }

    fn sum(&self, range: Range<usize>) -> u32 {
        let words = self.image[range].chunks_exact(4);
        words.fold(0, |sum, word| {
            sum.wrapping_add(u32::from_be_bytes(word.try_into().unwrap()))
        })
    }
}
