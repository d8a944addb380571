//! Bytes of files: found, read and changed.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::Path,
};

use rustix::io::Errno;

/// Where `part` begins in `whole`, for the first time.
#[track_caller]
pub fn position_of(part: &[u8], whole: &[u8]) -> usize {
    let mut windows = whole.windows(part.len());
    let found = windows.position(|window| window == part);
    found.expect("the bytes are where they belong")
}

/// Writes these bytes over others of a file.
#[track_caller]
pub fn overwrite(path: &Path, position: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, position).unwrap();
    // Nobody reads what there was before.
    file.sync_all().unwrap();
}

/// Changes a bit of a file.
#[track_caller]
pub fn flip_at(path: &Path, position: u64) {
    let byte = read_at(&File::open(path).unwrap(), position, 1).unwrap();
    overwrite(path, position, &[byte[0] ^ 1]);
}

/// Changes a bit of a file where these bytes begin; returns the position.
#[track_caller]
pub fn flip_where(path: &Path, part: &[u8]) -> u64 {
    let position = position_of(part, &fs::read(path).unwrap()) as u64;
    flip_at(path, position);
    position
}

/// Reads so many bytes of a file.
pub fn read_at(file: &File, position: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, position).map(|()| bytes)
}

/// The error number of a failed operation.
#[track_caller]
pub fn error_of<T>(result: io::Result<T>) -> Errno {
    match result {
        Ok(_) => panic!("it should have failed"),
        Err(error) => Errno::from_io_error(&error).expect("an error of the system"),
    }
}
