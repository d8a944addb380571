//! Names what is not read here, by how it begins.

use verimount_source::ReadAt;

/// What has which bytes where.
const FORMATS: [(u64, &[u8], &str); 13] = [
    (0, b"hsqs", "a squashfs image"),
    (1080, b"\x53\xef", "an ext4 image"),
    (0, b"XFSB", "an XFS image"),
    (0x1_0040, b"_BHRfS_M", "a Btrfs image"),
    (0x8001, b"CD001", "an ISO 9660 image"),
    (0, b"QFI\xfb", "a QCOW image"),
    // Behind the length of its first entry.
    (8, b"\x51\xbb\x5b\xea\xbc\xfa\x96\x13", "a catar archive"),
    (0, b"070701", "a cpio archive"),
    (0, b"070702", "a cpio archive"),
    (0, b"070707", "a cpio archive"),
    (0, b"\xc7\x71", "a cpio archive"),
    (0, b"PK\x03\x04", "a zip archive"),
    (0, b"PK\x05\x06", "a zip archive"),
];

/// What it is, with its article; `None` if nobody knows.
pub(crate) fn foreign(content: &dyn ReadAt) -> Option<&'static str> {
    let mut formats = FORMATS.iter();
    let found = formats.find(|(at, magic, _)| {
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..magic.len()];
        content.read_exact_at(bytes, *at).is_ok() && bytes == *magic
    });
    found.map(|(.., what)| *what)
}

/// The end of a text that names it: `: it is a zip archive`.
pub(crate) fn suffix(what: Option<&str>) -> String {
    what.map(|what| format!(": it is {what}"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_their_beginning() {
        for (at, magic, what) in FORMATS {
            let mut content = vec![0; 0x1_0100];
            content[at as usize..][..magic.len()].copy_from_slice(magic);
            assert_eq!(foreign(&content), Some(what));
            content.truncate(at as usize + magic.len() - 1);
            assert_eq!(foreign(&content), None);
        }
    }
}
