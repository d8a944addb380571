//! The reader returns what was written, and the same tree always gives the same image.

use std::{fs::File, path::Path, time::SystemTime};

use verimount_romfs::{Error, Romfs};
use verimount_testkit::{
    cases,
    plain_tree::{Tree, create, on_disk, one_of_everything},
    random_cases,
    romfs_decoder::Decoder,
};

use crate::{
    generate::{TREE_BYTES, random_tree},
    index::is_indexed,
    model::{build, in_image},
};

#[test]
fn a_tree_comes_back_from_its_image() {
    cases(random_cases(48), TREE_BYTES, |u| {
        let block = 1 << u.int_in_range(10..=16)?;
        let tree = random_tree(u)?;
        let folder = tempfile::tempdir().unwrap();
        create(folder.path(), tree.iter());
        let image = build(folder.path(), block);

        let romfs = Romfs::open(image.as_slice()).unwrap();
        romfs.check_index().unwrap();
        assert!(is_indexed(image.as_slice()));
        assert_eq!(romfs.volume_name(), b"test");
        assert_eq!(in_image(&romfs).unwrap(), tree);
        // Also from the headers alone, with the reader and with the second decoder.
        let accessible = &image[..romfs.size() as usize];
        let plain = Romfs::open(accessible).unwrap();
        assert!(!is_indexed(accessible));
        assert_eq!(in_image(&plain).unwrap(), tree);
        assert_eq!(Decoder::new(&image).tree(), tree);
        Ok(())
    });
}

#[test]
fn only_the_tree_decides_the_bytes() {
    cases(random_cases(48), TREE_BYTES, |u| {
        let tree = random_tree(u)?;
        let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        create(one.path(), tree.iter());
        create(other.path(), tree.iter().rev());
        make_old(other.path(), &tree);
        assert!(build(one.path(), 4096) == build(other.path(), 4096));
        Ok(())
    });
}

/// Changes the modification times of all files of a tree.
fn make_old(root: &Path, tree: &Tree) {
    for path in tree.keys() {
        let path = root.join(path);
        if path.symlink_metadata().unwrap().is_file() {
            let file = File::options().append(true).open(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
    }
}

#[test]
fn nodes_are_the_same_by_entry_and_by_id() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path(), one_of_everything().iter());
    assert_eq!(on_disk(folder.path()), one_of_everything());
    let romfs = Romfs::open(build(folder.path(), 1024)).unwrap();
    let mut visited = 0;
    romfs
        .walk(|_, node| {
            visited += 1;
            assert_eq!(romfs.node(node.id)?, *node);
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(visited, one_of_everything().len());
    assert_eq!(romfs.node(romfs.root()).unwrap().permissions(), 0o755);
}
