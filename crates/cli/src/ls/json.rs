use serde_json::{Value, json};
use verimount::{FileType, Timestamp};
use verimount_host::printable;

use super::entry::Entry;
use crate::json::{VERSION, shown};

/// A file as JSON.
pub(super) fn to_json(entry: &Entry<'_>) -> Value {
    let metadata = entry.metadata;
    let (major, minor) = metadata.device();
    json!({
        "version": VERSION,
        "path": printable(entry.path).to_string(),
        "type": type_name(metadata.file_type()),
        // Permissions in four octal digits.
        "mode": format!("{:04o}", entry.permissions()),
        "inode": metadata.ino(),
        "links": metadata.nlink(),
        "uid": metadata.uid(),
        "gid": metadata.gid(),
        // In bytes.
        "size": metadata.len(),
        // Of 512 bytes.
        "blocks": metadata.blocks(),
        "rdev": entry.is_device().then(|| json!({"major": major, "minor": minor})),
        "atime": time_json(metadata.atime()),
        "mtime": time_json(metadata.mtime()),
        "ctime": time_json(metadata.ctime()),
        "target": entry.target.as_ref().map(|target| printable(target).to_string()),
        "xattrs": shown(&entry.xattrs),
    })
}

/// Whole seconds since 1970, negative before, and nanoseconds after them.
fn time_json(time: Timestamp) -> Value {
    json!({"seconds": time.seconds(), "nanoseconds": time.nanoseconds()})
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
