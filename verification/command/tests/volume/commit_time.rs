//! Writes without a flush become durable after a while.

use super::{
    MODES,
    clients::{client, end, serve, uri},
    dies, format, json, mount, open_disk,
};
use crate::prelude::*;

const SOON: [&str; 2] = ["--commit-time", "1"];

fn flushes(mounted: &Daemon) -> u64 {
    let status = json(args!["status --json", mounted.directory()], 0);
    status["storage"]["flushes"].as_u64().unwrap()
}

#[test]
fn writes_older_than_the_commit_time_survive_a_kill() {
    let content = noise(100_000, 1);
    for mode in MODES {
        let world = needs!(World::with_mount_point());
        let path = format(&world, &[]);
        let mounted = mount(&world, &[&SOON[..], &["--mode", mode]].concat());
        // A write sets bits of the bitmap, durably.
        let expected = flushes(&mounted) + if mode == "bitmap" { 2 } else { 1 };
        let disk = open_disk(&mounted);
        disk.write_all_at(&content, 4096).unwrap();
        eventually("it is flushed", || flushes(&mounted) == expected);
        mounted.signal(Signal::KILL);
        drop(disk);
        dies(mounted);
        let mounted = mount(&world, &["--mode", mode]);
        assert!(read_at(&open_disk(&mounted), 4096, content.len()).unwrap() == content);
        mounted.unmount();
        verimount(args!["volume check", &path]).succeeds_quietly();
    }
}

/// So little data that it alone causes no write to the journal.
#[test]
fn what_clients_write_is_stored() {
    let world = World::new();
    let path = format(&world, &[]);
    let content = noise(4096, 1);
    let from = world.write("from", &content);
    let served = serve(&world, &SOON);
    let copied = needs!(client("nbdcopy", &[from.to_str().unwrap(), &uri(&world)]));
    copied.succeeds();
    eventually("it is in the volume", || {
        let stored = fs::read(&path).unwrap();
        // The journal has bytes of its own at the end of each sector.
        let mut sectors = stored.chunks(512);
        sectors.any(|sector| sector.starts_with(&content[..64]))
    });
    end(&world, served);
}
