use thiserror::Error;

/// The room for it in a superblock, in bytes.
const MAX_LEN: usize = 16;

/// A volume's name: up to 16 bytes, none of them NUL. The default is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VolumeName([u8; MAX_LEN]);

/// The volume name is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a volume name of EROFS has at most {MAX_LEN} bytes and no NUL")]
pub struct InvalidVolumeName;

impl VolumeName {
    /// Validates a volume name.
    ///
    /// # Errors
    /// [`InvalidVolumeName`] if it is longer than 16 bytes or contains a NUL.
    pub fn new(name: &[u8]) -> Result<Self, InvalidVolumeName> {
        let mut bytes = [0; MAX_LEN];
        match bytes.get_mut(..name.len()) {
            Some(room) if !name.contains(&0) => room.copy_from_slice(name),
            _ => return Err(InvalidVolumeName),
        }
        Ok(Self(bytes))
    }

    /// The name with zeros behind it.
    pub(super) fn padded(self) -> [u8; MAX_LEN] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_names_are_bounded_and_free_of_nul() {
        assert_eq!(VolumeName::default().padded(), [0; 16]);
        assert_eq!(
            VolumeName::new(b"disk 1").unwrap().padded(),
            *b"disk 1\0\0\0\0\0\0\0\0\0\0"
        );
        assert!(VolumeName::new(&[b'x'; 16]).is_ok());
        assert_eq!(VolumeName::new(&[b'x'; 17]), Err(InvalidVolumeName));
        assert_eq!(VolumeName::new(b"a\0b"), Err(InvalidVolumeName));
    }
}
