//! Reads a directory tree, without its contents.

use std::{
    collections::HashMap,
    ffi::OsStr,
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};
use verimount_source::Progress;
use verimount_tree::{MAX_DEPTH, Permissions};

use crate::{
    EntryId, Error, FileData, FileId, Identity, Inode, InodeId, InodeKind, Limit, Options, Owner,
    SourceTree,
    attributes::AttributeReader,
    cursor::{Cursor, Found},
    holes::stored_ranges,
    inode::{Place, special, timestamp},
    listing::{Lister, Listing, ListingError},
    source_tree::Origin,
};

/// Scans the tree at `root`, which may be a symbolic link to a directory.
///
/// Symbolic links inside the tree are part of it, not followed. So are file systems that are mounted
/// inside it. `progress` is called with 1 for each name.
///
/// # Errors
/// [`Error::Unreadable`] for what cannot be read, [`Error::Changed`] for what was moved or removed
/// concurrently, [`Error::TooLarge`] for what exceeds a [`Limit`], and [`Error::Cancelled`] if
/// `progress` says so.
pub fn scan(
    root: &Path,
    options: &Options,
    progress: &mut Progress<'_>,
) -> Result<SourceTree, Error> {
    let open = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let found = Found::new(openat(CWD, root, flags, Mode::empty())?.into())?;
        io::Result::Ok((found.file.try_clone()?, Cursor::new(&found.file)?, found))
    };
    let (directory, cursor, found) = open().map_err(|source| Error::Unreadable {
        path: root.to_owned(),
        source,
    })?;
    let mut scan = Scan {
        tree: SourceTree::new(root, Origin::Directory(directory)),
        cursor,
        options,
        linked: HashMap::new(),
        attributes: AttributeReader::new(options.attributes),
        lister: Lister::new(),
    };
    let root = scan.add(&found, b"")?;
    scan.descend(root, found, progress)?;
    Ok(scan.tree)
}

/// A scan under way.
struct Scan<'o> {
    tree: SourceTree,
    /// The directory whose entries are being added.
    cursor: Cursor,
    options: &'o Options,
    /// The inodes with several names.
    linked: HashMap<FileId, InodeId>,
    attributes: AttributeReader,
    lister: Lister,
}

impl Scan<'_> {
    /// Adds everything below the root.
    fn descend(
        &mut self,
        root: EntryId,
        found: Found,
        progress: &mut Progress<'_>,
    ) -> Result<(), Error> {
        let mut levels = vec![(root, self.list(root, &found)?)];
        drop(found);
        while let Some((parent, names)) = levels.last_mut() {
            let parent = *parent;
            let Some(name) = names.take() else {
                self.tree.close(parent);
                levels.pop();
                continue;
            };
            if progress(1).is_break() {
                return Err(Error::Cancelled);
            }
            if self.is_excluded(parent, name) {
                continue;
            }
            self.cursor.ascend_to(&self.tree, parent)?;
            let found = self.cursor.find(name);
            let found = found.map_err(|error| Error::unreadable(self.path(name), error))?;
            let entry = self.add(&found, name)?;
            if !found.metadata.is_dir() {
                continue;
            }
            if levels.len() == MAX_DEPTH {
                return Err(self.too_large(entry, Limit::Depth));
            }
            let names = self.list(entry, &found)?;
            // A directory without search permission cannot be left through `..`.
            if !names.is_empty() {
                self.cursor.enter(found.file, entry);
                levels.push((entry, names));
            }
        }
        Ok(())
    }

    /// Whether a name in the directory of an entry is left out.
    fn is_excluded(&self, directory: EntryId, name: &[u8]) -> bool {
        let exclude = &self.options.exclude;
        exclude.matches_name(self.tree.entry(directory), name)
    }

    /// The names in the directory of an entry.
    fn list(&mut self, entry: EntryId, found: &Found) -> Result<Listing, Error> {
        self.lister.list(&found.file).map_err(|error| match error {
            ListingError::Io(error) => Error::unreadable(self.tree.entry(entry).path(), error),
            ListingError::TooMany => self.too_large(entry, Limit::DirectoryEntries),
        })
    }

    /// Adds an entry of the cursor's directory, or the root.
    fn add(&mut self, found: &Found, name: &[u8]) -> Result<EntryId, Error> {
        let parent = self.cursor.entry();
        if self.tree.is_full() {
            return Err(self.too_large(parent, Limit::Entries));
        }
        let metadata = &found.metadata;
        let id = FileId::of(metadata);
        let has_several_names = !metadata.is_dir() && metadata.nlink() > 1;
        let known = self.linked.get(&id).filter(|_| has_several_names);
        let inode = match known {
            Some(inode) => *inode,
            None => self.add_inode(found, name)?,
        };
        if has_several_names {
            self.linked.insert(id, inode);
        }
        Ok(self.tree.push_entry(name, parent, inode))
    }

    /// Adds the inode of an entry of the cursor's directory.
    fn add_inode(&mut self, found: &Found, name: &[u8]) -> Result<InodeId, Error> {
        let metadata = &found.metadata;
        let failed = |scan: &Self, error| Error::unreadable(scan.path(name), error);
        let kind = kind(found).map_err(|error| failed(self, error))?;
        let attributes = self.attributes.read(found);
        let attributes = attributes.map_err(|error| failed(self, error))?;
        let attributes = self.tree.attributes_mut().intern(attributes);
        let own = Owner {
            uid: metadata.uid(),
            gid: metadata.gid(),
        };
        let Owner { uid, gid } = self.options.owner.unwrap_or(own);
        let inode = Inode {
            kind,
            permissions: Permissions::new(metadata.mode()),
            uid,
            gid,
            mtime: self
                .options
                .times
                .apply(timestamp(metadata.mtime(), metadata.mtime_nsec())),
            attributes: attributes.map_err(|_| Error::TooLarge {
                path: self.path(name),
                limit: Limit::Attributes,
            })?,
            names: 0,
            first_name: self.tree.next_entry(),
        };
        Ok(self.tree.push_inode(inode))
    }

    fn too_large(&self, entry: EntryId, limit: Limit) -> Error {
        let path = self.tree.entry(entry).path();
        Error::TooLarge { path, limit }
    }

    /// The path of a name in the cursor's directory; of the root for the empty name.
    fn path(&self, name: &[u8]) -> PathBuf {
        match name {
            b"" => self.tree.path().to_owned(),
            _ => {
                let directory = self.tree.entry(self.cursor.entry()).path();
                directory.join(OsStr::from_bytes(name))
            }
        }
    }
}

/// What an entry is.
fn kind(found: &Found) -> io::Result<InodeKind> {
    let metadata = &found.metadata;
    match metadata.file_type() {
        kind if kind.is_dir() => Ok(InodeKind::Directory(Some(FileId::of(metadata)))),
        kind if kind.is_symlink() => {
            let target = readlinkat(&found.file, c"", Vec::new())?;
            Ok(InodeKind::Symlink(target.into_bytes().into()))
        }
        _ => match Identity::of(metadata) {
            Some(identity) => Ok(InodeKind::File(FileData {
                place: Place::File(identity),
                stored: stored_ranges(found)?,
            })),
            None => special(metadata),
        },
    }
}
