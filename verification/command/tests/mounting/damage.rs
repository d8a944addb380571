//! Storage that changes below a mount: reads return the right data, or fail.

use super::is_empty;
use crate::prelude::*;

fn read_block(file: &File, block: u64) -> io::Result<Vec<u8>> {
    read_at(file, block * 4096, 4096)
}

/// Then an image cannot be recognised, so the user has to say how to mount it.
#[test]
fn a_damaged_beginning_needs_as_file() {
    let world = needs!(World::with_mount_point());
    let content = noise(100_000, 1);
    let file = world.write("file", &content);
    verimount(args!["seal", &file]).succeeds_quietly();
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    for path in [&file, &image] {
        overwrite(path, 0, b"damaged");
        let ended = verimount(args!["mount", path, &mnt, "--unpinned"]);
        ended.fails_saying("data block at 0 does not match");
        ended.fails_saying("--as-file");
        assert!(is_empty(&mnt));
    }
    let mounted = Daemon::mount(&file, &mnt, &["--unpinned", "--as-file"]);
    let opened = File::open(mounted.path("file")).unwrap();
    assert_eq!(error_of(read_block(&opened, 0)), Errno::IO);
    assert!(read_block(&opened, 1).unwrap() == content[4096..8192]);
    drop(opened);
    mounted.unmount();
}

/// Lost data is refused; the rest can be read.
#[test]
fn storage_that_shrinks() {
    let world = needs!(World::with_mount_point());
    let content = noise(4 << 20, 1);
    let file = world.write("file", &content);
    verimount(args!["seal", &file]).succeeds_quietly();
    let mounted = Daemon::mount(&file, &world.path("mnt"), &["--unpinned"]);
    let storage = File::options().write(true).open(&file).unwrap();
    storage.set_len(2 << 20).unwrap();
    let opened = File::open(mounted.path("file")).unwrap();
    for block in (0..1024).rev() {
        let expected = &content[block as usize * 4096..][..4096];
        match read_block(&opened, block) {
            Ok(bytes) => assert!(bytes == expected && block < 512, "{block}"),
            refused => {
                assert_eq!(error_of(refused), Errno::IO);
                assert!(block >= 512, "{block}");
            }
        }
    }
    drop(opened);
    let log = mounted.unmount();
    assert!(log.contains("shorter"), "{log}");
}
