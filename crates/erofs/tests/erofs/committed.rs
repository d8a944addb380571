//! Small images that `mkfs.erofs` 1.9.4 has made of one tree. `images/README.md` says how.

use verimount_erofs::ErofsTree;
use verimount_testkit::pattern;
use verimount_tree::{DeviceNumber, FileType, Timestamp};

use crate::seen::{Seen, check_lookups, data_ranges, everything, open, path};

/// Tails behind inodes, attributes of every kind, a filter of their names and a long prefix.
const INLINE: &[u8] = include_bytes!("images/inline.erofs");

/// Files in chunks, block addresses of 48 bits, directories without `.`.
const CHUNKS: &[u8] = include_bytes!("images/chunks.erofs");

/// All of them.
pub(crate) fn images() -> Vec<Vec<u8>> {
    vec![INLINE.to_vec(), CHUNKS.to_vec()]
}

fn tree(image: &[u8]) -> ErofsTree {
    open(image.to_vec()).unwrap()
}

#[test]
fn the_superblock_tells_name_and_size() {
    for (image, name) in [(INLINE, "first"), (CHUNKS, "second")] {
        let tree = tree(image);
        assert_eq!(tree.superblock().volume_name(), name.as_bytes());
        assert_eq!(tree.superblock().size(), image.len() as u64);
    }
}

#[test]
fn everything_is_as_it_was() {
    for image in images() {
        let tree = tree(&image);
        check_lookups(&tree);
        let files = everything(&tree).unwrap();
        assert_eq!(files.len(), 49);
        let file = |name: &str| &files[&path(name.as_bytes())];
        let xattr = |file: &Seen, name: &str| {
            file.xattrs
                .get(&*path(name.as_bytes()).into_os_string())
                .cloned()
        };

        let name = file("folder/name");
        assert_eq!(name.content, b"small");
        assert_eq!((name.attr.uid, name.attr.gid), (70_000, 5));
        assert_eq!(name.attr.permissions.bits(), 0o4711);
        assert_eq!(Some(name.attr.mtime), Timestamp::new(-6, 750_000_000));
        assert_eq!(xattr(name, "user.comment").unwrap(), b"a comment");
        assert_eq!(xattr(name, "user.long.prefix.one").unwrap(), b"1");
        assert_eq!(name.xattrs.len(), 2);

        let large = file("large");
        assert_eq!(large, file("hard"));
        assert_eq!(large.content, pattern(1300));
        assert_eq!(large.attr.nlink, 2);
        assert_eq!(xattr(large, "user.comment").unwrap(), b"a comment");
        assert_eq!(xattr(large, "security.capability").unwrap().len(), 20);
        assert_eq!(xattr(large, "system.posix_acl_access").unwrap().len(), 44);
        assert_eq!(large.xattrs.len(), 3);
        assert_eq!(
            xattr(file("folder"), "user.long.prefix.two").unwrap(),
            b"22"
        );

        let sparse = file("sparse");
        assert_eq!(sparse.content.len(), 3000);
        assert_eq!(&sparse.content[1024..1028], b"data");
        assert!(sparse.content.iter().filter(|byte| **byte != 0).count() == 4);

        assert_eq!(file("link").content, b"folder/name");
        assert_eq!(file("link").attr.file_type, FileType::Symlink);
        let device = file("folder/device").attr;
        assert_eq!(device.file_type, FileType::CharDevice);
        assert_eq!(device.rdev, DeviceNumber::new(1, 300));
        assert_eq!(file("folder/fifo").attr.file_type, FileType::Fifo);
    }
}

#[test]
fn holes_of_chunks_are_found() {
    // `mkfs.erofs` stores the last chunk, which is not a whole one.
    assert_eq!(
        data_ranges(&tree(CHUNKS), "sparse"),
        [(1024, 1536), (2560, 3000)]
    );
    assert_eq!(data_ranges(&tree(INLINE), "sparse"), [(0, 3000)]);
}
