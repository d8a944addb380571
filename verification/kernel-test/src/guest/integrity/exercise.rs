//! The work of each side with a volume in its turn: it reads the whole volume, and writes pieces.

use std::{fs::File, num::NonZeroUsize, ops::ControlFlow, os::unix::fs::FileExt, path::Path};

use anyhow::{Result, bail, ensure};
use rustix::fs::{SeekFrom, seek};
use verimount_integrity::Volume;
use verimount_testkit::noise;

/// How many pieces are written in a turn.
const WRITES: u64 = 24;

/// Pieces to write: positions, as fractions of the volume's size in units of 2^-16, and contents.
pub(super) fn writes(turn: u64) -> Vec<(u64, Vec<u8>)> {
    (0..WRITES)
        .map(|number| {
            let seed = turn << 32 | number;
            let random = noise(8, seed);
            let place = u64::from(u16::from_le_bytes([random[0], random[1]]));
            // From some sectors to many blocks, not only whole ones.
            let len = 512 * (1 + usize::from(random[2])) + usize::from(random[3]);
            (place, noise(len, seed))
        })
        .collect()
}

/// Writes each whole piece into `contents`; returns their ranges.
fn place(contents: &mut [u8], writes: &[(u64, Vec<u8>)]) -> Vec<(u64, usize)> {
    let mut places = Vec::new();
    for write in writes {
        let (start, bytes) = fit(write, contents.len() as u64);
        contents[start as usize..][..bytes.len()].copy_from_slice(bytes);
        places.push((start, bytes.len()));
    }
    places
}

/// The position of a piece in a volume of `size` bytes, and as much of the piece as fits.
pub(super) fn fit((place, bytes): &(u64, Vec<u8>), size: u64) -> (u64, &[u8]) {
    let start = (size * place) >> 16;
    let len = bytes.len().min((size - start) as usize);
    (start, &bytes[..len])
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
    check(&volume)?;
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

/// Fails if a block does not match its tag.
pub(super) fn check(volume: &Volume) -> Result<()> {
    let mut bad = Vec::new();
    let mut go_on = |_| ControlFlow::Continue(());
    volume.check(NonZeroUsize::MIN, &mut |range| bad.push(range), &mut go_on)?;
    match bad.first() {
        Some(first) => bail!("bad: {:?} ({})", first.sectors, first.reason),
        None => Ok(()),
    }
}

/// Fails unless a volume has the expected contents; a new one, zeros.
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
