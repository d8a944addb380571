//! Finds the attributes of a tree that an image does not store.

use std::fmt;

use verimount_scan::{Entry, FileData, InodeKind, Loss, Losses, Owner};
use verimount_tree::{AccessList, FileType, Permissions, Timestamp};

use super::tree::{Item, Tree};
use crate::node;

/// The losses of a tree.
pub(super) fn losses(tree: &Tree) -> Losses {
    let mut losses = tree.source.losses().clone();
    for (entry, item) in tree.iter().filter(|(entry, _)| entry.is_first_name()) {
        let path = || {
            if tree.source.root().id() == entry.id() {
                ".".into()
            } else {
                entry.path_inside()
            }
        };
        inspect(entry, item, &mut |loss, detail| {
            losses.add(loss, path, detail);
        });
    }
    losses
}

/// Calls `lost` with each kind of loss of an entry's inode and its details.
fn inspect(entry: Entry<'_>, item: &Item, lost: &mut dyn FnMut(Loss, fmt::Arguments<'_>)) {
    let inode = entry.inode();
    if inode.mtime != Timestamp::EPOCH {
        lost(Loss::Times, format_args!(""));
    }
    let Owner { uid, gid } = inode.owner;
    if (uid, gid) != (0, 0) {
        lost(Loss::Owners, format_args!("{uid}:{gid}"));
    }
    let without_list = attributes(entry, lost);
    permissions(entry, item, without_list, lost);
    if let InodeKind::File(
        file @ FileData {
            stored: Some(_), ..
        },
    ) = &inode.kind
    {
        let (stored, len) = (file.stored_bytes(), file.size());
        lost(Loss::Holes, format_args!("{stored} of {len} bytes stored"));
    }
}

/// Inspects the extended attributes. Returns the permissions without what an access control list among them denies somebody.
fn attributes(entry: Entry<'_>, lost: &mut dyn FnMut(Loss, fmt::Arguments<'_>)) -> Permissions {
    let mut permissions = entry.inode().permissions;
    let (mut has_list, mut other) = (false, None);
    for (_, attribute) in entry.tree().xattrs().set(entry.inode().attributes) {
        match &*attribute.name {
            b"security.capability" => lost(Loss::Capabilities, format_args!("")),
            b"system.posix_acl_access" => {
                has_list = true;
                permissions = AccessList::removed_from(permissions, &attribute.value);
            }
            b"system.posix_acl_default" | b"system.nfs4_acl" => has_list = true,
            name => other = other.or(Some(name)),
        }
    }
    if has_list {
        lost(Loss::AccessLists, format_args!(""));
    }
    if let Some(name) = other {
        let name = String::from_utf8_lossy(name);
        lost(Loss::Attributes, format_args!("{name}"));
    }
    permissions
}

/// Compares the permission bits with those that are stored.
fn permissions(
    entry: Entry<'_>,
    item: &Item,
    without_list: Permissions,
    lost: &mut dyn FnMut(Loss, fmt::Arguments<'_>),
) {
    if item.file_type == FileType::Symlink {
        return;
    }
    let mode = entry.inode().permissions.bits();
    let stored = node::permissions(item.file_type, item.executable);
    let needed = needed(item.file_type);
    let needed = (needed << 3) | needed;
    let change = |mode| format!("{mode:04o} becomes {stored:04o}");
    if mode & 0o7000 != 0 {
        lost(Loss::SpecialBits, format_args!("{mode:04o}"));
    }
    let mode = mode & 0o777;
    if without_list.bits() & needed != needed {
        lost(Loss::Privacy, format_args!("{}", change(mode)));
    } else if mode != stored {
        lost(Loss::Permissions, format_args!("{}", change(mode)));
    }
}

/// The rights, of read 4, write 2 and execute 1, that the image gives to everybody.
///
/// A user who can read a file can run a copy of it, so execute permission does not count. Write
/// permission has no effect in an image. Device nodes are accessible only to root there.
fn needed(file_type: FileType) -> u16 {
    match file_type {
        FileType::Directory => 5,
        FileType::RegularFile | FileType::Socket | FileType::Fifo => 4,
        FileType::Symlink | FileType::BlockDevice | FileType::CharDevice => 0,
    }
}
