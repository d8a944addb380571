//! Finds the holes of files.

use std::{
    io,
    ops::Range,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
};

use rustix::{
    fs::{Mode, OFlags, SeekFrom, open, seek},
    io::Errno,
};

use crate::{attributes::descriptor_path, cursor::Found};

/// The unit of [`MetadataExt::blocks`] in bytes.
const BLOCK: u64 = 512;

/// The most ranges of a file that are told apart. All behind them counts as stored.
const MAX_RANGES: usize = 1 << 20;

/// The ranges of a regular file that have storage; `None` if all of it has.
pub(crate) fn stored_ranges(found: &Found) -> io::Result<Option<Box<[Range<u64>]>>> {
    let (len, blocks) = (found.metadata.len(), found.metadata.blocks());
    // Less storage than bytes is not enough for a hole: the file may be compressed.
    if blocks.saturating_mul(BLOCK) >= len {
        return Ok(None);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(descriptor_path(found), flags, Mode::empty())?;
    let mut ranges: Vec<Range<u64>> = Vec::new();
    loop {
        let from = ranges.last().map_or(0, |last| last.end);
        match next_stored(&file, from, len) {
            Ok(Some(range)) => ranges.push(range),
            Ok(None) => break,
            // The file system does not tell of holes.
            Err(Errno::INVAL) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        if ranges.len() == MAX_RANGES {
            ranges.last_mut().expect("one was pushed").end = len;
            break;
        }
    }
    let is_all = ranges.first().is_some_and(|first| *first == (0..len));
    Ok((!is_all).then(|| ranges.into()))
}

/// The next range that has storage, at or behind `from`, of a file of this length. If the file changes
/// meanwhile, it is found out when its content is read.
fn next_stored(file: &OwnedFd, from: u64, len: u64) -> rustix::io::Result<Option<Range<u64>>> {
    let start = match seek(file, SeekFrom::Data(from)) {
        Ok(start) if start < len => start,
        Ok(_) | Err(Errno::NXIO) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    match seek(file, SeekFrom::Hole(start)) {
        Ok(end) if end > start => Ok(Some(start..end.min(len))),
        Ok(_) | Err(Errno::NXIO) => Ok(Some(start..len)),
        Err(errno) => Err(errno),
    }
}
