//! The identifier of a volume, which depends on its content alone.

use sha2::{Digest, Sha256};
use verimount_scan::{InodeKind, Owner, SourceTree};

use super::{Compression, VolumeName};

/// An identifier of 16 bytes (RFC 9562, version 8) made from everything in the tree but the contents of
/// files, which are not known when the superblock is written.
pub(super) fn of(
    tree: &SourceTree,
    volume_name: VolumeName,
    compression: Option<Compression>,
) -> [u8; 16] {
    let mut hash = Sha256::new();
    hash.update(volume_name.padded());
    if let Some(compression) = compression {
        let codec = compression.codec;
        hash.update([codec.algorithm().number(), codec.level()]);
    }
    for entry in tree.entries() {
        let inode = entry.inode();
        // The numbers have as many bits on all machines.
        for index in [entry.inode_id().index(), entry.parent().id().index()] {
            hash.update((index as u64).to_le_bytes());
        }
        add(&mut hash, entry.name());
        if !entry.is_first_name() {
            continue;
        }
        hash.update([inode.kind.file_type() as u8]);
        hash.update(inode.permissions.bits().to_le_bytes());
        let Owner { uid, gid } = inode.owner;
        for number in [uid, gid, inode.mtime.nanoseconds()] {
            hash.update(number.to_le_bytes());
        }
        hash.update(inode.mtime.seconds().to_le_bytes());
        match &inode.kind {
            InodeKind::File(file) => hash.update(file.size().to_le_bytes()),
            InodeKind::Symlink(target) => add(&mut hash, target),
            InodeKind::BlockDevice(device) | InodeKind::CharDevice(device) => {
                hash.update(device.encoded().to_le_bytes());
            }
            InodeKind::Directory(_) | InodeKind::Fifo | InodeKind::Socket => {}
        }
        for (_, xattr) in tree.xattrs().set(inode.attributes) {
            add(&mut hash, &xattr.name);
            add(&mut hash, &xattr.value);
        }
    }
    let digest: [u8; 32] = hash.finalize().into();
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&digest[..16]);
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// Adds bytes, with their length in front.
fn add(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}
