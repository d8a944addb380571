//! A volume's blocks, as read by the kernel and by Verimount.

use anyhow::{Result, bail, ensure};
use verimount_integrity::{Error, Volume};
use verimount_testkit::read_blocks;

/// A volume's blocks; `None` for those that cannot be read.
pub(super) type Blocks = Vec<Option<Vec<u8>>>;

/// The blocks as Verimount reads them.
pub(super) fn blocks(volume: &Volume) -> Result<Blocks> {
    let block_len = volume.superblock().shape.block_size.bytes();
    all_blocks(volume.size(), block_len, |buf, offset| {
        match volume.read_at(buf, offset) {
            Ok(()) => Ok(true),
            Err(Error::Mismatch { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    })
}

/// Reads all blocks of `size` bytes with `read`, which returns whether it succeeded.
pub(super) fn all_blocks(
    size: u64,
    block_len: usize,
    read: impl FnMut(&mut [u8], u64) -> Result<bool>,
) -> Result<Blocks> {
    let mut bytes = vec![0; size as usize];
    let readable = read_blocks(&mut bytes, block_len, read)?;
    let blocks = bytes.chunks_exact(block_len).zip(readable);
    Ok(blocks
        .map(|(block, is_readable)| is_readable.then(|| block.to_vec()))
        .collect())
}

/// Fails unless Verimount and the kernel can read the same blocks, with the same content.
pub(super) fn ensure_same(ours: &Blocks, the_kernels: &Blocks) -> Result<()> {
    ensure!(
        ours.len() == the_kernels.len(),
        "{} blocks, the kernel's are {}",
        ours.len(),
        the_kernels.len()
    );
    for (number, pair) in ours.iter().zip(the_kernels).enumerate() {
        match pair {
            (Some(ours), Some(the_kernels)) if ours != the_kernels => {
                bail!("block {number} differs")
            }
            (Some(_), None) => bail!("only Verimount can read block {number}"),
            (None, Some(_)) => bail!("only the kernel can read block {number}"),
            _ => {}
        }
    }
    Ok(())
}
