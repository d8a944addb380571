use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use crate::Error;

/// The longest value of an extended attribute, in bytes: Linux's `XATTR_SIZE_MAX`.
pub const MAX_XATTR_VALUE: usize = 64 << 10;

/// The longest name of an extended attribute, in bytes: Linux's `XATTR_NAME_MAX`.
const MAX_NAME: usize = 255;

/// The longest list of names, each with a NUL behind it, in bytes: Linux's `XATTR_LIST_MAX`.
pub const MAX_XATTR_LIST: usize = 64 << 10;

/// Names of a file's extended attributes: no more than `listxattr` can return.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct XattrNames(
    /// Each with a NUL behind it.
    Vec<u8>,
);

impl XattrNames {
    /// Adds a name, with its namespace, such as `user.comment`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a name that is empty, longer than 255 bytes or has a NUL in it;
    /// [`Error::Unsupported`] if all names with their NULs have more than 64 KiB.
    pub fn push(&mut self, name: &OsStr) -> Result<(), Error> {
        let name = name.as_bytes();
        if !(1..=MAX_NAME).contains(&name.len()) || name.contains(&0) {
            return Err(Error::corrupt(
                "the name of an extended attribute is impossible",
            ));
        }
        if self.0.len() + name.len() + 1 > MAX_XATTR_LIST {
            return Err(Error::unsupported(
                "a file with more than 64 KiB of names of extended attributes",
            ));
        }
        self.0.extend_from_slice(name);
        self.0.push(0);
        Ok(())
    }

    /// The names.
    pub fn iter(&self) -> impl Iterator<Item = &OsStr> {
        let names = self.0.split(|byte| *byte == 0);
        names.filter(|name| !name.is_empty()).map(OsStr::from_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded() {
        let mut names = XattrNames::default();
        for impossible in ["", "user.a\0b", &"n".repeat(256)] {
            let refused = names.push(impossible.as_ref());
            assert!(matches!(refused, Err(Error::Corrupt(_))), "{impossible}");
        }
        let longest = "n".repeat(255);
        for _ in 0..256 {
            names.push(longest.as_ref()).unwrap();
        }
        let refused = names.push("n".as_ref());
        assert!(matches!(refused, Err(Error::Unsupported(_))));
        assert!(names.iter().all(|name| name == &*longest));
        assert_eq!(names.iter().count(), 256);
    }
}
