//! Many mounts of one file through caches on the way.

use crate::common::nginx::Nginx;
use crate::prelude::*;

/// How many mounts there are.
const MOUNTS: usize = 6;

#[test]
fn mounts_through_a_cdn_ask_the_origin_once() {
    const SIZE: usize = 40_000_000;
    let world = needs!(World::with_mount_point());
    let file = world.write("file", noise(SIZE, 1));
    let digest = verimount(args!["seal --append", &file]).digest();
    let server = needs!(Nginx::start(&world));
    let url = server.cdn_url("file");
    let options = ["--digest", &digest, "--no-cache"];
    let mounts: Vec<_> = (0..MOUNTS)
        .map(|number| {
            let mnt = world.directory(&format!("mnt{number}"));
            Daemon::mount(Path::new(&url), &mnt, &options)
        })
        .collect();
    // All at the same time.
    let mut readers: Vec<_> = mounts
        .iter()
        .map(|mounted| {
            let mut compare = Command::new("cmp");
            compare.args(["-n", &SIZE.to_string()]);
            compare.arg(&file).arg(mounted.path("file"));
            compare.spawn().unwrap()
        })
        .collect();
    for reader in &mut readers {
        assert!(reader.wait().unwrap().success());
    }
    for mounted in mounts {
        mounted.unmount();
    }
    let stored = fs::metadata(&file).unwrap().len();
    let sent: u64 = server.requests().iter().map(|request| request.sent).sum();
    assert!(sent >= stored, "{sent} bytes of {stored}");
    assert!(sent <= stored + stored / 20, "{sent} bytes of {stored}");
}
