//! An image as plain data, and made of a directory.

use std::{collections::BTreeMap, path::Path};

use verimount_romfs::{BlockSize, Error, FileType, Node, Options, Romfs, VolumeName, plan};
use verimount_scan::{Options as ScanOptions, SourceTree, scan};
use verimount_source::{ReadAt, Scratch};
use verimount_testkit::{
    go_on,
    plain_tree::{Tree, What, tree},
};

/// The tree in an image.
pub(crate) fn in_image<S: ReadAt>(romfs: &Romfs<S>) -> Result<Tree, Error> {
    let mut nodes = BTreeMap::new();
    romfs.walk(|path, node| {
        let earlier = nodes.insert(path.to_owned(), (node.id, what_in_image(romfs, node)?));
        assert!(earlier.is_none(), "{path:?} was visited twice");
        Ok::<_, Error>(())
    })?;
    Ok(tree(nodes))
}

fn major(device: &Node) -> u16 {
    (device.device >> 16) as u16
}

fn minor(device: &Node) -> u16 {
    device.device as u16
}

fn what_in_image<S: ReadAt>(romfs: &Romfs<S>, node: &Node) -> Result<What, Error> {
    Ok(match node.file_type {
        FileType::Directory => What::Directory,
        FileType::RegularFile => {
            let mut contents = vec![0; usize::try_from(node.size).unwrap()];
            romfs
                .source()
                .read_exact_at(&mut contents, node.data_offset)?;
            What::File {
                contents,
                executable: node.executable,
            }
        }
        FileType::Symlink => {
            let mut scratch = Scratch::default();
            What::Symlink(romfs.symlink_target(node, &mut scratch)?.to_vec())
        }
        FileType::BlockDevice => What::BlockDevice(major(node), minor(node)),
        FileType::CharDevice => What::CharDevice(major(node), minor(node)),
        FileType::Socket => What::Socket,
        FileType::Fifo => What::Fifo,
    })
}

/// A directory as the writer takes it.
pub(crate) fn scanned(root: &Path) -> SourceTree {
    scan(root, &ScanOptions::default(), &mut go_on).unwrap()
}

/// The image that the writer makes of a directory.
pub(crate) fn build(root: &Path, block_size: u64) -> Vec<u8> {
    let options = Options {
        volume_name: VolumeName::new(*b"test").unwrap(),
        block_size: BlockSize::try_from(block_size).unwrap(),
    };
    let plan = plan(scanned(root), &options).unwrap();
    let mut image = Vec::new();
    plan.write_to(&mut image, &mut go_on).unwrap();
    assert_eq!(image.len() as u64, plan.image_size());
    image
}
