//! When 1 MiB with a bad block is read, exactly that block is missing, for all ways to read.

use rustix::fs::sendfile;

use super::{Mode, format, mount, open_disk};
use crate::prelude::*;

const LEN: usize = 1 << 20;
const BLOCK: usize = 4096;
const BAD: usize = 171;

/// Makes `vol.img` a volume that begins with `noise(LEN, 1)` and has one bad block.
#[track_caller]
fn damage(world: &World) {
    let path = world.path("vol.img");
    format(&path, 16);
    let content = noise(LEN, 1);
    let mounted = mount(world, Mode::Journal);
    open_disk(&mounted).write_all_at(&content, 0).unwrap();
    mounted.unmount();
    flip_where(&path, &content[BAD * BLOCK..][..BLOCK]);
}

fn read_some(file: &File, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let len = file.read_at(&mut bytes, at)?;
    bytes.truncate(len);
    Ok(bytes)
}

#[test]
fn from_the_disk() {
    let world = needs!(World::with_mount_point());
    damage(&world);
    let mounted = mount(&world, Mode::Journal);
    let disk = open_disk(&mounted);
    assert_one_is_missing(|at, len| read_some(&disk, at, len));
    // As of any disk, a request that comes to a bad block gets nothing. Many take what is short for
    // the end, and would put zeros behind it.
    let before = read_some(&disk, 0, (BAD + 1) * BLOCK);
    assert_eq!(error_of(before), Errno::IO);
    drop(disk);
    mounted.unmount();
}

/// `sendfile` has the kernel read pages, and more than requested.
#[test]
fn from_the_page_cache() {
    let world = needs!(World::with_mount_point());
    damage(&world);
    let mounted = mount(&world, Mode::Journal);
    let disk = open_disk(&mounted);
    assert_one_is_missing(|at, len| {
        let to = world.path("sent");
        let mut at = at;
        sendfile(File::create(&to)?, &disk, Some(&mut at), len)?;
        fs::read(to)
    });
    drop(disk);
    mounted.unmount();
}

#[test]
fn from_a_loop_device() {
    needs!(root_or_skip());
    let world = needs!(World::with_mount_point());
    damage(&world);
    let mounted = mount(&world, Mode::Journal);
    for direct in [false, true] {
        let device = needs!(Loop::new(&mounted.path("disk"), direct));
        // Read-ahead makes the units of the page cache, of which a part cannot be read, larger than a block.
        let without = needs!(device.run("blockdev", &["--setra", "8"]));
        without.succeeds();
        let file = device.open();
        assert_one_is_missing(|at, len| read_some(&file, at, len));
    }
    mounted.unmount();
}

/// Reads as much as possible, like a program that rescues data: all that is left, or if that fails, the
/// next block.
#[track_caller]
fn assert_one_is_missing(mut read: impl FnMut(u64, usize) -> io::Result<Vec<u8>>) {
    let mut expected = noise(LEN, 1);
    expected[BAD * BLOCK..][..BLOCK].fill(0);
    let mut found = Vec::new();
    let mut missing = Vec::new();
    while found.len() < LEN {
        let at = found.len() as u64;
        match read(at, LEN - found.len()).or_else(|_| read(at, BLOCK)) {
            Ok(bytes) => {
                assert!(!bytes.is_empty(), "the end is at {at}");
                found.extend(bytes);
            }
            Err(error) => {
                assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
                missing.push(found.len() / BLOCK);
                found.resize(found.len() + BLOCK, 0);
            }
        }
    }
    assert_eq!(missing, [BAD]);
    assert!(found == expected);
}
