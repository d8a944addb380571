use std::{ffi::OsStr, fmt, os::unix::ffi::OsStrExt};

use rustix::io::Errno;

/// `NAME_MAX`: the longest name in Linux, in bytes.
const MAX_LEN: usize = 255;

/// A name in a directory, which leads exactly one step down: not empty, `.` or `..`, and without
/// `/` and NUL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name<'a>(&'a OsStr);

impl<'a> Name<'a> {
    pub(crate) fn new(name: &'a OsStr) -> Result<Self, Errno> {
        let bytes = name.as_bytes();
        match bytes {
            b"" => Err(Errno::NOENT),
            b"." | b".." => Err(Errno::INVAL),
            _ if bytes.len() > MAX_LEN => Err(Errno::NAMETOOLONG),
            _ if bytes.iter().any(|byte| matches!(byte, b'/' | 0)) => Err(Errno::INVAL),
            _ => Ok(Self(name)),
        }
    }

    pub(crate) fn as_os_str(self) -> &'a OsStr {
        self.0
    }

    pub(crate) fn as_bytes(self) -> &'a [u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_one_step_down() {
        for name in ["a", "...", ".hidden", "a\nb", &"n".repeat(255)] {
            assert!(Name::new(name.as_ref()).is_ok(), "{name}");
        }
        for (name, errno) in [
            ("", Errno::NOENT),
            (".", Errno::INVAL),
            ("..", Errno::INVAL),
            ("a/b", Errno::INVAL),
            ("/", Errno::INVAL),
            ("a\0b", Errno::INVAL),
            (&"n".repeat(256), Errno::NAMETOOLONG),
        ] {
            assert_eq!(Name::new(name.as_ref()).unwrap_err(), errno, "{name}");
        }
    }
}
