//! Small images that `mkfs.erofs` 1.9.4 has made of one tree. `images/README.md` says how.

use std::{ffi::OsStr, ops::ControlFlow, sync::Arc};

use verimount_erofs::ErofsTree;
use verimount_source::Counting;
use verimount_testkit::{
    pattern,
    seen::{self, Seen, check_lookups, data_ranges, everything, path},
};
use verimount_tree::{Cursor, DeviceNumber, DirEntry, FileType, NodeId, Timestamp, Tree, resolve};
use verimount_verity::Checked;

use crate::open;

/// Tails behind inodes, attributes of every kind, a filter of their names and a long prefix.
const INLINE: &[u8] = include_bytes!("images/inline.erofs");

/// Files in chunks, block addresses of 48 bits, directories without `.`.
const CHUNKS: &[u8] = include_bytes!("images/chunks.erofs");

/// Images of another tree, which is compressed: by each algorithm, with each form of map, in big clusters, with tails packed
/// behind inodes or in fragments, with data that files share, and with compressed metadata.
const COMPRESSED: [&[u8]; 7] = [
    include_bytes!("images/lz4-legacy.erofs"),
    include_bytes!("images/lz4-compact.erofs"),
    include_bytes!("images/lz4-full.erofs"),
    include_bytes!("images/deflate.erofs"),
    include_bytes!("images/lzma.erofs"),
    include_bytes!("images/zstd-extents.erofs"),
    include_bytes!("images/metabox.erofs"),
];

/// All of them.
pub(crate) fn images() -> Vec<Vec<u8>> {
    let all = [INLINE, CHUNKS].into_iter().chain(COMPRESSED);
    all.map(<[u8]>::to_vec).collect()
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
fn inode_numbers_are_the_kernel_s() {
    let metabox = COMPRESSED[6];
    // As Linux 6.18 shows them.
    let shown = [
        (INLINE, "large", 165, 40),
        (CHUNKS, "large", 47, 37),
        (metabox, "pattern", (1 << 31) + 7, 1 << 31),
    ];
    for (image, name, number, root) in shown {
        let tree = tree(image);
        assert_eq!(tree.attr(NodeId::ROOT).unwrap().ino, root);
        let file = tree.lookup(NodeId::ROOT, OsStr::new(name)).unwrap();
        assert_eq!(
            (file.ino, tree.attr(file.node).unwrap().ino),
            (number, number)
        );
        let mut listed = None;
        let look = &mut |entry: DirEntry<'_>, _| {
            if entry.name == name {
                listed = Some(entry.ino);
            }
            ControlFlow::Continue(())
        };
        tree.list(NodeId::ROOT, Cursor::START, look).unwrap();
        assert_eq!(listed, Some(number));
    }
}

#[test]
fn no_superblock_tells_that_there_are_no_holes() {
    assert!(tree(INLINE).has_holes());
}

#[test]
fn everything_is_as_it_was() {
    for image in [INLINE, CHUNKS] {
        let tree = tree(image);
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

#[test]
fn compressed_files_are_as_they_were() {
    let line = |number: u32| {
        let number = number * number % 97;
        format!("line {number}: the quick brown fox jumps over the lazy dog\n")
    };
    let text: String = (0..160).map(line).collect();
    let zeros = [vec![0; 20_000], b"end".to_vec()].concat();
    let expected = [
        ("text", text.clone().into_bytes()),
        (
            "longer",
            (text + &"and a tail of its own\n".repeat(9)).into_bytes(),
        ),
        ("pattern", pattern(3000)),
        ("zeros", zeros),
        ("small", "small ".repeat(20).into_bytes()),
        ("folder/name-29", b"29\n".to_vec()),
    ];
    for image in COMPRESSED {
        let tree = tree(image);
        check_lookups(&tree);
        assert_eq!(everything(&tree).unwrap().len(), 36);
        for (name, content) in &expected {
            let node = resolve(&tree, name.as_ref()).unwrap();
            let attr = tree.attr(node).unwrap();
            for piece in [1, 100, 512, 4096, 1 << 20] {
                let found = seen::content(&tree, &attr, piece).unwrap();
                assert!(found == *content, "{name} in pieces of {piece}");
            }
        }
    }
}

#[test]
fn a_sequential_reader_reads_and_decompresses_once() {
    for image in COMPRESSED {
        let source = Arc::new(Counting::new(image.to_vec()));
        let tree = ErofsTree::open(Checked::unverified(source.clone()), Vec::new()).unwrap();
        let attr = tree.lookup(NodeId::ROOT, "zeros".as_ref()).unwrap();
        let requests = |piece| {
            let before = source.counts().requests;
            seen::content(&tree, &attr, piece).unwrap();
            source.counts().requests - before
        };
        // Some clusters are not compressed, and are read again.
        let (first, again) = (requests(1000), requests(1000));
        assert!(first <= 41 && again <= first, "{first}, {again}");
    }
}
