//! When 1 MiB with a bad block is read, exactly that block is missing, for all programs and ways to read.

use super::{clients, format, mount, open_disk};
use crate::prelude::*;

const LEN: usize = 1 << 20;
const BLOCK: usize = 4096;
const BAD: usize = 171;

/// Makes `vol.img` a volume that begins with `noise(LEN, 1)` and has one bad block.
#[track_caller]
fn damage(world: &World) {
    let path = format(world, &[]);
    let content = noise(LEN, 1);
    let mounted = mount(world, &[]);
    open_disk(&mounted).write_all_at(&content, 0).unwrap();
    mounted.unmount();
    flip_where(&path, &content[BAD * BLOCK..][..BLOCK]);
}

/// QEMU takes a short read for the end of a file, and passes zeros to its guest.
#[test]
fn from_qemu() {
    let world = needs!(World::with_mount_point());
    damage(&world);
    let mounted = mount(&world, &[]);
    let disk = mounted.path("disk");
    let disk = disk.to_str().unwrap();
    for options in [&[][..], &["-n", "-i", "native"], &["-n", "-i", "io_uring"]] {
        if !qemu_misses_one(disk, options) {
            return;
        }
    }
    mounted.unmount();
    let served = clients::serve(&world, &[]);
    qemu_misses_one(&clients::uri(&world), &[]);
    clients::end(&world, served);
}

/// Asserts that QEMU cannot read all blocks at once, but each by itself, except the bad one. Returns whether
/// QEMU is installed.
#[track_caller]
fn qemu_misses_one(disk: &str, options: &[&str]) -> bool {
    let blocks = (0..LEN / BLOCK).map(|block| format!("read {} {BLOCK}", block * BLOCK));
    let reads = [format!("read 0 {LEN}")].into_iter().chain(blocks);
    let commands: Vec<String> = reads.flat_map(|read| ["-c".into(), read]).collect();
    let mut arguments = vec!["-r", "-f", "raw"];
    arguments.extend(options);
    arguments.extend(commands.iter().map(String::as_str));
    arguments.push(disk);
    let Some(ended) = clients::client("qemu-io", &arguments) else {
        return false;
    };
    let stdout = String::from_utf8_lossy(&ended.stdout);
    let done = |line: &&str| line.starts_with("read ");
    let failed: Vec<usize> = stdout
        .lines()
        .filter(done)
        .enumerate()
        .filter(|(_, line)| *line == "read failed: Input/output error")
        .map(|(number, _)| number)
        .collect();
    assert_eq!(stdout.lines().filter(done).count(), 1 + LEN / BLOCK);
    assert_eq!(failed, [0, 1 + BAD], "{options:?}: {ended:?}");
    true
}
