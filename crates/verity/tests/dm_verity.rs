//! What a hash area says of itself is not believed: it is refused, or right, or harmless.

use std::{fs::File, num::NonZeroUsize, os::unix::fs::FileExt, sync::Arc};

use verimount_source::{FileSource, ReadAt, ReadError};
use verimount_testkit::{Flipped, go_on, noise};
use verimount_verity::{
    Corruption, Error, HashAlgorithm, SealLayout, VerifiedReader, VerifyOptions,
    dm_verity::{BlockSize, HashArea, Params, Salt, SealedDevice, seal},
    parse_hex,
};

/// 41 data blocks, and a tree of two levels: 32 digests of a block of 1 KiB.
const BLOCKS: usize = 41;
const BLOCK: usize = 512;

fn params() -> Params {
    Params {
        data_block_size: BlockSize::new(BLOCK as u64).unwrap(),
        hash_block_size: BlockSize::new(1024).unwrap(),
        salt: Salt::new(b"salt").unwrap(),
        ..Params::default()
    }
}

/// A device with its hash area behind its data.
struct Device {
    data: Vec<u8>,
    bytes: Vec<u8>,
    made: SealedDevice,
}

impl Device {
    fn new() -> Self {
        let data = noise(BLOCKS * BLOCK, 3);
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&data, 0).unwrap();
        let made = sealed(&data, &file, SealLayout::Appended).unwrap();
        let source = FileSource::new(file).unwrap();
        let mut bytes = vec![0; source.size() as usize];
        source.read_exact_at(&mut bytes, 0).unwrap();
        Self { data, bytes, made }
    }

    fn root(&self) -> Vec<u8> {
        parse_hex(&self.made.root.to_string()).unwrap()
    }

    /// Why it is refused with these bytes written into the superblock.
    fn refused(&self, offset: usize, change: &[u8]) -> Error {
        let mut bytes = self.bytes.clone();
        let start = self.made.hash_offset as usize + offset;
        bytes[start..start + change.len()].copy_from_slice(change);
        self.open(bytes).expect_err("it is refused")
    }

    fn open(&self, bytes: Vec<u8>) -> Result<HashArea, Error> {
        HashArea::open_appended(Arc::new(bytes), self.made.hash_offset)
    }
}

fn sealed(data: &dyn ReadAt, file: &File, layout: SealLayout) -> Result<SealedDevice, Error> {
    seal(data, file, layout, &params(), NonZeroUsize::MIN, &mut go_on)
}

#[test]
fn every_single_changed_byte_is_refused_or_harmless() {
    let device = Device::new();
    let root = device.root();
    let flipped = Arc::new(Flipped::new(device.bytes.clone()));
    let mut refused = 0;
    for position in 0..device.bytes.len() as u64 {
        flipped.flip(position);
        let opened = HashArea::open_appended(flipped.clone(), device.made.hash_offset)
            .and_then(|area| area.accepted_by(&root))
            .and_then(|seal| VerifiedReader::new(seal, VerifyOptions::default()));
        let Ok(reader) = opened else {
            refused += 1;
            continue;
        };
        let mut bad_blocks = 0;
        for (offset, expected) in (0..reader.size())
            .step_by(BLOCK)
            .zip(device.data.chunks(BLOCK))
        {
            let mut block = vec![0; BLOCK];
            match reader.read_exact_at(&mut block, offset) {
                Ok(()) => assert_eq!(block, expected, "flipped {position}, read {offset}"),
                Err(ReadError::Rejected(_)) => bad_blocks += 1,
                Err(error) => panic!("flipped {position}, read {offset}: {error}"),
            }
        }
        if position < device.data.len() as u64 {
            assert_eq!(bad_blocks, 1, "flipped {position}");
        }
    }
    // All of what counts in the superblock, and the topmost block.
    assert!(refused > 1024, "{refused} were refused");
}

#[test]
fn unusable_parameters_are_refused() {
    let device = Device::new();
    let unsupported = |offset, change: &[u8]| match device.refused(offset, change) {
        Error::Unsupported(what) => what,
        other => panic!("{other}"),
    };
    assert!(matches!(device.refused(0, b"V"), Error::NoSuperblock));
    assert_eq!(unsupported(8, &[2]), "version 2 of the superblock");
    assert_eq!(unsupported(12, &[0]), "hash type 0, that of Chrome OS");
    assert_eq!(unsupported(12, &[2]), "hash type 2");
    assert_eq!(unsupported(32, b"sha1\0\0"), "the hash \"sha1\"");
    assert_eq!(unsupported(32, b"a\nb\0\0\0"), "the hash \"a\\nb\"");
    assert_eq!(unsupported(32, &[0xFF; 32]), "the hash \"\"");
    for size in [0, 256, 1000, 1 << 17, u32::MAX] {
        let blocks = format!("blocks of {size} bytes");
        assert_eq!(unsupported(64, &size.to_le_bytes()), blocks);
        assert_eq!(unsupported(68, &size.to_le_bytes()), blocks);
    }
    assert!(matches!(
        device.refused(72, &0_u64.to_le_bytes()),
        Error::Corrupt(Corruption::NoBlocks)
    ));
    for blocks in [1 << 54, 1 << 55, u64::MAX] {
        assert!(matches!(
            device.refused(72, &blocks.to_le_bytes()),
            Error::TooLarge(_)
        ));
    }
    assert!(matches!(
        device.refused(80, &257_u16.to_le_bytes()),
        Error::Corrupt(Corruption::SaltSize(257))
    ));
}

#[test]
fn another_length_is_refused() {
    let device = Device::new();
    let area = device.made.hash_offset;
    // One block more than lies before the hash area, and more than the whole file.
    let one_more = device.refused(72, &(area / BLOCK as u64 + 1).to_le_bytes());
    assert!(matches!(
        one_more,
        Error::Corrupt(Corruption::Overlap { offset, .. }) if offset == area
    ));
    assert!(matches!(
        device.refused(72, &(1_u64 << 40).to_le_bytes()),
        Error::Corrupt(Corruption::DataSize { .. })
    ));

    let end = device.bytes.len();
    let cut = device.open(device.bytes[..end - 1].to_vec());
    assert!(matches!(
        cut.err(),
        Some(Error::Corrupt(Corruption::HashAreaEnd { expected, actual }))
            if (expected, actual) == (end as u64, end as u64 - 1)
    ));
    for (bytes, offset) in [
        (&device.bytes[..area as usize + 511], area),
        (&device.bytes[..], u64::MAX),
        (&[], 0),
    ] {
        let opened = HashArea::open_appended(Arc::new(bytes.to_vec()), offset);
        assert!(matches!(opened.err(), Some(Error::NoSuperblock)));
    }
}

#[test]
fn only_the_right_root_hash_is_trusted() {
    let device = Device::new();
    let verified = |root: &[u8]| {
        let area = device.open(device.bytes.clone()).unwrap();
        let seal = area.accepted_by(root);
        let reader = seal.and_then(|seal| VerifiedReader::new(seal, VerifyOptions::default()));
        reader.err()
    };
    let mut root = device.root();
    assert!(verified(&root).is_none());
    for len in [0, 20, 31, 33, 64] {
        assert!(matches!(
            verified(&vec![0; len]),
            Some(Error::RootHashSize { algorithm: HashAlgorithm::Sha256, actual }) if actual == len
        ));
    }
    root[31] ^= 1;
    assert!(matches!(verified(&root), Some(Error::WrongRootHash { .. })));
}

/// What cannot be sealed leaves the file as it was.
#[test]
fn only_whole_blocks_are_sealed() {
    for len in [0, 1, BLOCK - 1, BLOCK + 1] {
        let data = noise(len, 4);
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&data, 0).unwrap();
        let result = sealed(&data, &file, SealLayout::Appended);
        assert!(matches!(result, Err(Error::NotWholeBlocks { size, .. }) if size == len as u64));
        assert_eq!(file.metadata().unwrap().len(), len as u64);
    }
}

/// The same data gives the same bytes, other data another UUID.
#[test]
fn a_hash_area_is_reproducible() {
    let first = Device::new();
    assert!(first.bytes == Device::new().bytes);
    let uuid = |bytes: &[u8], area: u64| bytes[area as usize + 16..][..16].to_vec();
    let ours = uuid(&first.bytes, first.made.hash_offset);
    // RFC 9562: version 8 in the high half of octet 6, the variant in the two high bits of octet 8.
    assert_eq!((ours[6] >> 4, ours[8] >> 6), (8, 0b10));

    let file = tempfile::tempfile().unwrap();
    sealed(&noise(BLOCK, 5), &file, SealLayout::Sidecar).unwrap();
    let mut other = [0; 512];
    file.read_exact_at(&mut other, 0).unwrap();
    assert_ne!(ours, uuid(&other, 0));
}

/// A root hash covers neither how many blocks of data there are nor how they are hashed.
#[test]
fn content_with_another_superblock_is_not_the_same() {
    let device = Device::new();
    let opened = |offset: usize, bits: u8| {
        let mut bytes = device.bytes.clone();
        bytes[device.made.hash_offset as usize + offset] ^= bits;
        let area = device.open(bytes).unwrap();
        area.accepted_by(&device.root()).unwrap()
    };
    let own = opened(0, 0);
    assert!(own.is_of_same_content(&opened(0, 0)));
    // The number of data blocks, and the salt.
    for offset in [72, 88] {
        assert!(!own.is_of_same_content(&opened(offset, 1)), "{offset}");
    }
    let mut other = device.root();
    other[0] ^= 1;
    let area = device.open(device.bytes.clone()).unwrap();
    assert!(!own.is_of_same_content(&area.accepted_by(&other).unwrap()));
}
