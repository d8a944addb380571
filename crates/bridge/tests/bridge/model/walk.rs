//! What is in the source, found without the mirror.

use std::{
    collections::BTreeMap,
    fs::{self, FileType},
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::Path,
};

use rustix::fs::{Mode, OFlags, open};

/// A regular file in the source.
pub(super) struct Seen {
    pub(super) paths: Vec<String>,
    pub(super) content: Vec<u8>,
    /// So that no other file gets its inode number.
    _held: OwnedFd,
}

/// All paths below the source. Somebody may change it meanwhile.
pub(super) fn walk(source: &Path) -> Vec<(String, FileType)> {
    let mut found = Vec::new();
    let mut directories = vec![String::new()];
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(source.join(&directory)) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = join(&directory, entry.file_name().to_str().unwrap());
            if let Ok(kind) = entry.file_type() {
                if kind.is_dir() {
                    directories.push(path.clone());
                }
                found.push((path, kind));
            }
        }
    }
    found
}

/// All regular files, by their inode numbers, while nobody changes the source.
pub(super) fn files(source: &Path) -> BTreeMap<u64, Seen> {
    let mut files: BTreeMap<u64, Seen> = BTreeMap::new();
    for (path, _) in walk(source).into_iter().filter(|(_, kind)| kind.is_file()) {
        let file = source.join(&path);
        let seen = files
            .entry(fs::symlink_metadata(&file).unwrap().ino())
            .or_insert_with(|| Seen {
                paths: Vec::new(),
                content: fs::read(&file).unwrap(),
                _held: open(&file, OFlags::PATH, Mode::empty()).unwrap(),
            });
        seen.paths.push(path);
    }
    files
}

/// A path below the source, where the source itself has an empty one.
pub(super) fn join(directory: &str, name: &str) -> String {
    match directory {
        "" => name.to_owned(),
        directory => format!("{directory}/{name}"),
    }
}
