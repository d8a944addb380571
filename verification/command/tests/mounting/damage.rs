//! Storage that changes below a mount: reads return the right data, or fail.

use super::{EIO, error_number, is_empty, world};
use crate::prelude::*;

fn writable(path: &Path) -> File {
    File::options().write(true).open(path).unwrap()
}

fn read_block(file: &File, block: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4096];
    file.read_exact_at(&mut bytes, block * 4096).map(|()| bytes)
}

/// Then an image cannot be recognised, so the user has to say how to mount it.
#[test]
fn a_damaged_beginning_needs_as_file() {
    let world = needs!(world());
    let content = noise(100_000, 1);
    let file = world.write("file", &content);
    verimount(args!["seal", &file]).succeeds_quietly();
    let image = world.sealed_image("image");
    let mnt = world.path("mnt");
    for path in [&file, &image] {
        writable(path).write_all_at(b"damaged", 0).unwrap();
        let ended = verimount(args!["mount", path, &mnt, "--unpinned"]);
        ended.fails_saying("data block at 0 does not match");
        ended.fails_saying("--as-file");
        assert!(is_empty(&mnt));
    }
    let mounted = Daemon::mount(&file, &mnt, &["--unpinned", "--as-file"]);
    let opened = File::open(mounted.path("file")).unwrap();
    assert_eq!(error_number(read_block(&opened, 0)), EIO);
    assert!(read_block(&opened, 1).unwrap() == content[4096..8192]);
    drop(opened);
    mounted.unmount();
}

/// Lost data is refused; the rest can be read.
#[test]
fn storage_that_shrinks() {
    let world = needs!(world());
    let content = noise(4 << 20, 1);
    let file = world.write("file", &content);
    verimount(args!["seal", &file]).succeeds_quietly();
    let mounted = Daemon::mount(&file, &world.path("mnt"), &["--unpinned"]);
    writable(&file).set_len(2 << 20).unwrap();
    let opened = File::open(mounted.path("file")).unwrap();
    for block in (0..1024).rev() {
        let expected = &content[block as usize * 4096..][..4096];
        match read_block(&opened, block) {
            Ok(bytes) => assert!(bytes == expected && block < 512, "{block}"),
            Err(error) => assert!(error.raw_os_error() == EIO && block >= 512, "{block}"),
        }
    }
    drop(opened);
    let log = mounted.unmount();
    assert!(log.contains("shorter"), "{log}");
}
