//! Storage that changes below a mount: reads return the right data, or fail.

use super::{mount, mount_as_file, romfs, small_image, world_with_image};
use crate::prelude::*;

fn read_block(file: &File, block: u64) -> io::Result<Vec<u8>> {
    read_at(file, block * 4096, 4096)
}

/// Only the changed block is refused, and only as long as it is wrong.
#[test]
fn a_changed_block_is_refused_until_it_is_right_again() {
    let world = needs!(World::with_mount_point());
    let content = noise(4 << 20, 1);
    let file = world.write("file", &content);
    seal(&file, &SealOptions::default()).unwrap();
    let mounted = mount(&file, &world.path("mnt"));
    let bad = 700;
    let at = bad * 4096 + 1234;
    flip_at(&file, at);
    let opened = File::open(mounted.path("file")).unwrap();
    for block in 0..1024 {
        let expected = &content[block as usize * 4096..][..4096];
        match read_block(&opened, block) {
            Ok(bytes) => assert!(bytes == expected && block != bad, "{block}"),
            refused => {
                assert_eq!(error_of(refused), Errno::IO);
                assert_eq!(block, bad);
            }
        }
    }
    flip_at(&file, at);
    let bytes = read_block(&opened, bad).unwrap();
    assert!(bytes == content[bad as usize * 4096..][..4096]);
    drop(opened);
    mounted.unmount();
}

/// Without an index, headers are read where they are, right before the data of files; bad data does
/// not hide the directory.
#[test]
fn bad_data_does_not_hide_its_file() {
    let world = needs!(World::with_mount_point());
    let tree = world.directory("tree");
    let names = [
        "after",
        "bad",
        "of a name that takes several times sixteen bytes",
    ];
    for (number, name) in (0..).zip(names) {
        fs::write(tree.join(name), noise(8192, number)).unwrap();
    }
    let path = world.path("image");
    let unsealed = BuildOptions {
        seal: None,
        ..romfs()
    };
    build(&tree, &path, &unsealed).unwrap();
    let image = RomfsImage(fs::read(&path).unwrap()).without_index();
    fs::write(&path, &image.0).unwrap();
    let options = SealOptions {
        append: true,
        ..SealOptions::default()
    };
    seal(&path, &options).unwrap();
    for name in &names[1..] {
        flip_at(&path, image.header(name).at.next_multiple_of(4096) as u64);
    }
    let mounted = mount(&path, &world.path("mnt"));
    for (number, name) in (0..).zip(names) {
        let file = File::open(mounted.path(name)).unwrap();
        let content = noise(8192, number);
        assert_eq!(read_block(&file, 0).is_ok(), number == 0, "{name}");
        assert!(read_block(&file, 1).unwrap() == content[4096..], "{name}");
    }
    mounted.unmount();
}

/// Finding the paths for failed reads takes one walk over all directories, however many reads fail:
/// unreadable directories are not tried again for each.
#[test]
fn paths_are_searched_once() {
    const LOST: u64 = 50;
    const FILES: u64 = 20;
    let world = needs!(World::with_mount_point());
    let tree = world.directory("tree");
    for number in 0..LOST {
        let lost = tree.join(format!("lost {number}"));
        fs::create_dir(&lost).unwrap();
        // The header of the second has a block to share with nothing but the end of the first.
        fs::write(lost.join("a"), noise(4096 + 2000, number)).unwrap();
        fs::write(lost.join(format!("b {number}")), noise(4096, LOST + number)).unwrap();
    }
    fs::create_dir(tree.join("files")).unwrap();
    for number in 0..FILES {
        let content = noise(8192, 2 * LOST + number);
        fs::write(tree.join(format!("files/{number}")), content).unwrap();
    }
    let path = world.path("image");
    let unsealed = BuildOptions {
        seal: None,
        ..romfs()
    };
    build(&tree, &path, &unsealed).unwrap();
    let image = RomfsImage(fs::read(&path).unwrap()).without_index();
    fs::write(&path, &image.0).unwrap();
    let options = SealOptions {
        append: true,
        ..SealOptions::default()
    };
    seal(&path, &options).unwrap();
    let flip = |at: usize| flip_at(&path, at as u64);
    (0..LOST).for_each(|number| flip(image.header(&format!("b {number}")).at));
    (0..FILES).for_each(|number| flip(image.header(&number.to_string()).at + 8192));

    let mounted = mount(&path, &world.path("mnt"));
    for number in 0..FILES {
        let file = File::open(mounted.path(&format!("files/{number}"))).unwrap();
        assert_eq!(error_of(read_block(&file, 1)), Errno::IO);
    }
    let status = mounted.json();
    let mismatches = status["mismatches"].as_u64().unwrap();
    // Some are refused more than once, as they are read ahead, too.
    assert!(mismatches < FILES * LOST / 2, "{mismatches}");
    let failures = status["recent_failures"].as_array().unwrap();
    let last = format!("/files/{}", FILES - 1);
    assert_eq!(failures.last().unwrap()["file"], last);
    mounted.unmount();
}

/// All data below the changed tree block is refused.
#[test]
fn a_changed_tree_block_refuses_the_data_below_it() {
    let world = needs!(World::with_mount_point());
    let content = noise(4 << 20, 1);
    let file = world.write("file", &content);
    seal(&file, &SealOptions::default()).unwrap();
    let storage = world.path("file.verity");
    // The tree: its root block, then eight blocks of level 0, each for 128 blocks of data.
    for bad in [0, 3, 7] {
        let at = 4096 + bad * 4096 + 99;
        flip_at(&storage, at);
        // As it is not looked at first whether it is an image, it can be mounted.
        let mounted = mount_as_file(&file, &world.path("mnt"));
        let opened = File::open(mounted.path("file")).unwrap();
        for block in (0..1024).step_by(16) {
            let result = read_block(&opened, block);
            assert_eq!(result.is_err(), block / 128 == bad, "{bad}: {block}");
        }
        drop(opened);
        mounted.unmount();
        flip_at(&storage, at);
    }
}

/// Without the tree, only cached data can be read; the daemon keeps running.
#[test]
fn storage_that_vanishes() {
    let world = needs!(world_with_image(&BuildOptions::default()));
    let image = world.path("image");
    let mounted = mount(&image, &world.path("mnt"));
    let bytes = fs::read(&image).unwrap();
    let storage = File::options().write(true).open(&image).unwrap();
    let expected = snapshot(&world.path("tree")).unwrap();
    for len in [bytes.len() / 2, 4096, 0] {
        storage.set_len(len as u64).unwrap();
        let mut refused = 0;
        for (path, (_, stored)) in &expected {
            let Stored::File { content, .. } = stored else {
                continue;
            };
            match fs::read(mounted.directory().join(path)) {
                Ok(read) => assert!(read == *content, "{path:?}"),
                failed => {
                    assert_eq!(error_of(failed), Errno::IO, "{path:?}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0, "{len}");
    }
    // All is well as soon as the storage is.
    overwrite(&image, 0, &bytes);
    assert_same(&snapshot(mounted.directory()).unwrap(), &expected);
    mounted.unmount();
}

/// Replacing the file, as a package manager does, does not affect the mount.
#[test]
fn a_replaced_image_is_served_unchanged() {
    let world = needs!(World::with_mount_point());
    let image = small_image(&world);
    let mounted = mount(&image, &world.path("mnt"));
    let other = world.write("other", noise(100_000, 1));
    fs::rename(other, &image).unwrap();
    assert_eq!(fs::read(mounted.path(HELLO)).unwrap(), b"Hello, world!\n");
    assert_eq!(
        fs::read(mounted.path("folder/noise")).unwrap(),
        noise(70_000, 1)
    );
    fs::remove_file(&image).unwrap();
    assert_eq!(fs::read(mounted.path(HELLO)).unwrap(), b"Hello, world!\n");
    mounted.unmount();
}
