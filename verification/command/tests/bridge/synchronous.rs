//! Synchronous writes are synchronous in the source as well.

use super::WAYS;
use crate::common::synchronous;
use crate::prelude::*;

/// The source is a volume's mount, which counts flushes.
#[test]
fn synchronous_writes_are_synced_once() {
    for way in WAYS {
        let world = needs!(World::with_source());
        let volume = world.path("vol.img");
        verimount(args!["volume format", &volume, "--size", "16M"]).succeeds_quietly();
        let source = Daemon::volume(&volume, &world.path("src"), &[]);
        let bridge = Daemon::bridge(
            source.directory(),
            &world.path("mnt"),
            &["--passthrough", way],
        );
        let flushes = || super::status(source.directory())["requests"]["flush"].clone();
        for (number, synchronous) in (1..).zip(synchronous::WAYS) {
            let disk = synchronous.open(&bridge.path("disk"));
            synchronous.write(&disk, &[1; 4096], 0).unwrap();
            assert_eq!(flushes(), number, "{way}, {synchronous:?}");
        }
        bridge.unmount();
        source.unmount();
    }
}
