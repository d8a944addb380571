//! What a mounted image answers for files that the kernel has forgotten, but of which somebody has a file handle: it asks for `.` in
//! a file of any type, and `..` in a directory (`fuse_get_dentry` and `fuse_get_parent` in `fs/fuse/inode.c`).

use std::{fs, sync::Arc};

use rustix::io::Errno;
use verimount_fuse::{Caller, Capabilities, Entry, FileSystem, Generation, Node, NodeId};
use verimount_mount::Mountable;
use verimount_romfs::{BlockSize, Options, RomfsTree, VolumeName, plan};
use verimount_scan::{Options as ScanOptions, scan};
use verimount_serve::{ImageFs, Kind, Served, VerifiedTree};
use verimount_testkit::go_on;
use verimount_verity::{Checked, Digest, FileDigest, HashAlgorithm, Identity};

const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    pid: 0,
    request: 0,
};

/// An image of a tree with a directory in a directory, a file and a symbolic link.
fn image() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("a/b")).unwrap();
    fs::write(folder.path().join("a/file"), "content").unwrap();
    std::os::unix::fs::symlink("file", folder.path().join("a/link")).unwrap();
    let options = Options {
        volume_name: VolumeName::default(),
        block_size: BlockSize::MIN,
    };
    let scanned = scan(folder.path(), &ScanOptions::default(), &mut go_on).unwrap();
    let mut bytes = Vec::new();
    let plan = plan(scanned, &options).unwrap();
    plan.write_to(&mut bytes, &mut go_on).unwrap();
    bytes
}

/// A digest with this first byte, and zeros.
fn digest(first: u8) -> Identity {
    let mut bytes = [0; 32];
    bytes[0] = first;
    let digest = Digest::new(HashAlgorithm::Sha256, &bytes).unwrap();
    Identity::FileDigest(FileDigest::from(digest))
}

fn tree(image: Vec<u8>, identity: Option<Identity>) -> Arc<VerifiedTree> {
    let tree = RomfsTree::open(Checked::unverified(Arc::new(image))).unwrap();
    Arc::new(VerifiedTree::new(Box::new(tree), identity, Arc::default()))
}

fn mounted(identity: Option<Identity>) -> ImageFs {
    ImageFs::new(tree(image(), identity), Served::default())
}

fn lookup(fs: &ImageFs, node: NodeId, name: &str) -> Result<Entry, Errno> {
    fs.lookup(CALLER, (node, name.as_ref()))
}

fn node(fs: &ImageFs, path: &str) -> Node {
    let found = path.split('/').fold(NodeId::ROOT, |directory, name| {
        lookup(fs, directory, name).unwrap().node.unwrap().id
    });
    lookup(fs, found, ".").unwrap().node.unwrap()
}

#[test]
fn files_are_found_by_their_numbers() {
    let paths = ["a", "a/b", "a/file", "a/link"];
    let first = mounted(Some(digest(7)));
    for path in paths {
        let (directory, name) = path.rsplit_once('/').unwrap_or((".", path));
        let by_name = lookup(&first, node(&first, directory).id, name).unwrap();
        let node = by_name.node.unwrap();
        // In a new mount, which was asked for nothing else before.
        let later = mounted(Some(digest(7)));
        for itself in [".", "/"] {
            let found = lookup(&later, node.id, itself);
            assert_eq!(found.as_ref(), Ok(&by_name), "{path}, {itself}");
        }
    }
    for (inside, above) in [("a/b", "a"), ("a", ".")] {
        let later = mounted(Some(digest(7)));
        let found = lookup(&later, node(&first, inside).id, "..");
        assert_eq!(found.unwrap().node, Some(node(&first, above)), "{inside}");
    }
    let root = lookup(&first, NodeId::ROOT, "..").unwrap();
    assert_eq!(root.node.unwrap().id, NodeId::ROOT);
}

/// A handle of one image is not one of another that came to its place.
#[test]
fn generations_are_of_the_digest() {
    let generation = |identity| node(&mounted(identity), "a/file").generation;
    assert_eq!(generation(Some(digest(7))), Generation::new(7 << 24));
    assert_eq!(generation(Some(digest(7))), generation(Some(digest(7))));
    assert_ne!(generation(Some(digest(7))), generation(Some(digest(8))));
    // romfs says nothing that tells it from others.
    assert_ne!(generation(None), generation(None));
}

/// Only whoever answers by numbers may say so.
#[test]
fn what_is_requested_of_the_kernel() {
    let export = |identity| {
        let requested = mounted(identity).session_options().capabilities;
        requested & (Capabilities::EXPORT_SUPPORT | Capabilities::NO_EXPORT_SUPPORT)
    };
    assert_eq!(export(Some(digest(7))), Capabilities::EXPORT_SUPPORT);
    assert_eq!(export(None), Capabilities::NO_EXPORT_SUPPORT);
}

/// Where another image has a file, this one can have anything.
#[test]
fn other_numbers_are_stale() {
    let tree = tree(image(), Some(digest(7)));
    let fs = ImageFs::new(tree.clone(), Served::default());
    // The root's place, and numbers with the bits that no tree uses.
    for number in [0, 2, 32, 1 << 20, 1 << 51, 1 << 62 | 1, u64::MAX] {
        let found = lookup(&fs, NodeId(number), ".");
        assert_eq!(found, Err(Errno::STALE), "{number}");
    }
    for number in (0..image().len() as u64).step_by(16) {
        let found = lookup(&fs, NodeId(number), ".");
        let is_it = |entry: &Entry| entry.node.is_some_and(|node| node.id.0 == number);
        assert!(
            found
                .as_ref()
                .map_or_else(|error| *error == Errno::STALE, is_it),
            "{number}"
        );
    }
    // That is not the image's fault.
    match tree.status(Served::default(), None).kind {
        Kind::Image(image) => assert_eq!(image.recent_failures, []),
        other => panic!("{other:?}"),
    }
}
