//! Reads verified from a source of one's own: a store of blocks, as a cache or a server may be.
//!
//! `cargo run -p verimount --example own_source`

use std::{collections::BTreeMap, error::Error, fs};

use verimount::{
    ErrorKind, File, FileDigest, Location, OpenOptions, ReadAt, ReadError, SealOptions, seal,
};

const BLOCK: u64 = 1024;

/// Whole blocks, by number. Those that are missing are zero.
#[derive(Clone)]
struct Blocks {
    size: u64,
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl ReadAt for Blocks {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        if offset + buf.len() as u64 > self.size {
            let (len, size) = (buf.len(), self.size);
            return Err(ReadError::PastEnd { offset, len, size });
        }
        for (byte, at) in buf.iter_mut().zip(offset..) {
            let block = self.blocks.get(&(at / BLOCK));
            *byte = block.map_or(0, |block| block[(at % BLOCK) as usize]);
        }
        Ok(())
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("file");
    fs::write(&file, [&[0; 5000][..], &[7; 3240]].concat())?;
    let sealed = seal(&file, &SealOptions::default())?;

    let bytes = fs::read(&file)?;
    let blocks = bytes.chunks(BLOCK as usize).map(|block| {
        let mut whole = vec![0; BLOCK as usize];
        whole[..block.len()].copy_from_slice(block);
        whole
    });
    let mut blocks = Blocks {
        size: bytes.len() as u64,
        blocks: (0..).zip(blocks).collect(),
    };
    let digest: FileDigest = sealed.identity.to_string().parse()?;
    let sidecar = Location::from(folder.path().join("file.verity"));
    let options = OpenOptions::new().digest(digest).sidecar(sidecar);

    let mut found = [0; 10];
    let good = Location::source("blocks", blocks.clone());
    File::open(good, &options)?.read_exact_at(&mut found, 4995)?;
    assert_eq!(found, [0, 0, 0, 0, 0, 7, 7, 7, 7, 7]);

    // One wrong byte, and what is near it is refused.
    blocks.blocks.insert(0, vec![1; BLOCK as usize]);
    let bad = File::open(Location::source("blocks", blocks), &options)?;
    let refused = bad.read_at(&mut found, 0).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    println!("{refused}");
    Ok(())
}
