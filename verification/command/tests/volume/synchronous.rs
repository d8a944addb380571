//! Synchronous writes are durable when they return.

use std::{collections::HashMap, ops::Range, sync::atomic::Ordering::SeqCst};

use super::{MODES, dies, format, json, mount, open_disk};
use crate::common::synchronous::{WAYS, Way};
use crate::prelude::*;

/// The length of a write: a block.
const BLOCK: usize = 4096;

/// How often the daemon is killed in each mode; overridden by `VERIMOUNT_KILLS`.
const KILLS: usize = 4;

/// How many threads write.
const WRITERS: usize = 4;

/// How many blocks each of them has for itself.
const BLOCKS: usize = 64;

/// How many writes are answered before the daemon may be killed.
const ANSWERED: Range<usize> = 1..200;

/// The most time after that until the kill, in microseconds: about as long as a few writes take.
const AFTER: usize = 2000;

#[test]
fn synchronous_writes_survive_a_kill() {
    for mode in MODES {
        let world = needs!(World::with_mount_point());
        let path = format(&world, &[]);
        let mounted = mount(&world, &["--mode", mode]);
        for (number, way) in (0..).zip(WAYS) {
            let disk = way.open(&mounted.path("disk"));
            let at = number * BLOCK as u64;
            way.write(&disk, &noise(BLOCK, number), at).unwrap();
            // A kill does not show whether it would survive the loss of power, too.
            let status = json(args!["status --json", mounted.directory()], 0);
            assert_eq!(status["requests"]["flush"], number + 1, "{mode}, {way:?}");
        }
        mounted.signal(Signal::KILL);
        dies(mounted);
        let mounted = mount(&world, &["--mode", mode]);
        let disk = open_disk(&mounted);
        for (number, way) in (0..).zip(WAYS) {
            let found = read_at(&disk, number * BLOCK as u64, BLOCK);
            assert!(found.unwrap() == noise(BLOCK, number), "{mode}, {way:?}");
        }
        drop(disk);
        mounted.unmount();
        verimount(args!["volume check", &path]).succeeds_quietly();
    }
}

/// The state of a block: the number of the last write that was answered, and of the last one that was
/// begun. The original content has the number 0.
#[derive(Debug, Default, Clone, Copy)]
struct Written {
    answered: u64,
    begun: u64,
}

type Blocks = HashMap<usize, Written>;

fn content(write: u64) -> Vec<u8> {
    match write {
        0 => vec![0; BLOCK],
        _ => noise(BLOCK, write),
    }
}

/// Writes to these blocks, in any of the ways, until the daemon is dead.
fn write_on(
    files: &[(Way, File)],
    own: Range<usize>,
    mut random: Random,
    blocks: &Mutex<Blocks>,
    answered: &AtomicUsize,
) {
    loop {
        let (way, file) = &files[random.below(files.len())];
        let block = own.start + random.below(own.len());
        let number = random.number();
        blocks.lock().unwrap().entry(block).or_default().begun = number;
        let at = (block * BLOCK) as u64;
        if way.write(file, &content(number), at).is_err() {
            return;
        }
        blocks.lock().unwrap().entry(block).or_default().answered = number;
        answered.fetch_add(1, SeqCst);
    }
}

/// Kills the daemon at a random point, while many write.
fn kill_while_written(mounted: Daemon, random: &mut Random, blocks: &Mutex<Blocks>) {
    let files = WAYS.map(|way| (way, way.open(&mounted.path("disk"))));
    let answered = AtomicUsize::new(0);
    let least = ANSWERED.start + random.below(ANSWERED.len());
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let own = writer * BLOCKS..(writer + 1) * BLOCKS;
            let random = Random::new(random.number());
            scope.spawn(|| write_on(&files, own, random, blocks, &answered));
        }
        eventually("many are answered", || answered.load(SeqCst) >= least);
        // Waits for nothing: it makes the point a random one.
        thread::sleep(Duration::from_micros(random.below(AFTER) as u64));
        mounted.signal(Signal::KILL);
    });
    dies(mounted);
}

/// Each block has the content of the last answered write, or of the one in flight. The latter may be torn,
/// except in journal mode; then the block is written again.
fn compare(disk: &File, mode: &str, blocks: &mut Blocks) {
    for (&block, written) in blocks {
        let at = (block * BLOCK) as u64;
        let was_under_way = written.begun != written.answered;
        let found = match read_at(disk, at, BLOCK) {
            Ok(found) if found == content(written.answered) => written.answered,
            Ok(found) if was_under_way && found == content(written.begun) => written.begun,
            _ if was_under_way && mode != "journal" => {
                disk.write_all_at(&content(0), at).unwrap();
                disk.sync_all().unwrap();
                0
            }
            found => panic!("{mode}, block {block}, {written:?}: {:?}", found.map(drop)),
        };
        *written = Written {
            answered: found,
            begun: found,
        };
    }
}

/// The long form has `VERIMOUNT_KILLS=500`.
#[test]
fn synchronous_writes_survive_kills_at_random_points() {
    let given = std::env::var("VERIMOUNT_KILLS").ok();
    let kills = given.map_or(KILLS, |text| text.parse().unwrap());
    let seed = seed();
    for mode in MODES {
        let world = needs!(World::with_mount_point());
        format(&world, &[]);
        let mut random = Random::new(seed);
        let mut blocks = Mutex::new(Blocks::default());
        for _ in 0..kills {
            let mounted = mount(&world, &["--mode", mode]);
            compare(&open_disk(&mounted), mode, blocks.get_mut().unwrap());
            kill_while_written(mounted, &mut random, &blocks);
        }
        let mounted = mount(&world, &["--mode", mode]);
        compare(&open_disk(&mounted), mode, blocks.get_mut().unwrap());
        mounted.unmount();
        let written = blocks.get_mut().unwrap().len();
        eprintln!("{mode}: {kills} kills, {written} blocks");
    }
}
