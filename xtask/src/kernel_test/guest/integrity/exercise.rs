//! What either side does with a volume in its turn: reads all of it, and writes pieces.

use std::{fs::File, num::NonZeroUsize, ops::ControlFlow, os::unix::fs::FileExt, path::Path};

use anyhow::{Result, bail, ensure};
use rustix::fs::{SeekFrom, seek};
use verimount_integrity::Volume;
use verimount_testkit::noise;

/// How many pieces are written in a turn.
const WRITES: u64 = 24;

/// Pieces to write: where, as a fraction of the volume's size in 2^16ths, and what.
pub(super) fn writes(turn: u64) -> Vec<(u64, Vec<u8>)> {
    (0..WRITES)
        .map(|number| {
            let seed = turn << 32 | number;
            let random = noise(8, seed);
            let place = u64::from(u16::from_le_bytes([random[0], random[1]]));
            // From some sectors to many blocks, and not all whole ones.
            let len = 512 * (1 + usize::from(random[2])) + usize::from(random[3]);
            (place, noise(len, seed))
        })
        .collect()
}

/// Puts the pieces into `contents`, each whole; returns where each of them is now.
fn place(contents: &mut [u8], writes: &[(u64, Vec<u8>)]) -> Vec<(u64, usize)> {
    let mut places = Vec::new();
    for (place, bytes) in writes {
        let start = ((contents.len() as u64 * place) >> 16) as usize;
        let end = contents.len().min(start + bytes.len());
        contents[start..end].copy_from_slice(&bytes[..end - start]);
        places.push((start as u64, end - start));
    }
    places
}

pub(super) fn exercise_kernel(
    path: &Path,
    contents: &[u8],
    writes: &[(u64, Vec<u8>)],
) -> Result<Vec<u8>> {
    let file = File::options().read(true).write(true).open(path)?;
    let size = seek(&file, SeekFrom::End(0))?;
    let mut found = vec![0; size as usize];
    file.read_exact_at(&mut found, 0)?;
    compare(&found, contents)?;
    for (start, len) in place(&mut found, writes) {
        let start_in = start as usize;
        file.write_all_at(&found[start_in..start_in + len], start)?;
    }
    file.sync_all()?;
    Ok(found)
}

pub(super) fn exercise(
    volume: Volume,
    contents: &[u8],
    writes: &[(u64, Vec<u8>)],
) -> Result<Vec<u8>> {
    let mut bad = Vec::new();
    let mut go_on = |_| ControlFlow::Continue(());
    volume.check(NonZeroUsize::MIN, &mut |range| bad.push(range), &mut go_on)?;
    if let Some(first) = bad.first() {
        bail!("bad: {:?} ({})", first.sectors, first.reason);
    }
    let mut found = vec![0; volume.size() as usize];
    volume.read_at(&mut found, 0)?;
    compare(&found, contents)?;
    for (start, len) in place(&mut found, writes) {
        let start_in = start as usize;
        volume.write_at(&found[start_in..start_in + len], start)?;
    }
    volume.close()?;
    Ok(found)
}

/// Fails unless a volume holds what it should; a new one, zeros.
fn compare(found: &[u8], expected: &[u8]) -> Result<()> {
    if expected.is_empty() {
        ensure!(
            found.iter().all(|byte| *byte == 0),
            "a new volume is not zero"
        );
        return Ok(());
    }
    ensure!(
        found.len() == expected.len(),
        "the size is {}, not {}",
        found.len(),
        expected.len()
    );
    match found
        .iter()
        .zip(expected)
        .position(|(one, other)| one != other)
    {
        Some(place) => bail!("the byte at {place} differs"),
        None => Ok(()),
    }
}
