use serde::Serialize;
use verimount::{FileType, Timestamp};
use verimount_host::printable;

use super::entry::Entry;
use crate::json::{VERSION, shown};

/// A file as JSON. Names are as [`printable`] shows them, as not every name is text.
#[derive(Serialize)]
pub(super) struct JsonEntry {
    version: u32,
    path: String,
    #[serde(rename = "type")]
    file_type: &'static str,
    /// Permissions in four octal digits.
    mode: String,
    inode: u64,
    links: u32,
    uid: u32,
    gid: u32,
    /// In bytes.
    size: u64,
    /// Of 512 bytes.
    blocks: u64,
    /// The device of a device node.
    rdev: Option<JsonDevice>,
    atime: JsonTime,
    mtime: JsonTime,
    ctime: JsonTime,
    /// The target of a symbolic link.
    target: Option<String>,
    /// The names of extended attributes.
    xattrs: Vec<String>,
}

#[derive(Serialize)]
struct JsonDevice {
    major: u32,
    minor: u32,
}

/// Whole seconds since 1970, negative before, and nanoseconds after them.
#[derive(Serialize)]
struct JsonTime {
    seconds: i64,
    nanoseconds: u32,
}

impl JsonEntry {
    pub(super) fn new(entry: &Entry<'_>) -> Self {
        let metadata = entry.metadata;
        let (major, minor) = metadata.device();
        let target = entry.target.as_ref();
        Self {
            version: VERSION,
            path: printable(entry.path).to_string(),
            file_type: type_name(metadata.file_type()),
            mode: format!("{:04o}", entry.permissions()),
            inode: metadata.ino(),
            links: metadata.nlink(),
            uid: metadata.uid(),
            gid: metadata.gid(),
            size: metadata.len(),
            blocks: metadata.blocks(),
            rdev: entry.is_device().then_some(JsonDevice { major, minor }),
            atime: metadata.atime().into(),
            mtime: metadata.mtime().into(),
            ctime: metadata.ctime().into(),
            target: target.map(|target| printable(target).to_string()),
            xattrs: shown(&entry.xattrs),
        }
    }
}

impl From<Timestamp> for JsonTime {
    fn from(time: Timestamp) -> Self {
        Self {
            seconds: time.seconds(),
            nanoseconds: time.nanoseconds(),
        }
    }
}

fn type_name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Directory => "directory",
        FileType::RegularFile => "file",
        FileType::Symlink => "symlink",
        FileType::BlockDevice => "block-device",
        FileType::CharDevice => "character-device",
        FileType::Socket => "socket",
        FileType::Fifo => "fifo",
    }
}
