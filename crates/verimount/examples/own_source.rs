//! Reads verified from a source of one's own: a store of blocks, as a cache or a server may be.
//!
//! `cargo run -p verimount --example own_source`

use std::{collections::BTreeMap, error::Error, fs, ops::ControlFlow};

use verimount::{
    Location, OpenOptions, SealOptions, Trust, open, seal,
    source::{ReadAt, ReadError, check_range},
    verity::FileDigest,
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
        check_range(offset, buf.len(), self.size)?;
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
    let sealed = seal(&file, &SealOptions::default(), &mut |_| {
        ControlFlow::Continue(())
    })?;

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
    let trust = Trust::from(sealed.identity.to_string().parse::<FileDigest>()?);
    let mut options = OpenOptions::default();
    options.sidecar = Some(folder.path().join("file.verity").into());

    let mut found = [0; 10];
    let good = Location::source("blocks", blocks.clone());
    open(good, &trust, &options)?
        .content()
        .read_exact_at(&mut found, 4995)?;
    assert_eq!(found, [0, 0, 0, 0, 0, 7, 7, 7, 7, 7]);

    // One wrong byte, and what is near it is refused.
    blocks.blocks.insert(0, vec![1; BLOCK as usize]);
    let bad = open(Location::source("blocks", blocks), &trust, &options)?;
    let refused = bad.content().read_exact_at(&mut found, 0).unwrap_err();
    println!("{refused}");
    Ok(())
}
