use std::{io, ops::Range, os::unix::fs::FileExt, path::Path};

use rustix::fs::{Mode, OFlags};
use verimount_sys::GuardedPath;

use crate::{
    Ask, Fetch, FileSource, Given, Hint, ReadAt, ReadError, check_range,
    file_storage::write_all_dsync,
};

/// A regular file or block device whose wrong bytes are [replaced](Fetch::mend) by right ones.
#[derive(Debug)]
pub struct MendableFile(FileSource);

impl MendableFile {
    /// Opens `path` for reading and writing, unless [others can lead it elsewhere](GuardedPath).
    ///
    /// # Errors
    /// As [`FileSource::open`] and [`GuardedPath::open`].
    pub fn open(path: &Path) -> io::Result<Self> {
        // Not waiting for somebody to read it, if it is a named pipe: it is then refused.
        let flags = OFlags::RDWR | OFlags::NONBLOCK;
        let file = GuardedPath::new(path)?.open(flags, Mode::empty())?;
        Ok(Self(FileSource::new(file)?.reading_directly()))
    }

    /// The open file.
    pub fn source(&self) -> &FileSource {
        &self.0
    }
}

impl Fetch for MendableFile {
    fn length(&self) -> u64 {
        self.0.size()
    }

    fn fetch(&self, buf: &mut [u8], offset: u64, ask: Ask<'_>) -> Result<Given, ReadError> {
        self.0.fetch(buf, offset, ask)
    }

    fn stream(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<(), ReadError> {
        self.0.stream(range, take)
    }

    fn hint(&self, range: Range<u64>, hint: Hint) {
        self.0.hint(range, hint);
    }

    fn distrust(&self, range: Range<u64>, given: &Given) -> u32 {
        self.0.distrust(range, given)
    }

    /// Writes only if something differs: a page that nobody has to write is not worn.
    fn mend(&self, right: &[u8], offset: u64) -> io::Result<()> {
        check_range(offset, right.len(), self.0.size()).map_err(io::Error::other)?;
        let mut stored = vec![0; right.len()];
        let is_read = self.0.file().read_exact_at(&mut stored, offset).is_ok();
        if is_read && stored == right {
            return Ok(());
        }
        // Whoever has made it shorter or longer is putting other content there, which these bytes do not belong to.
        if !self.0.is_unchanged_in_size()? {
            return Err(io::Error::other("its size has changed since it was opened"));
        }
        write_all_dsync(self.0.file(), right, offset)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, symlink},
    };

    use super::*;

    #[test]
    fn wrong_bytes_are_replaced_and_nothing_is_added() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [1; 100]).unwrap();
        let mendable = MendableFile::open(file.path()).unwrap();
        mendable.mend(&[2; 20], 10).unwrap();
        assert!(mendable.mend(&[2; 20], 90).is_err());
        let expected = [[1; 10].as_slice(), &[2; 20], &[1; 70]].concat();
        assert_eq!(fs::read(file.path()).unwrap(), expected);
        let mut buf = [0; 100];
        mendable.fetch(&mut buf, 0, Ask::default()).unwrap();
        assert_eq!(buf, *expected);
    }

    /// Such as a link to a file that only root can write.
    #[test]
    fn what_others_lead_elsewhere_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [file, theirs] = ["file", "theirs"].map(|name| folder.path().join(name));
        fs::write(&file, [1; 100]).unwrap();
        fs::create_dir(&theirs).unwrap();
        let link = theirs.join("link");
        symlink("../file", &link).unwrap();
        for (mode, is_open) in [(0o755, true), (0o777, false)] {
            fs::set_permissions(&theirs, Permissions::from_mode(mode)).unwrap();
            assert_eq!(MendableFile::open(&link).is_ok(), is_open, "{mode:o}");
        }
    }

    #[test]
    fn a_file_of_another_size_by_now_is_left_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [1; 100]).unwrap();
        let mendable = MendableFile::open(file.path()).unwrap();
        for other in [[3; 20].as_slice(), &[3; 200], &[]] {
            // In place, as by `cp`.
            fs::write(file.path(), other).unwrap();
            for offset in [0, 50] {
                assert!(mendable.mend(&[2; 50], offset).is_err());
                assert_eq!(fs::read(file.path()).unwrap(), other);
            }
        }
    }

    #[test]
    fn what_is_right_is_not_written() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [1; 100]).unwrap();
        let before = fs::metadata(file.path()).unwrap().modified().unwrap();
        let mendable = MendableFile::open(file.path()).unwrap();
        mendable.mend(&[1; 100], 0).unwrap();
        let after = fs::metadata(file.path()).unwrap().modified().unwrap();
        assert_eq!(before, after);
    }
}
