//! Images that are wrong in one way each are refused for that reason.

use verimount_erofs::{Error as ErofsError, Superblock, Unsupported};
use verimount_source::Scratch;
use verimount_testkit::seen::{check_lookups, content, everything, path};
use verimount_tree::{Error, NodeId, Tree, resolve};

use crate::{
    craft::{
        Builder, CHUNKS, DIRECTORY, FILE, FLAT_INLINE, Inode, SYMLINK, directory_block,
        fix_checksum,
    },
    open,
};

/// What reading all of an image fails with.
fn failure(image: Vec<u8>) -> String {
    match open(image) {
        Ok(tree) => everything(&tree)
            .expect_err("it is not refused")
            .to_string(),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn assert_refused(image: Vec<u8>, reason: &str) {
    let failure = failure(image);
    assert!(failure.contains(reason), "{failure}");
}

/// An image whose root has a file `name` with this inode.
fn with_file(inode: &Inode) -> Vec<u8> {
    let mut builder = Builder::new(12);
    let nid = builder.inode(inode);
    builder.finish(&[(b"name", nid, 0)])
}

/// An image whose root is one block of these entries.
fn with_entries(entries: &[(&[u8], u64, u8)]) -> Vec<u8> {
    let mut builder = Builder::new(12);
    let file = builder.file(b"content");
    let entries: Vec<_> = entries
        .iter()
        .map(|(name, _, kind)| (*name, file, *kind))
        .collect();
    builder.finish_with_root(&directory_block(&entries))
}

#[test]
fn blocks_have_any_size() {
    for block_bits in 9..=16 {
        let mut builder = Builder::new(block_bits);
        let contents: Vec<Vec<u8>> = (0..300)
            .map(|number| vec![number as u8; number * 7])
            .collect();
        let names: Vec<String> = (0..300).map(|number| format!("name{number:03}")).collect();
        let nids: Vec<u64> = contents
            .iter()
            .map(|content| builder.file(content))
            .collect();
        let tail = b"behind the inode".to_vec();
        let inline = builder.inode(&Inode {
            layout: FLAT_INLINE,
            size: tail.len() as u64,
            behind: tail.clone(),
            ..Inode::default()
        });
        let mut entries: Vec<_> = names
            .iter()
            .zip(&nids)
            .map(|(name, nid)| (name.as_bytes(), *nid, FILE))
            .collect();
        entries.push((b"tail", inline, FILE));
        let tree = open(builder.finish(&entries)).unwrap();
        check_lookups(&tree);
        let files = everything(&tree).unwrap();
        for (name, content) in names.iter().zip(&contents) {
            assert_eq!(files[&path(name.as_bytes())].content, *content);
        }
        assert_eq!(files[&path(b"tail")].content, tail);
    }
}

#[test]
fn superblocks_are_checked() {
    let image = with_entries(&[
        (b".", 0, DIRECTORY),
        (b"..", 0, DIRECTORY),
        (b"name", 0, FILE),
    ]);
    everything(&open(image.clone()).unwrap()).unwrap();
    let changed = |at: usize, value: u8| {
        let mut image = image.clone();
        image[1024 + at] = value;
        if at > 8 {
            fix_checksum(&mut image);
        }
        image
    };
    assert_refused(changed(0, 0), "not an EROFS image");
    assert_refused(changed(4, 1), "checksum does not match");
    assert_refused(changed(0x5a, 1), "blocks of their own size");
    assert_refused(changed(0x52, 0x80), "unknown features 0x800000");
    assert_refused(changed(0x67, 0x80), "special inode");
    assert_refused(changed(0x0e, 65), "impossible");
    let mut small = image.clone();
    small[1024 + 0x0c] = 8;
    assert_refused(small, "blocks of 2^8 bytes");
    assert_refused(image[..1100].to_vec(), "not an EROFS image");
    let mut late = image.clone();
    late[1024 + 0x1f] = 0x7f;
    fix_checksum(&mut late);
    // Only the times of compact inodes count from it.
    everything(&open(late).unwrap()).unwrap();
}

/// Its files would be read as zeros.
#[test]
fn an_image_of_composefs_is_refused() {
    let mut image = with_file(&Inode::default());
    everything(&open(image.clone()).unwrap()).unwrap();
    image[..4].copy_from_slice(&[0x9a, 0x62, 0x78, 0xd0]);
    assert_refused(image.clone(), "an image of composefs");
    let error = Superblock::read(&image).unwrap_err();
    assert!(matches!(
        error,
        ErofsError::Unsupported(Unsupported::Composefs)
    ));
    // Without the rest it is something else.
    image[1024] ^= 1;
    assert_refused(image, "not an EROFS image");
}

#[test]
fn directories_are_checked() {
    for (entries, reason) in [
        (&[("b", FILE), ("a", FILE)][..], "not in order"),
        (&[("a", FILE), ("a", FILE)], "not in order"),
        (&[("a", FILE), ("b/c", FILE)], "a slash or NUL"),
        (
            &[("a", FILE), ("b\0c", FILE), ("d", FILE)],
            "a slash or NUL",
        ),
        (&[("a", FILE), ("", FILE), ("d", FILE)], "impossible length"),
        (
            &[("a", FILE), (&"n".repeat(256), FILE)],
            "impossible length",
        ),
    ] {
        let entries: Vec<_> = entries
            .iter()
            .map(|(name, kind)| (name.as_bytes(), 0, *kind))
            .collect();
        assert_refused(with_entries(&entries), reason);
    }
    for first_name in [0_u16, 1, 11, 13, 24, 4095, u16::MAX] {
        let mut block = directory_block(&[(b"a", 64, FILE)]);
        block[8..10].copy_from_slice(&first_name.to_le_bytes());
        assert_refused(Builder::new(12).finish_with_root(&block), "impossible");
    }
    let tree = open(with_entries(&[(b"file", 0, SYMLINK)])).unwrap();
    let error = tree.lookup(NodeId::ROOT, "file".as_ref()).unwrap_err();
    assert!(
        error.to_string().contains("type is not its inode's"),
        "{error}"
    );
}

#[test]
fn blocks_of_a_directory_are_in_order() {
    let mut builder = Builder::new(12);
    let file = builder.file(b"");
    let mut content = directory_block(&[(b"m", file, FILE)]);
    content.resize(4096, 0);
    content.extend(directory_block(&[(b"b", file, FILE)]));
    let image = builder.finish_with_root(&content);
    assert_refused(image.clone(), "not in order");
    // Where a listing goes on at the second block, too.
    let tree = open(image).unwrap();
    let from = verimount_tree::Cursor::new(4096).unwrap();
    let listed = tree.list(NodeId::ROOT, from, &mut |_, _| {
        std::ops::ControlFlow::Continue(())
    });
    assert!(matches!(listed, Err(Error::Corrupt(_))));
}

#[test]
fn a_directory_inside_itself_ends_a_walk() {
    let mut builder = Builder::new(12);
    let nid = builder.inode(&Inode {
        mode: 0o040_755,
        layout: FLAT_INLINE,
        size: 16,
        behind: directory_block(&[(b"loop", 128, DIRECTORY)]),
        ..Inode::default()
    });
    assert_eq!(nid, 128);
    assert_refused(
        builder.finish(&[(b"name", nid, DIRECTORY)]),
        "reached by two paths",
    );
    let root = Builder::new(12).finish(&[(b"root", 64, DIRECTORY)]);
    let tree = open(root.clone()).unwrap();
    let found = resolve(&tree, &path(b"root/root/root")).unwrap();
    assert_eq!(found, NodeId::ROOT);
    assert_refused(root, "reached by two paths");
}

#[test]
fn inodes_are_checked() {
    let file = Inode::default();
    let long = Inode {
        size: 1 << 63,
        ..file.clone()
    };
    assert_refused(with_file(&long), "size of 9223372036854775808 bytes");
    let format = Inode {
        format: 0x20,
        ..file.clone()
    };
    assert_refused(with_file(&format), "unknown inode format 0x21");
    let layout = Inode {
        layout: 5,
        ..file.clone()
    };
    assert_refused(with_file(&layout), "unknown data layout 5");
    let mode = Inode {
        mode: 0o030_000,
        ..file.clone()
    };
    assert_refused(with_file(&mode), "type is impossible");
    let time = Inode {
        nanoseconds: 1_000_000_000,
        ..file.clone()
    };
    assert_refused(with_file(&time), "time is impossible");
    let tail = Inode {
        layout: FLAT_INLINE,
        size: 4096,
        ..file.clone()
    };
    assert_refused(with_file(&tail), "does not fit behind its inode");
    let chunks = Inode {
        layout: CHUNKS,
        size: 5000,
        detail: 0x80,
        ..file.clone()
    };
    assert_refused(with_file(&chunks), "unknown chunk format 0x80");
    let far = Inode {
        size: 1,
        detail: 0xffff_fff0,
        ..file.clone()
    };
    assert_refused(with_file(&far), "not inside a source");
    let xattrs = Inode {
        xattr_count: u16::MAX,
        ..file
    };
    assert_refused(with_file(&xattrs), "outside the image");
}

/// Attributes without names or values, whose prefixes nobody knows.
#[test]
fn attributes_are_counted() {
    const MAX: u16 = 1 << 13;
    let with_attributes = |count: u16| {
        with_file(&Inode {
            xattr_count: 1 + count,
            behind: [vec![0; 12], [0, 9, 0, 0].repeat(count.into())].concat(),
            ..Inode::default()
        })
    };
    everything(&open(with_attributes(MAX)).unwrap()).unwrap();
    assert_refused(with_attributes(MAX + 1), "more than 8192 extended");
}

#[test]
fn numbers_of_no_inode_are_refused() {
    let tree = open(with_file(&Inode::default())).unwrap();
    for number in [2, 31, 35, 1 << 40, (1 << 51) - 1, 1 << 63, 1 << 63 | 36] {
        let node = NodeId::new(number).unwrap();
        assert!(
            matches!(tree.attr(node), Err(Error::Corrupt(_))),
            "{number}"
        );
    }
}

#[test]
fn huge_holes_cost_nothing() {
    let size = (1 << 62) + 5;
    let hole = Inode {
        size,
        detail: u32::MAX,
        ..Inode::default()
    };
    // All of the 48 bits are set only in images that have so many.
    let mut hole_bytes = with_file(&hole);
    let at = 128 * 32;
    hole_bytes[at + 6..at + 8].copy_from_slice(&[0xff, 0xff]);
    let tree = open(hole_bytes).unwrap();
    let node = resolve(&tree, &path(b"name")).unwrap();
    let mut scratch = Scratch::default();
    let end = tree.read(node, size - 3, 100, &mut scratch).unwrap();
    assert_eq!(end, [0; 3]);
    assert_eq!(tree.read(node, 1 << 40, 10, &mut scratch).unwrap(), [0; 10]);
}

#[test]
fn chunks_are_checked() {
    // Chunks of one block: a hole, then a block far away.
    let behind = [u32::MAX.to_le_bytes(), 1_000_000_u32.to_le_bytes()].concat();
    let inode = Inode {
        layout: CHUNKS,
        size: 8192,
        behind,
        ..Inode::default()
    };
    let tree = open(with_file(&inode)).unwrap();
    let node = resolve(&tree, &path(b"name")).unwrap();
    let mut scratch = Scratch::default();
    assert_eq!(tree.read(node, 0, 4096, &mut scratch).unwrap(), [0; 4096]);
    assert!(matches!(
        tree.read(node, 4096, 1, &mut scratch),
        Err(Error::Read(_))
    ));
    assert!(matches!(
        tree.read(node, 4095, 2, &mut scratch),
        Err(Error::Read(_))
    ));
    // A device that is not there.
    let index = [0, 0, 3, 0, 1, 0, 0, 0];
    let inode = Inode {
        layout: CHUNKS,
        size: 100,
        detail: 0x20,
        behind: index.to_vec(),
        ..Inode::default()
    };
    let mut builder = Builder::new(12);
    (builder.incompatible, builder.extra_devices) = (8, 1);
    let nid = builder.inode(&inode);
    let tree = open(builder.finish(&[(b"name", nid, FILE)])).unwrap();
    let attr = tree.lookup(NodeId::ROOT, "name".as_ref()).unwrap();
    // Device 3 is masked to 1, which is all zeros: what is at block 1 of the image.
    assert_eq!(content(&tree, &attr, 100).unwrap().len(), 100);
}

#[test]
fn targets_are_checked() {
    let link = |target: &[u8], size| Inode {
        mode: 0o120_777,
        layout: FLAT_INLINE,
        size,
        behind: target.to_vec(),
        ..Inode::default()
    };
    assert_refused(with_file(&link(b"a\0b", 3)), "contains a NUL");
    assert_refused(with_file(&link(b"", 0)), "impossible length of 0 bytes");
    let long = Inode {
        layout: 0,
        detail: 1,
        ..link(b"", 4096)
    };
    assert_refused(with_file(&long), "impossible length of 4096 bytes");
}
