//! Reads bytes as a tar archive, and all contents of the tree in it.
//!
//! The checksums of headers stop a fuzzer at once. So the bytes are read twice: as they are, and with the
//! checksum of every block made right.

#![no_main]

use std::{fs::File, io::Write, path::Path};

use libfuzzer_sys::fuzz_target;
use rustix::fs::{MemfdFlags, memfd_create};
use verimount_scan::{Contents, InodeKind, Options, SourceTree, Whiteouts, scan_archive};
use verimount_source::Counting;
use verimount_tar::Reader;

/// The unit of an archive in bytes.
const BLOCK: usize = 512;

/// Where the checksum is in a header.
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// How much of a file is read, in bytes: those with holes may be of any size.
const PIECE: u64 = 1 << 16;

/// How many bytes may be read of an archive for each that it has, and besides: its beginning. What is read ahead in front of
/// contents that are skipped, or are longer than it, is read twice.
const MOST_FOR_BYTE: u64 = 2;
const MOST: u64 = 512;

fuzz_target!(|bytes: &[u8]| {
    read_everything(bytes);
    read_everything(&with_right_checksums(bytes));
});

fn read_everything(bytes: &[u8]) {
    let counting = Counting::new(bytes);
    if let Ok(mut reader) = Reader::new(&counting) {
        while let Ok(Some(_)) = reader.next_member() {}
    }
    let read = counting.counts().bytes;
    let most = MOST + MOST_FOR_BYTE * bytes.len() as u64;
    assert!(read <= most, "{read} bytes of {}", bytes.len());
    for whiteouts in Whiteouts::ALL {
        let file = memfd_create("archive", MemfdFlags::CLOEXEC).expect("there is memory");
        let mut file = File::from(file);
        file.write_all(bytes).expect("there is memory");
        let options = Options {
            whiteouts,
            ..Options::default()
        };
        if let Ok(tree) = scan_archive(file, Path::new("archive"), &options) {
            read_contents(&tree, bytes.len() as u64);
        }
    }
}

fn read_contents(tree: &SourceTree, archive_len: u64) {
    let mut contents = Contents::new(tree).expect("there are descriptors");
    for entry in tree.entries() {
        assert!(entry.path_inside().is_relative());
        assert!(
            !entry
                .path_inside()
                .components()
                .any(|part| part.as_os_str() == "..")
        );
        assert!(entry.inode().names > 0);
        let next = entry.next_sibling();
        assert!(next.is_none_or(|next| entry.name() < next.name()));
        let InodeKind::File(file) = &entry.inode().kind else {
            continue;
        };
        assert!(file.stored_bytes() <= archive_len);
        let content = contents.open(entry.id()).expect("nothing changes");
        let mut buffer = vec![0; file.size().min(PIECE) as usize];
        for at in [0, file.size() - buffer.len() as u64] {
            content
                .read_exact_at(&mut buffer, at)
                .expect("all of it is there");
        }
        content.finish().expect("nothing changes");
    }
}

/// Makes the checksum of every block right that is not all zeros.
fn with_right_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut archive = bytes.to_vec();
    for block in archive.chunks_exact_mut(BLOCK) {
        if block.iter().any(|byte| *byte != 0) {
            block[CHECKSUM].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
    archive
}
