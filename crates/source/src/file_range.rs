use std::{
    fs::File,
    io::{self, Read},
    ops::Range,
    os::unix::fs::FileExt,
};

/// A range of a file, which is read in order without moving the file's own position.
#[derive(Debug)]
pub struct FileRange<'f> {
    file: &'f File,
    left: Range<u64>,
}

impl<'f> FileRange<'f> {
    /// These bytes, as far as the file has them.
    pub fn new(file: &'f File, range: Range<u64>) -> Self {
        Self { file, left: range }
    }
}

impl Read for FileRange<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.left.end - self.left.start).unwrap_or(usize::MAX);
        let len = buffer.len().min(left);
        let read = self.file.read_at(&mut buffer[..len], self.left.start)?;
        self.left.start += read as u64;
        Ok(read)
    }
}
