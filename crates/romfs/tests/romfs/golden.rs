//! Images that are known byte for byte.

use std::{fmt::Write, path::Path};

use verimount_romfs::{BlockSize, Error, Options, Romfs, VolumeName, plan};
use verimount_testkit::{
    go_on,
    plain_tree::{What, create, tree},
};

use crate::{
    index::is_indexed,
    model::{in_image, scanned},
};

/// Made with genromfs 0.5.2:
///
/// ```text
/// mkdir -p g/sub && printf 'hello\n' > g/a && ln g/a g/sub/b && ln -s a g/link
/// printf '#!/bin/sh\n' > g/run && chmod 755 g/run
/// genromfs -d g -V golden -f g.img
/// ```
pub(crate) const GENROMFS: &str = "
    0000 2d726f6d3166732d00000170a740e451
    0010 676f6c64656e00000000000000000000
    0020 000000490000002000000000d1ffff97
    0030 2e000000000000000000000000000000
    0040 000000600000002000000000d1d1ff80
    0050 2e2e0000000000000000000000000000
    0060 00000093000000000000000193969101
    0070 6c696e6b000000000000000000000000
    0080 61000000000000000000000000000000
    0090 00000129000000b0000000008c8a9c27
    00a0 73756200000000000000000000000000
    00b0 000000e200000000000000069dffff18
    00c0 62000000000000000000000000000000
    00d0 68656c6c6f0a00000000000000000000
    00e0 000001000000009000000000d1fffe70
    00f0 2e000000000000000000000000000000
    0100 000000000000002000000000d1d1ffe0
    0110 2e2e0000000000000000000000000000
    0120 0000015a000000000000000a8d8a909c
    0130 72756e00000000000000000000000000
    0140 23212f62696e2f73680a000000000000
    0150 00000000000000b0000000009effff50
    0160 61000000000000000000000000000000
    03f0 00000000000000000000000000000000";

/// The bytes of a dump, which leaves out lines of zeros.
pub(crate) fn bytes(dump: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in dump.trim().lines() {
        let (offset, hex) = line.trim().split_once(' ').unwrap();
        bytes.resize(usize::from_str_radix(offset, 16).unwrap(), 0);
        let digits = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
        bytes.extend((0..16).map(digits));
    }
    bytes
}

#[test]
fn an_image_of_genromfs_is_read() {
    let romfs = Romfs::open(bytes(GENROMFS)).unwrap();
    assert_eq!(romfs.volume_name(), b"golden");
    assert_eq!(romfs.size(), 0x170);
    assert!(!is_indexed(bytes(GENROMFS)));
    let file = |contents: &[u8], executable| What::File {
        contents: contents.to_vec(),
        executable,
    };
    let nodes = [
        ("a", 1, file(b"hello\n", false)),
        ("link", 2, What::Symlink(b"a".to_vec())),
        ("run", 3, file(b"#!/bin/sh\n", true)),
        ("sub", 4, What::Directory),
        ("sub/b", 1, file(b"hello\n", false)),
    ];
    let nodes = nodes.map(|(path, number, what)| (path.into(), (number, what)));
    assert_eq!(in_image(&romfs).unwrap(), tree(nodes.into()));

    let root = romfs.entries(romfs.root()).unwrap();
    let names: Vec<_> = root.iter_from(0).map(|entry| entry.name).collect();
    assert_eq!(
        names,
        [&b"link"[..], b"sub", b"run", b"a"],
        "in the image's order"
    );
}

#[test]
fn a_walk_ends_where_its_visitor_wants() {
    let romfs = Romfs::open(bytes(GENROMFS)).unwrap();
    let mut visited = Vec::new();
    let result = romfs.walk(|path, _| {
        visited.push(path.to_owned());
        if path.ends_with("b") {
            Err(Error::NotASymlink(romfs.root()))
        } else {
            Ok(())
        }
    });
    assert!(matches!(result, Err(Error::NotASymlink(_))));
    assert_eq!(visited, ["link", "sub", "sub/b"].map(Path::new));
}

/// The tree of [`GENROMFS`] as our writer stores it, for the test that this never changes.
const OURS: &str = "
    0000 2d726f6d3166732d00000170a740e451
    0010 676f6c64656e00000000000000000000
    0020 000000490000002000000000d1ffff97
    0030 2e000000000000000000000000000000
    0040 000000600000002000000000d1d1ff80
    0050 2e2e0000000000000000000000000000
    0060 0000009200000000000000069effff68
    0070 61000000000000000000000000000000
    0080 68656c6c6f0a00000000000000000000
    0090 000000c30000000000000001939690d1
    00a0 6c696e6b000000000000000000000000
    00b0 61000000000000000000000000000000
    00c0 000000fa000000000000000a8d8a90fc
    00d0 72756e00000000000000000000000000
    00e0 23212f62696e2f73680a000000000000
    00f0 0000000900000110000000008c8a9ce7
    0100 73756200000000000000000000000000
    0110 00000130000000f000000000d1fffde0
    0120 2e000000000000000000000000000000
    0130 000001500000002000000000d1d1fe90
    0140 2e2e0000000000000000000000000000
    0150 0000000000000060000000009dffffa0
    0160 62000000000000000000000000000000
    0400 564d494e444558310000000200000005
    0410 0000000c000000000000000000000000
    0420 000000200000000000000000000000f0
    0430 000000040000000b0000000000000062
    0440 00000080000000060000000100000093
    0450 000000b00000000100000005000000ca
    0460 000000e00000000a00000008000000f9
    0470 0000000000000000616c696e6b72756e
    0480 73756200000000000000620000008000
    0490 00000662000000000000000000000000
    07f0 00000000000000000000000000000000";

/// The image that our writer makes of the tree of [`GENROMFS`].
pub(crate) fn ours() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let genromfs = Romfs::open(bytes(GENROMFS)).unwrap();
    create(folder.path(), in_image(&genromfs).unwrap().iter());
    let options = Options {
        volume_name: VolumeName::new(*b"golden").unwrap(),
        block_size: BlockSize::MIN,
    };
    let mut image = Vec::new();
    let plan = plan(scanned(folder.path()), &options).unwrap();
    plan.write_to(&mut image, &mut go_on).unwrap();
    image
}

#[test]
fn images_are_byte_for_byte_stable() {
    let image = ours();
    assert!(image == bytes(OURS), "{}", dump(&image));
}

/// A dump that [`bytes`] reads, of images that end in zeros.
fn dump(image: &[u8]) -> String {
    let mut dump = String::new();
    for (number, line) in image.chunks(16).enumerate() {
        let is_last = 16 * (number + 1) == image.len();
        if is_last || line.iter().any(|byte| *byte != 0) {
            write!(dump, "\n    {:04x} ", 16 * number).unwrap();
            line.iter()
                .for_each(|byte| write!(dump, "{byte:02x}").unwrap());
        }
    }
    dump
}
