//! Gives files the attributes that they have in the image, in an order in which nobody ever has more rights
//! than intended: a file is accessible only to the caller until it has its owner, and gets permissions, set-id bits,
//! capabilities and access control lists only then. A list comes after the permissions, as it decides them; until then
//! they are those of a file that does not get its list.

use std::{ffi::OsStr, io, os::unix::fs::MetadataExt, path::PathBuf};

use rustix::{
    fs::{Gid, Uid},
    io::Errno,
};
use verimount_tree::{
    ACCESS_LIST, AccessList, Attr, DEFAULT_ACCESS_LIST, FileType, Permissions, Timestamp, Tree,
    XattrNames,
};

use super::{Unrestored, UnrestoredFiles, budget::Budget, new_file::NewFile};
use crate::fault::ContentFault;

/// The attribute with the capabilities of a program.
const CAPABILITIES: &str = "security.capability";

/// How many bytes of extended attributes a file may have without counting: labels, which all files share in
/// the image.
const FREE_XATTRS: u64 = 1024;

/// The set-user-id bit.
const SET_UID: u32 = 0o4000;

/// The set-group-id bit.
const SET_GID: u32 = 0o2000;

pub(super) struct Restorer<'a> {
    tree: &'a dyn Tree,
    /// Whether the tree stores owners, and with them everything else. If not, files belong to the caller.
    pub(super) restores: bool,
    pub(super) unrestored: UnrestoredFiles,
}

/// A file that was made, and what it was made from.
pub(super) struct Copied<'a> {
    pub(super) file: &'a NewFile,
    pub(super) attr: &'a Attr,
    /// Its path from the root of the tree.
    pub(super) path: &'a dyn Fn() -> PathBuf,
}

/// A part of a file's extended attributes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Those that everybody may know, and that an owner may set only while the file is writable.
    Plain,
    /// Access control lists and capabilities.
    Rights,
}

impl<'a> Restorer<'a> {
    pub(super) fn new(tree: &'a dyn Tree, restores: bool) -> Self {
        Self {
            tree,
            restores,
            unrestored: UnrestoredFiles::default(),
        }
    }

    /// Gives a file its attributes.
    pub(super) fn restore(
        &mut self,
        copied: &Copied<'_>,
        budget: &mut Budget,
    ) -> Result<(), ContentFault> {
        let &Copied { file, attr, .. } = copied;
        if !self.restores {
            if attr.file_type == FileType::RegularFile {
                file.set_mode(plain_mode(attr))?;
            }
            return Ok(());
        }
        let names = self.tree.xattr_names(attr.node)?;
        self.set_xattrs(copied, &names, Part::Plain, budget)?;
        set_owner(file, attr)?;
        set_mode(file, attr, self.without_list(attr, &names)?)?;
        self.set_xattrs(copied, &names, Part::Rights, budget)?;
        unless_refused(file.set_times(attr.atime, attr.mtime))?;
        self.compare(copied)
    }

    fn set_xattrs(
        &mut self,
        copied: &Copied<'_>,
        names: &XattrNames,
        part: Part,
        budget: &mut Budget,
    ) -> Result<(), ContentFault> {
        let mut free = FREE_XATTRS;
        let mut lost = Vec::new();
        for name in names.iter() {
            let kind = kind(name);
            if (part == Part::Plain) != (kind == Unrestored::Attributes) {
                continue;
            }
            let value = self.tree.xattr(copied.attr.node, name)?;
            let len = value.len() as u64;
            budget.spend(len.saturating_sub(free))?;
            free = free.saturating_sub(len);
            match copied.file.set_xattr(name, &value) {
                Ok(()) => {}
                Err(error) if !does_not_take(error) => return Err(error.into()),
                // A file counts once.
                Err(_) if lost.contains(&kind) => {}
                Err(_) => {
                    lost.push(kind);
                    let detail = name.to_string_lossy().into_owned();
                    self.unrestored.add(kind, copied.path, detail);
                }
            }
        }
        Ok(())
    }

    /// The permissions that a file has without its access control list.
    fn without_list(&self, attr: &Attr, names: &XattrNames) -> Result<Permissions, ContentFault> {
        if !names.iter().any(|name| name == ACCESS_LIST) {
            return Ok(attr.permissions);
        }
        let list = self.tree.xattr(attr.node, ACCESS_LIST.as_ref())?;
        Ok(AccessList::removed_from(attr.permissions, &list))
    }

    /// Notes what a file has not got, for whatever reason.
    fn compare(&mut self, copied: &Copied<'_>) -> Result<(), ContentFault> {
        let &Copied { file, attr, path } = copied;
        let found = file.metadata()?;
        let (uid, gid) = (found.uid(), found.gid());
        if (uid, gid) != (attr.uid, attr.gid) {
            let detail = format!("{}:{} becomes {uid}:{gid}", attr.uid, attr.gid);
            self.unrestored.add(Unrestored::Owners, path, detail);
        }
        let permissions = Permissions::new(found.mode());
        if has_mode(attr) && permissions != attr.permissions {
            let (wanted, found) = (attr.permissions.bits(), permissions.bits());
            let detail = format!("{wanted:04o} becomes {found:04o}");
            self.unrestored.add(Unrestored::Permissions, path, detail);
        }
        let nanoseconds = u32::try_from(found.mtime_nsec()).ok();
        if nanoseconds.and_then(|rest| Timestamp::new(found.mtime(), rest)) != Some(attr.mtime) {
            self.unrestored.add(Unrestored::Times, path, String::new());
        }
        Ok(())
    }
}

/// The permissions of a file that belongs to who made it: set-id bits would be theirs.
pub(super) fn plain_mode(attr: &Attr) -> u32 {
    let copied = attr.permissions.intersection(Permissions::new(0o777));
    copied.bits().into()
}

fn has_mode(attr: &Attr) -> bool {
    attr.file_type != FileType::Symlink
}

/// Sets owner and group as far as possible, after taking all rights from the file that its owner is not to
/// have.
fn set_owner(file: &NewFile, attr: &Attr) -> io::Result<()> {
    let made = Permissions::new(if attr.is_directory() { 0o700 } else { 0o600 });
    let narrowed = made.intersection(attr.permissions);
    if has_mode(attr) && narrowed != made {
        unless_refused(file.set_mode(narrowed.bits().into()))?;
    }
    // The number -1 means that nothing is to change.
    let owner = (attr.uid != u32::MAX).then(|| Uid::from_raw(attr.uid));
    let group = (attr.gid != u32::MAX).then(|| Gid::from_raw(attr.gid));
    match file.set_owner(owner, group) {
        // The group may be another one of the caller's.
        Err(error) if is_refused(error) => unless_refused(file.set_owner(None, group)),
        other => Ok(other?),
    }
}

/// Sets these permissions, without set-id bits for owners that the file has not got.
fn set_mode(file: &NewFile, attr: &Attr, permissions: Permissions) -> io::Result<()> {
    if !has_mode(attr) {
        return Ok(());
    }
    let owned = file.metadata()?;
    let mut mode = u32::from(permissions.bits());
    if owned.uid() != attr.uid {
        mode &= !SET_UID;
    }
    if owned.gid() != attr.gid {
        mode &= !SET_GID;
    }
    unless_refused(file.set_mode(mode))
}

/// What an extended attribute is.
fn kind(name: &OsStr) -> Unrestored {
    match name.to_str() {
        Some(ACCESS_LIST | DEFAULT_ACCESS_LIST) => Unrestored::AccessLists,
        Some(CAPABILITIES) => Unrestored::Capabilities,
        _ => Unrestored::Attributes,
    }
}

/// Ignores that the caller may not do something, or the file system cannot: what is lost is seen afterwards.
fn unless_refused(outcome: Result<(), Errno>) -> io::Result<()> {
    match outcome {
        Err(error) if is_refused(error) => Ok(()),
        other => Ok(other?),
    }
}

/// Whether a change of an attribute is refused, and not failed. An id that a user namespace does not have is
/// invalid.
fn is_refused(error: Errno) -> bool {
    let refused = [Errno::PERM, Errno::ACCESS, Errno::INVAL, Errno::OPNOTSUPP];
    refused.contains(&error)
}

/// Whether a file does not take an extended attribute, as it is refused or has no room for it.
fn does_not_take(error: Errno) -> bool {
    let no_room = [Errno::NOSPC, Errno::TOOBIG, Errno::RANGE];
    is_refused(error) || no_room.contains(&error)
}
