//! Names of entries and volumes.

use thiserror::Error;

use crate::error::Defect;

/// The maximum length of an entry's or volume's name in bytes: the limit of the kernel's reader.
pub(crate) const MAX_LEN: usize = 128;

/// The longest name that is stored, in bytes. The format has room for 128, but the kernel lists
/// only the first 127.
pub const MAX_NAME_LEN: usize = 127;

/// Checks the name of a directory's entry.
pub(crate) fn check(name: &[u8]) -> Result<(), Defect> {
    match name {
        [] => Err(Defect::EmptyName),
        _ if name.len() > MAX_LEN => Err(Defect::NameLen),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Defect::NameCharacter),
        _ => Ok(()),
    }
}

/// The NUL-terminated name at the beginning of `bytes`; `None` if it is unterminated or too long.
pub(crate) fn until_nul(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    bytes.get(..end).filter(|name| name.len() <= MAX_LEN)
}

/// Whether `name` is `.` or `..`.
pub(crate) fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// A volume's name: up to 128 bytes, none of them NUL. The default is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumeName(Box<[u8]>);

/// The volume name is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a volume name has at most {MAX_LEN} bytes and no NUL")]
pub struct InvalidVolumeName;

impl VolumeName {
    /// Validates a volume name.
    ///
    /// # Errors
    /// [`InvalidVolumeName`] if it is longer than 128 bytes or contains a NUL.
    pub fn new(name: impl Into<Box<[u8]>>) -> Result<Self, InvalidVolumeName> {
        let name = name.into();
        if name.len() > MAX_LEN || name.contains(&0) {
            return Err(InvalidVolumeName);
        }
        Ok(Self(name))
    }

    /// The name, without a NUL at its end.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_names_are_bounded_and_free_of_nul() {
        assert_eq!(VolumeName::default().as_bytes(), b"");
        assert_eq!(VolumeName::new(*b"disk 1").unwrap().as_bytes(), b"disk 1");
        assert!(VolumeName::new([b'x'; 128]).is_ok());
        assert_eq!(VolumeName::new([b'x'; 129]), Err(InvalidVolumeName));
        assert_eq!(VolumeName::new(*b"a\0b"), Err(InvalidVolumeName));
    }
}
