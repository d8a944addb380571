use std::{
    fs::{File, OpenOptions},
    io,
    num::NonZeroU64,
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, FileTypeExt, OpenOptionsExt},
    },
    path::Path,
};

use rustix::fs::{Advice, OFlags, fadvise};
use verimount_sys::cached_pages;

use crate::{AlignedBuf, ReadAt, ReadError, check_range};

/// Reads of at least this many bytes bypass the page cache, unless most of their bytes are cached.
/// Their reader keeps the bytes elsewhere or needs them only once, and filling the page cache
/// costs more than hashing. Smaller reads benefit from the kernel's read-ahead.
const DIRECT_READ: usize = 256 << 10;

/// The unit in which `cachestat` counts, in bytes.
const PAGE: u64 = 4096;

/// A regular file or block device.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    /// `file`, opened to bypass the page cache; none if that is not possible.
    direct: Option<File>,
    size: u64,
}

impl FileSource {
    /// Opens `path` for reading.
    ///
    /// # Errors
    /// As `open`, and as [`Self::new`].
    pub fn open(path: &Path) -> io::Result<Self> {
        // Opening a named pipe, which is refused below, must not wait for a writer.
        Ok(Self::new(open_with(path, OFlags::NONBLOCK)?)?.reading_directly())
    }

    /// Reads an open file through the page cache. Its present size is kept.
    ///
    /// # Errors
    /// As `fstat` and `lseek`; [`io::ErrorKind::IsADirectory`] for a directory, and
    /// [`io::ErrorKind::InvalidInput`] for anything else but a regular file or block device.
    pub fn new(file: File) -> io::Result<Self> {
        let file_type = file.metadata()?.file_type();
        if file_type.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !file_type.is_file() && !file_type.is_block_device() {
            let reason = "it is neither a regular file nor a block device";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let size = stored_size(&file)?;
        Ok(Self {
            file,
            direct: None,
            size,
        })
    }

    /// Makes large reads bypass the page cache if possible.
    pub(crate) fn reading_directly(mut self) -> Self {
        // Through its descriptor, so that it is certainly the same file.
        let same = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        self.direct = open_with(same.as_ref(), OFlags::DIRECT).ok();
        self
    }

    /// Has all reads go through the page cache, for content that is read again.
    pub fn through_page_cache(self) -> Self {
        Self {
            direct: None,
            ..self
        }
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether it is still as long as when it was opened.
    pub(crate) fn is_unchanged_in_size(&self) -> io::Result<bool> {
        Ok(stored_size(&self.file)? == self.size)
    }

    /// Fills the beginning of `buf` without the page cache, with whole pages or nothing; gives the
    /// number of bytes. After a failure the ordinary read follows, and reports the reason.
    fn read_direct(&self, buf: &mut [u8], offset: u64) -> usize {
        let whole_pages = buf.len() - buf.len() % AlignedBuf::ALIGNMENT;
        let is_aligned = offset.is_multiple_of(AlignedBuf::ALIGNMENT as u64)
            && buf.as_ptr().align_offset(AlignedBuf::ALIGNMENT) == 0;
        match &self.direct {
            Some(direct)
                if whole_pages >= DIRECT_READ
                    && is_aligned
                    && !self.is_mostly_cached(offset, whole_pages as u64) =>
            {
                direct.read_at(&mut buf[..whole_pages], offset).unwrap_or(0)
            }
            _ => 0,
        }
    }

    fn is_mostly_cached(&self, offset: u64, len: u64) -> bool {
        // Without permission to ask, assume that nothing is cached.
        cached_pages(&self.file, offset, len).is_ok_and(|cached| cached > len / PAGE / 2)
    }
}

/// The metadata of a block device has no length, but seeking finds its end.
fn stored_size(mut file: &File) -> io::Result<u64> {
    io::Seek::seek(&mut file, io::SeekFrom::End(0))
}

fn open_with(path: &Path, flags: OFlags) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
}

impl ReadAt for FileSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ReadError> {
        let len = buf.len();
        check_range(offset, len, self.size)?;
        let done = self.read_direct(buf, offset);
        self.file
            .read_exact_at(&mut buf[done..], offset + done as u64)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => ReadError::Truncated { offset, len },
                _ => ReadError::io(offset, len)(error),
            })
    }

    fn will_need(&self, offset: u64, len: u64) {
        // For fadvise, length 0 means "to the end of the file".
        let Some(len) = NonZeroU64::new(len.min(self.size.saturating_sub(offset))) else {
            return;
        };
        let _ = fadvise(&self.file, offset, Some(len), Advice::WillNeed);
    }

    fn will_reach(&self, _: u64, _: u64) {
        // The kernel reads ahead for small reads itself, and large ones bypass the page cache.
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::fs::{Advice, fadvise};

    use super::*;

    /// Nobody ever writes to the pipe, and nobody has to.
    #[test]
    fn pipes_and_directories_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for (path, kind) in [
            (pipe.as_path(), io::ErrorKind::InvalidInput),
            (Path::new("/dev/null"), io::ErrorKind::InvalidInput),
            (folder.path(), io::ErrorKind::IsADirectory),
        ] {
            assert_eq!(FileSource::open(path).unwrap_err().kind(), kind, "{path:?}");
        }
    }

    #[test]
    fn all_ways_of_reading_give_the_same() {
        let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i ^ (i >> 9)) as u8).collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        let source = FileSource::open(file.path()).unwrap();
        let mut buf = AlignedBuf::zeroed(bytes.len());
        for (offset, len) in [
            (0, bytes.len()),
            (4096, bytes.len() - 4096),
            (8192, DIRECT_READ),
            (5, bytes.len() - 7),
            (0, 1),
        ] {
            // Once from the page cache, and once with nothing in it.
            for _ in 0..2 {
                let buf = buf.grown(len);
                buf.fill(0);
                source.read_exact_at(buf, offset).unwrap();
                assert_eq!(buf, &bytes[offset as usize..][..len]);
                file.as_file().sync_all().unwrap();
                fadvise(file.as_file(), 0, None, Advice::DontNeed).unwrap();
            }
        }
    }

    #[test]
    fn large_reads_stay_in_the_page_cache_if_that_is_asked_for() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().write_all_at(&[7; 1 << 20], 0).unwrap();
        file.as_file().sync_all().unwrap();
        fadvise(file.as_file(), 0, None, Advice::DontNeed).unwrap();
        let source = FileSource::open(file.path()).unwrap().through_page_cache();
        let mut buf = AlignedBuf::zeroed(1 << 20);
        source.read_exact_at(buf.grown(1 << 20), 0).unwrap();
        // Linux before 6.5 does not tell.
        if let Ok(cached) = cached_pages(file.as_file(), 0, 1 << 20) {
            assert_eq!(cached, (1 << 20) / PAGE);
        }
    }

    #[test]
    fn a_truncated_file_is_detected() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let source = FileSource::open(file.path()).unwrap();
        let mut buf = AlignedBuf::zeroed(1 << 20);
        let past_the_end = source.read_exact_at(buf.grown(1 << 20), 1);
        assert!(matches!(past_the_end, Err(ReadError::PastEnd { .. })));
        file.as_file().set_len(1000).unwrap();
        let truncated = source.read_exact_at(buf.grown(1 << 20), 0);
        assert!(matches!(truncated, Err(ReadError::Truncated { .. })));
        source.will_need(u64::MAX, u64::MAX);
    }
}
