use std::fmt;

use verimount::FileType;
use verimount_host::printable;

use super::{date::Date, entry::Entry};

/// Shows a file as `ls -ln --time-style=full-iso` does, with its path.
pub(super) struct Long<'a>(pub(super) &'a Entry<'a>);

impl fmt::Display for Long<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(entry) = *self;
        let metadata = entry.metadata;
        let (major, minor) = metadata.device();
        let size = if entry.is_device() {
            format!("{major}, {minor}")
        } else {
            metadata.len().to_string()
        };
        write!(f, "{:<11} {:>3} ", mode(entry), metadata.nlink())?;
        write!(f, "{:>5} {:>5} {size:>12} ", metadata.uid(), metadata.gid())?;
        write!(f, "{} {}", Date(metadata.mtime()), printable(entry.path))?;
        match &entry.target {
            Some(target) => write!(f, " -> {}", printable(target)),
            None => Ok(()),
        }
    }
}

/// Type and permissions in letters, and a plus sign for an access control list.
fn mode(entry: &Entry<'_>) -> String {
    let mut text = String::from(letter(entry.metadata.file_type()));
    let bits = entry.permissions();
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let has = |bit: u32| bits & (bit << shift) != 0;
        text.push(if has(4) { 'r' } else { '-' });
        text.push(if has(2) { 'w' } else { '-' });
        text.push(match (bits & special != 0, has(1)) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    let mut names = entry.xattrs.iter().filter_map(|name| name.to_str());
    if names.any(|name| name.starts_with("system.posix_acl_")) {
        text.push('+');
    }
    text
}

fn letter(file_type: FileType) -> char {
    match file_type {
        FileType::Directory => 'd',
        FileType::RegularFile => '-',
        FileType::Symlink => 'l',
        FileType::BlockDevice => 'b',
        FileType::CharDevice => 'c',
        FileType::Socket => 's',
        FileType::Fifo => 'p',
    }
}
