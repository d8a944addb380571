use clap::Args;
use verimount_host::{Owners, Permissions};

/// The options for owners and permissions of files.
#[derive(Args)]
pub(crate) struct OwnerArgs {
    /// User ID to show as the owner of all files; default: the owners that are stored, or, where the format
    /// stores none, the user who mounts; for a single file its owner
    #[arg(long, value_name = "UID", value_parser = parse_id)]
    uid: Option<u32>,
    /// Group ID to show for all files; default: as for --uid
    #[arg(long, value_name = "GID", value_parser = parse_id)]
    gid: Option<u32>,
    /// Octal mask of the permissions that no file has: directories and executable files have the others
    /// of 777, other files those of 666; only for formats that store no permissions
    #[arg(long, value_name = "MASK", value_parser = parse_permissions)]
    umask: Option<u32>,
}

impl OwnerArgs {
    pub(crate) fn owners(&self) -> Owners {
        Owners {
            uid: self.uid,
            gid: self.gid,
            umask: self.umask.map(Permissions::new),
        }
    }
}

fn parse_id(text: &str) -> Result<u32, String> {
    // The highest number is nobody's: system calls take it as "no change".
    match text.parse() {
        Ok(id) if id < u32::MAX => Ok(id),
        _ => Err("an id is a number from 0 to 4294967294".to_owned()),
    }
}

/// Parses permissions, or a mask of them.
pub(crate) fn parse_permissions(text: &str) -> Result<u32, String> {
    // The sign that Rust accepts is not part of them.
    let is_octal = text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    match u32::from_str_radix(text, 8) {
        Ok(mode @ 0..=0o777) if is_octal => Ok(mode),
        _ => Err("permissions are octal digits, 777 at most".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        assert_eq!(parse_id("0"), Ok(0));
        assert_eq!(parse_id("4294967294"), Ok(u32::MAX - 1));
        for wrong in ["", "-1", "4294967295", "nobody", "1 "] {
            assert!(parse_id(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn permissions() {
        for (text, mask) in [("0", 0), ("022", 0o22), ("77", 0o77), ("0777", 0o777)] {
            assert_eq!(parse_permissions(text), Ok(mask));
        }
        for wrong in ["", "8", "+22", "-1", "1000", "0o22", "u=rwx"] {
            assert!(parse_permissions(wrong).is_err(), "{wrong}");
        }
    }
}
