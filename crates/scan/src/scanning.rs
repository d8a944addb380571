//! Reads a directory tree, without its contents.

use std::{
    collections::HashMap,
    ffi::OsStr,
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};
use verimount_source::{FileId, Progress};
use verimount_tree::{MAX_DEPTH, Permissions, Timestamp};

use crate::{
    BadLink, Entry, EntryId, Error, FileData, Identity, Inode, InodeId, InodeKind, Limit, Links,
    Options, Owner, SourceTree, XattrSetId,
    attributes::AttributeReader,
    cursor::{Cursor, FollowError, Found},
    holes::stored_ranges,
    inode::{Place, special},
    listing::{Lister, Listing, ListingError},
    source_tree::Origin,
};

/// The most symbolic links to directories that are followed: where each leads to several others, there would be no end.
pub(crate) const MAX_LINKED_DIRECTORIES: usize = 1 << 16;

/// Scans the tree at `root`, which may be a symbolic link to a directory.
///
/// Symbolic links inside the tree are part of it, not followed, unless the options say so. File systems that are mounted
/// inside it are part of it, too. `progress` is called with 1 for each name.
///
/// # Errors
/// [`Error::Unreadable`] for what cannot be read, [`Error::Changed`] for what was moved or removed
/// concurrently, [`Error::TooLarge`] for what exceeds a [`Limit`], [`Error::Link`] for a link that cannot be followed,
/// [`Error::Taken`] for what is in the place of the file that is added, and [`Error::Cancelled`] if
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
        linked_directories: 0,
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
    /// How many symbolic links to directories were followed.
    linked_directories: usize,
}

impl Scan<'_> {
    /// Adds everything below the root.
    fn descend(
        &mut self,
        root: EntryId,
        found: Found,
        progress: &mut Progress<'_>,
    ) -> Result<(), Error> {
        let mut names = self.list(root, &found)?;
        self.announce_added(&mut names)?;
        let mut levels = vec![(root, names)];
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
            if self.is_added(parent, name) {
                self.cursor.ascend_to(&self.tree, parent)?;
                self.add_added(name)?;
                continue;
            }
            if self.is_excluded(parent, name) {
                continue;
            }
            self.cursor.ascend_to(&self.tree, parent)?;
            let found = self.find(name)?;
            let entry = self.add(&found, name)?;
            if !found.metadata.is_dir() {
                continue;
            }
            if found.target.is_some() {
                self.check_linked_directory(entry)?;
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

    /// What has this name in the cursor's directory or, if it is a symbolic link that is followed, what that leads to.
    fn find(&self, name: &[u8]) -> Result<Found, Error> {
        let failed = |error| Error::unreadable(self.path(name), error);
        let found = self.cursor.find(name).map_err(failed)?;
        if self.options.links == Links::Kept || !found.metadata.is_symlink() {
            return Ok(found);
        }
        let followed = self.cursor.follow(&found, name);
        followed.map_err(|error| match error {
            FollowError::Link(reason) => Error::Link {
                path: self.path(name),
                reason,
            },
            FollowError::Io(error) => failed(error),
        })
    }

    /// Checks that an entry, which is a directory that a symbolic link leads to, is not one that the link is in.
    fn check_linked_directory(&mut self, entry: EntryId) -> Result<(), Error> {
        let link = self.tree.entry(entry);
        let id = |entry: Entry<'_>| match &entry.inode().kind {
            InodeKind::Directory(id) => *id,
            _ => None,
        };
        let mut above = link;
        while above.id() != EntryId::ROOT {
            above = above.parent();
            if id(above) == id(link) {
                return Err(Error::Link {
                    path: link.path(),
                    reason: BadLink::Circle,
                });
            }
        }
        self.linked_directories += 1;
        if self.linked_directories > MAX_LINKED_DIRECTORIES {
            Err(self.too_large(entry, Limit::LinkedDirectories))
        } else {
            Ok(())
        }
    }

    /// Whether a name in the directory of an entry is left out.
    fn is_excluded(&mut self, directory: EntryId, name: &[u8]) -> bool {
        let directory = self.tree.entry(directory);
        if self.options.exclude.match_name(directory, name) {
            return true;
        }
        if self.options.ignored.is_empty() {
            return false;
        }
        let path = directory.path_inside().join(OsStr::from_bytes(name));
        let is_ignored = self.options.ignored.contains(&path);
        if is_ignored {
            self.tree.left_out.push(path);
        }
        is_ignored
    }

    /// Adds the name of the file that is added to those in the root.
    fn announce_added(&mut self, names: &mut Listing) -> Result<(), Error> {
        let Some(added) = &self.options.added else {
            return Ok(());
        };
        let name = added.name.as_bytes();
        if names.add(name) || self.is_excluded(EntryId::ROOT, name) {
            Ok(())
        } else {
            Err(Error::Taken {
                path: self.path(name),
            })
        }
    }

    /// Whether a name in the directory of an entry is that of the file that is added.
    fn is_added(&self, directory: EntryId, name: &[u8]) -> bool {
        let added = self.options.added.as_ref();
        directory == EntryId::ROOT && added.is_some_and(|added| added.name.as_bytes() == name)
    }

    /// Adds the file that is added.
    fn add_added(&mut self, name: &[u8]) -> Result<(), Error> {
        let Some(added) = &self.options.added else {
            return Ok(());
        };
        let parent = self.cursor.entry;
        if self.tree.is_full() {
            return Err(self.too_large(parent, Limit::Entries));
        }
        let kind = InodeKind::File(FileData {
            place: Place::Added(added.content.clone()),
            stored: None,
        });
        let root = Owner { uid: 0, gid: 0 };
        let inode = Inode {
            kind,
            permissions: plain_permissions(false),
            owner: self.options.owner.unwrap_or(root),
            mtime: self.options.times.apply(Timestamp::EPOCH),
            attributes: XattrSetId::EMPTY,
            names: 0,
            first_name: self.tree.next_entry(),
        };
        let inode = self.tree.push_inode(inode);
        self.tree.push_entry(name, parent, inode);
        Ok(())
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
        let parent = self.cursor.entry;
        if self.tree.is_full() {
            return Err(self.too_large(parent, Limit::Entries));
        }
        let metadata = &found.metadata;
        let id = FileId::of(metadata);
        let may_have_several = metadata.nlink() > 1 || found.target.is_some();
        let has_several_names = may_have_several && !metadata.is_dir() && !self.options.plain;
        let known = self.linked.get(&id).filter(|_| has_several_names);
        let inode = match known {
            Some(inode) => *inode,
            None => self.add_inode(found, name)?,
        };
        if has_several_names {
            self.linked.insert(id, inode);
        }
        let entry = self.tree.push_entry(name, parent, inode);
        if let Some(target) = &found.target {
            self.tree.followed.insert(entry, target.clone());
        }
        Ok(entry)
    }

    /// Adds the inode of an entry of the cursor's directory.
    fn add_inode(&mut self, found: &Found, name: &[u8]) -> Result<InodeId, Error> {
        let metadata = &found.metadata;
        let failed = |scan: &Self, error| Error::unreadable(scan.path(name), error);
        let kind = kind(found).map_err(|error| failed(self, error))?;
        let attributes = self.attributes.read(found);
        let attributes = attributes.map_err(|error| failed(self, error))?;
        let permissions = if self.options.plain {
            plain_permissions(metadata.is_dir())
        } else {
            let permissions = self.attributes.permissions(found);
            permissions.map_err(|error| failed(self, error))?
        };
        let attributes = self.tree.xattrs.intern(attributes);
        let mtime = Timestamp::from_stat(metadata.mtime(), metadata.mtime_nsec());
        let own = Owner {
            uid: metadata.uid(),
            gid: metadata.gid(),
        };
        let inode = Inode {
            kind,
            permissions,
            owner: self.options.owner.unwrap_or(own),
            mtime: self.options.times.apply(mtime),
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
                let directory = self.tree.entry(self.cursor.entry).path();
                directory.join(OsStr::from_bytes(name))
            }
        }
    }
}

/// The permissions of all files or directories that have none of their own.
fn plain_permissions(is_directory: bool) -> Permissions {
    Permissions::new(if is_directory { 0o755 } else { 0o644 })
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
