//! The processors of this machine, as the kernel numbers its queues.

use std::{fs, io};

/// The number of possible processors, including those that can be added while the machine runs.
///
/// # Errors
/// `InvalidData` if the system's list of processors is malformed; otherwise the system's error.
pub(crate) fn possible() -> io::Result<u16> {
    let list = fs::read_to_string("/sys/devices/system/cpu/possible")?;
    count(list.trim_end()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The length of a list such as `0-3,6`.
fn count(list: &str) -> Option<u16> {
    list.split(',').try_fold(0_u16, |sum, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("0-1"), Some(2));
        assert_eq!(count("0-3,6,8-9"), Some(7));
        for wrong in ["", "a", "3-1", "0-65535", "0,", "-1"] {
            assert_eq!(count(wrong), None, "{wrong}");
        }
    }
}
