//! Many threads open and close one inode, by all its names.

use std::{fs, sync::atomic::Ordering::SeqCst, thread};

use rustix::{fs::OFlags, io::Errno};
use verimount_bridge::{NodeId, Passthrough};

use crate::support::{Bench, CALLER, passed_through};

const THREADS: u64 = 50;
const ROUNDS: u64 = 200;

/// Writes are relayed and reads passed through, and sometimes a registration fails: in every order of opens
/// and closes, the kernel's checks must pass.
#[test]
fn the_kernel_is_never_given_cause_for_eio() {
    let bench = Bench::new(
        "[[rule]]\naction = \"relay\"\naccess = \"write\"",
        Passthrough::Auto,
    );
    let source = bench.folder.path();
    fs::hard_link(source.join("file"), source.join("link")).unwrap();
    fs::write(source.join("other"), "").unwrap();
    bench
        .kernel
        .failures
        .lock()
        .unwrap()
        .extend([Errno::NOMEM; 100]);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let bench = &bench;
            scope.spawn(move || open_and_close(bench, number));
        }
    });
    let status = bench.bridge.status();
    let opens = status.opens.passthrough.get() + status.opens.relay.get();
    assert_eq!(opens, THREADS * ROUNDS);
    assert!(status.opens.followed.get() > 0, "{status:?}");
    assert_eq!(status.passthrough.open.get(), 0);
    assert_eq!(status.remembered_files, 0);
    assert_eq!(bench.kernel.live.load(SeqCst), 0);
}

fn open_and_close(bench: &Bench, mut random: u64) {
    let mut open = Vec::new();
    for _ in 0..ROUNDS {
        // Knuth's linear congruential generator; its high bits are good.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let bits = (random >> 48) as usize;
        let name = ["file", "link", "other"][bits % 3].as_ref();
        let flags = match bits & 8 {
            0 => OFlags::RDONLY,
            _ => OFlags::RDWR,
        };
        let entry = bench.bridge.mirror().lookup(NodeId::ROOT, name).unwrap();
        let file = bench.bridge.open(entry.node, CALLER, flags).unwrap();
        bench.kernel.opened(entry.node, passed_through(&file));
        open.push((entry.node, file));
        if bits & 16 != 0 {
            thread::yield_now();
        }
        while open.len() > bits >> 5 & 3 {
            close(bench, open.swap_remove(bits % open.len()));
        }
    }
    for file in open {
        close(bench, file);
    }
}

type Open = (
    NodeId,
    verimount_bridge::BridgedFile<crate::kernel::ToKernel>,
);

fn close(bench: &Bench, (node, file): Open) {
    bench.kernel.released(node, passed_through(&file));
    drop(file);
    bench.bridge.forget(node, 1);
}
