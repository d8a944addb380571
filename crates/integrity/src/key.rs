use std::{fmt, fs::File, io, io::Read, path::Path};

use zeroize::Zeroizing;

use crate::ParamError;

/// A key. It is wiped from memory when dropped.
#[derive(Clone)]
pub struct Key(Zeroizing<Vec<u8>>);

impl Key {
    /// The maximum length of a key in bytes, as in `integritysetup`.
    pub const MAX: usize = 4096;

    /// A key of these bytes.
    ///
    /// # Errors
    /// [`ParamError::Key`] if there are no bytes or more than [`Self::MAX`].
    pub fn new(bytes: Vec<u8>) -> Result<Self, ParamError> {
        let bytes = Zeroizing::new(bytes);
        match bytes.len() {
            1..=Self::MAX => Ok(Self(bytes)),
            _ => Err(ParamError::Key),
        }
    }

    /// Reads a key: all bytes of the file at `path`.
    ///
    /// # Errors
    /// I/O errors, and [`io::ErrorKind::InvalidData`] where [`Self::new`] fails.
    pub fn read(path: &Path) -> io::Result<Self> {
        // One byte more than the limit, so that the vector never reallocates and leaves a copy of
        // the key behind.
        let mut bytes = Vec::with_capacity(Self::MAX + 1);
        let limit = Self::MAX as u64 + 1;
        let result = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
        let key =
            Self::new(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
        result.and(key)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_all_of_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |bytes: &[u8]| {
            std::fs::write(file.path(), bytes).unwrap();
            Key::read(file.path()).map(|key| key.as_bytes().to_vec())
        };
        assert_eq!(read(b"secret\n").unwrap(), b"secret\n");
        assert_eq!(read(&[7; Key::MAX]).unwrap(), [7; Key::MAX]);
        for bad in [&[][..], &[7; Key::MAX + 1]] {
            assert_eq!(read(bad).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn a_key_is_not_shown() {
        let key = Key::new(b"secret".to_vec()).unwrap();
        assert!(!format!("{key:?}").contains("secret"));
    }
}
