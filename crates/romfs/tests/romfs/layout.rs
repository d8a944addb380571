//! The layout that the writer produces.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
};

use rustix::process::geteuid;
use verimount_romfs::{BlockSize, Options, Romfs, VolumeName, plan};
use verimount_scan::{InodeKind, Loss};
use verimount_testkit::{
    cases,
    plain_tree::{What, can_make_devices, create, one_of_everything},
    random_cases,
    romfs_decoder::Decoder,
};
use verimount_tree::FileType;

use crate::{
    generate::{TREE_BYTES, random_tree},
    model::{build, scanned},
};

#[test]
fn a_walk_reads_the_whole_image_front_to_back() {
    cases(random_cases(48), TREE_BYTES, |u| {
        let block = 1 << u.int_in_range(10..=13)?;
        let tree = random_tree(u)?;
        let folder = tempfile::tempdir().unwrap();
        create(folder.path(), tree.iter());
        let image = build(folder.path(), block as u64);
        let decoder = Decoder::new(&image);

        let walked: Vec<_> = decoder.headers.iter().map(|header| &header.path).collect();
        assert_eq!(walked, tree.keys().collect::<Vec<_>>());

        // The superblock with its name, and the root's two headers.
        let mut end: usize = 32 + 64;
        for header in &decoder.headers {
            let entry = &tree[&header.path];
            let is_file = matches!(entry.what, What::File { .. });
            if is_file && !header.is_hard_link && header.data.len() >= block {
                assert_eq!(header.data.start % block, 0);
                assert!(header.at - end < block);
            } else {
                assert_eq!(header.at, end);
            }
            let dots = if entry.what == What::Directory { 64 } else { 0 };
            end = (header.data.end + dots).next_multiple_of(16);
        }
        assert_eq!(decoder.size(), end);
        assert_eq!(image.len() % block, 0);
        let padding = &image[end..end.next_multiple_of(1024)];
        assert!(padding.iter().all(|byte| *byte == 0));
        Ok(())
    });
}

#[test]
fn any_execute_permission_makes_a_file_executable() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [0o600, 0o700, 0o610, 0o601, 0o666] {
        let file = folder.path().join(format!("{mode:o}"));
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    }
    let romfs = Romfs::open(build(folder.path(), 1024)).unwrap();
    let entries = romfs.entries(romfs.root()).unwrap();
    let permissions = entries.iter_from(0).map(|entry| entry.node.permissions());
    let expected = [0o644, 0o755, 0o755, 0o644, 0o755];
    // By name: 600, 601, 610, 666, 700.
    assert_eq!(permissions.collect::<Vec<_>>(), expected);
}

#[test]
fn the_plan_tells_what_is_stored_and_what_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path(), one_of_everything().iter());
    let kept = [("", 0o755), ("a", 0o755), ("a/empty", 0o755), ("z", 0o755)];
    let special = [
        ("pipe", 0o644),
        ("socket", 0o644),
        ("block", 0o600),
        ("char", 0o600),
    ];
    let lost = [("b", 0o664), ("a/program", 0o4755)];
    for (name, mode) in kept.into_iter().chain(special).chain(lost) {
        let path = folder.path().join(name);
        if path.exists() {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
    }
    let owners_lost = if geteuid().is_root() {
        chown(folder.path().join("b"), Some(1), Some(1)).unwrap();
        1
    } else {
        // All entries, as none belongs to root. Devices are missing, as only root can create them.
        12
    };

    let options = Options {
        volume_name: VolumeName::default(),
        block_size: BlockSize::MIN,
    };
    let plan = plan(scanned(folder.path()), &options).unwrap();
    let tree = plan.tree();
    let types = tree.inodes().iter().map(|inode| inode.kind.file_type());
    let types: Vec<_> = types.collect();
    let count = |wanted: FileType| types.iter().filter(|found| **found == wanted).count();
    assert_eq!(count(FileType::Directory), 4);
    assert_eq!(count(FileType::RegularFile), 5);
    assert_eq!(count(FileType::Symlink), 1);
    let devices = count(FileType::BlockDevice) + count(FileType::CharDevice);
    assert_eq!(devices, if can_make_devices() { 2 } else { 0 });
    assert_eq!((count(FileType::Socket), count(FileType::Fifo)), (1, 1));
    assert_eq!(tree.entry_count() - types.len(), 4);
    let sizes = tree.inodes().iter().map(|inode| match &inode.kind {
        InodeKind::File(file) => file.size(),
        _ => 0,
    });
    assert_eq!(sizes.sum::<u64>(), 10 + 5 + 3000 + 4);
    let lost = |loss| plan.losses().get(loss).map_or(0, |lost| lost.count);
    assert_eq!(lost(Loss::Permissions), 1);
    assert_eq!(lost(Loss::SpecialBits), 1);
    assert_eq!(lost(Loss::Privacy), 0);
    assert_eq!(lost(Loss::Owners), owners_lost);
}
