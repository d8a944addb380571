//! Small files that are put into the kernel's cache before it asks for them.

use super::mount;
use crate::prelude::*;

const FILES: u64 = 100;

fn content(number: u64) -> Vec<u8> {
    noise(10_000 + number as usize, number)
}

fn name(number: u64) -> String {
    format!("{number:03}")
}

/// A mounted image of [`FILES`] files, which were listed with their attributes.
fn listed(world: &World) -> Mounted {
    let tree = world.directory("tree");
    for number in 0..FILES {
        fs::write(tree.join(name(number)), content(number)).unwrap();
    }
    build(&tree, world.path("image"), &BuildOptions::new()).unwrap();
    let mounted = mount(&world.path("image"), &world.path("mnt"));
    for entry in fs::read_dir(mounted.directory()).unwrap() {
        assert!(entry.unwrap().metadata().unwrap().is_file());
    }
    mounted
}

fn read(mounted: &Mounted, number: u64) {
    let bytes = fs::read(mounted.path(&name(number))).unwrap();
    assert!(bytes == content(number), "{number}");
}

fn eventually_stored(mounted: &Mounted, count: u64) {
    eventually("files are stored", || mounted.image().stored_ahead == count);
}

/// Each of the numbers of files that are stored together.
#[test]
fn what_a_reader_in_order_will_ask_for_is_there() {
    let world = needs!(World::with_mount_point());
    let mounted = listed(&world);
    let (mut next, mut stored) = (0, 0);
    for ahead in [0, 1, 2, 4, 4] {
        let before = mounted.reads();
        read(&mounted, next);
        assert_eq!(mounted.reads(), before + 1);
        stored += ahead;
        eventually_stored(&mounted, stored);
        for number in next + 1..=next + ahead {
            read(&mounted, number);
        }
        assert_eq!(mounted.reads(), before + 1);
        next += ahead + 1;
    }
    for number in 0..FILES {
        read(&mounted, number);
    }
    mounted.unmount();
}

#[test]
fn nothing_is_stored_for_readers_in_no_order() {
    let world = needs!(World::with_mount_point());
    let mounted = listed(&world);
    for number in (0..FILES).rev() {
        read(&mounted, number);
    }
    assert_eq!((mounted.image().stored_ahead, mounted.reads()), (0, FILES));
    mounted.unmount();
}

/// It is neither stored, nor reported before somebody reads it.
#[test]
fn a_damaged_file_is_left_to_its_reader() {
    let world = needs!(World::with_mount_point());
    let mounted = listed(&world);
    let image_file = world.path("image");
    let block = position_of(&content(2)[..4096], &fs::read(&image_file).unwrap());
    flip_at(&image_file, block as u64);
    for number in [0, 1, 3] {
        read(&mounted, number);
    }
    // The damaged one came before these.
    eventually_stored(&mounted, 2);
    assert_eq!(
        (
            mounted.image().recent_failures.len(),
            mounted.status().mismatches
        ),
        (0, 0)
    );
    let damaged = fs::read(mounted.path(&name(2)));
    assert_eq!(error_of(damaged), Errno::IO);
    assert_eq!(mounted.image().recent_failures[0].file, "/002");
    mounted.unmount();
}

/// Readers wait for pages that are being stored, and storing for pages that are being read.
#[test]
fn many_read_all_at_once() {
    let world = needs!(World::with_mount_point());
    let mounted = listed(&world);
    for _ in 0..5 {
        thread::scope(|scope| {
            for start in 0..16 {
                let mounted = &mounted;
                scope.spawn(move || {
                    for number in (start..FILES).chain(0..start) {
                        let file = File::open(mounted.path(&name(number))).unwrap();
                        let expected = content(number);
                        assert!(read_at(&file, 0, expected.len()).unwrap() == expected);
                        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
                    }
                });
            }
        });
    }
    mounted.unmount();
}
