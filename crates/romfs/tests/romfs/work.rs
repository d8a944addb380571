//! What an image costs is bounded by its size, however it is made: counted in bytes that are read, not in time.

use std::{collections::BTreeSet, iter, ops::ControlFlow, sync::Arc};

use verimount_romfs::{Error, Romfs, RomfsTree};
use verimount_source::Counting;
use verimount_testkit::{Random, random_cases};
use verimount_tree::{Cursor, NodeId, Tree};
use verimount_verity::Checked;

use crate::crafted::{FIRST, Header, header, image};

/// The sizes of the smallest header and of the first bytes that are read together.
const SMALLEST: u32 = 32;
const BEGINNING: u32 = 160;

/// How many bytes may be read for each byte of an image by what looks at all of it once; and for the smallest images.
const MOST_FOR_BYTE: u64 = 32;
const MOST: u64 = 1 << 16;

/// Names of equal lengths, whose headers are of the smallest size.
fn name(number: u32) -> Vec<u8> {
    format!("{number:08x}").into_bytes()
}

/// Headers without content, which are at these places, in the order of a chain.
fn chain<'a>(places: &[u32], names: &'a [Vec<u8>], mode: u32, spec: u32) -> Vec<Header<'a>> {
    let next = places.iter().copied().skip(1).chain([0]);
    let headers = places.iter().zip(next).zip(names);
    headers
        .map(|((place, next), name)| header(*place, next, mode, spec, name))
        .collect()
}

/// All places for headers of the smallest size.
fn places(size: u32) -> Vec<u32> {
    (FIRST..size - SMALLEST)
        .step_by(SMALLEST as usize)
        .collect()
}

fn names(count: usize) -> Vec<Vec<u8>> {
    (0..count as u32).map(name).collect()
}

/// A file in each place. Where that is possible, the next one is where what was read together with the one before ends.
fn each_at_the_end_of_what_was_read(size: u32) -> Vec<u8> {
    let mut free: BTreeSet<u32> = places(size).into_iter().collect();
    let mut order = Vec::new();
    for start in places(size) {
        let lens = iter::successors(Some(BEGINNING), |len| Some((2 * len).min(1 << 16)));
        let ends = lens.scan(start, |at, len| {
            *at += len;
            Some(*at)
        });
        let row: Vec<_> = iter::once(start)
            .chain(ends)
            .take_while(|at| *at < size - SMALLEST)
            .collect();
        if row.iter().all(|at| free.contains(at)) {
            free.retain(|at| !row.contains(at));
            order.extend(row);
        }
    }
    order.extend(free);
    let names = names(order.len());
    image(size, &chain(&order, &names, 2, 0))
}

/// Directories that all have the same entries, which are as many as there are directories.
fn shared_entries(size: u32) -> Vec<u8> {
    let places = places(size);
    let names = names(places.len());
    let (directories, files) = places.split_at(places.len() / 2);
    let mut headers = chain(directories, &names, 1, files[0]);
    headers.extend(chain(files, &names, 2, 0));
    image(size, &headers)
}

/// Hard links to a single file.
fn links(size: u32) -> Vec<u8> {
    let places = places(size);
    let names = names(places.len());
    let (last, links) = places.split_last().unwrap();
    let mut headers = chain(links, &names, 0, *last);
    headers.push(header(*last, 0, 2, 0, b"file"));
    image(size, &headers)
}

/// Empty directories, and an index that knows as many, but in no order.
fn directories_and_nonsense(size: u32) -> Vec<u8> {
    let places = places(size);
    let names = names(places.len());
    let mut image = image(size, &chain(&places, &names, 1, 0));
    image.resize((size as usize).next_multiple_of(1024), 0);
    let count = (places.len() as u32).to_be_bytes();
    image.extend(b"VMINDEX1");
    image.extend(count);
    image.extend([0; 20]);
    image.extend(vec![0xff; 12 * places.len()]);
    image
}

/// Headers that lead anywhere.
fn any(random: &mut Random, size: u32) -> Vec<u8> {
    let places = places(size);
    let names = names(places.len());
    let mut order = places.clone();
    if random.coin() {
        for at in 1..order.len() {
            order.swap(at, random.below(at + 1));
        }
    }
    let stops = 1 + random.below(100);
    let mut headers = chain(&order, &names, 2, 0);
    for header in &mut headers {
        let place = random.choose(&places);
        let mode = random.choose(&[0, 1, 1, 2, 2, 2, 3]);
        let next = match random.below(stops) {
            0 => random.choose(&[0, place]),
            _ => header.next_and_mode & !15,
        };
        header.next_and_mode = next | mode;
        header.spec = random.choose(&[place, header.at, 0]);
        header.size = random.below(40) as u32;
    }
    image(size, &headers)
}

/// The bytes that `use_it` reads of an image.
fn read_by(image: &[u8], use_it: impl FnOnce(&Arc<Counting<Vec<u8>>>)) -> u64 {
    let counting = Arc::new(Counting::new(image.to_vec()));
    use_it(&counting);
    counting.counts().bytes
}

/// Does what `verify`, `extract` and a mount do, and returns how many names are in the image, if it is right.
fn check(what: &str, bytes: &[u8]) -> Option<usize> {
    let most = MOST + MOST_FOR_BYTE * bytes.len() as u64;
    let mut names = None;
    let walked = read_by(bytes, |source| {
        let Ok(image) = Romfs::open(source) else {
            return;
        };
        let mut count = 0;
        let walked = image.walk(|_, _| {
            count += 1;
            Ok::<_, Error>(())
        });
        names = walked.ok().map(|()| count);
    });
    assert!(walked <= most, "{what}: a walk reads {walked}");
    let read = read_by(bytes, |source| {
        if let Ok(image) = Romfs::open(source) {
            let _ = image.check_index();
        }
    });
    assert!(read <= most, "{what}: a check of the index reads {read}");
    let read = read_by(bytes, |source| {
        if let Ok(image) = Romfs::open_damaged(source) {
            let _ = image.walk_damaged(|_| ControlFlow::Continue(()));
        }
    });
    assert!(read <= 2 * most, "{what}: naming damage reads {read}");
    let read = read_by(bytes, |source| {
        let Ok(tree) = RomfsTree::open(Checked::unverified(source.clone())) else {
            return;
        };
        for number in 0..20 {
            let name = String::from_utf8(name(number * 7)).unwrap();
            if let Ok(found) = tree.lookup(NodeId::ROOT, name.as_ref()) {
                let go_on = &mut |_: verimount_tree::DirEntry<'_>, _| ControlFlow::Continue(());
                let _ = tree.list(found.node, Cursor::START, go_on);
            }
        }
    });
    assert!(read <= 22 * most, "{what}: twenty names read {read}");
    names
}

#[test]
fn shapes_made_to_be_slow_are_read_few_times() {
    for size in [4 << 10, 64 << 10, 512 << 10] {
        let spread = each_at_the_end_of_what_was_read(size);
        let count = places(size).len();
        assert_eq!(check("spread", &spread), Some(count));
        assert_eq!(check("shared entries", &shared_entries(size)), None);
        // The file itself is not in the chain.
        assert_eq!(check("links", &links(size)), Some(count - 1));
        check("directories", &directories_and_nonsense(size));
    }
}

#[test]
fn any_headers_are_read_few_times() {
    // How many images can be walked to their end, and how many cannot.
    let mut ended = [0_u32; 2];
    let cases = random_cases(300);
    for seed in 0..cases {
        let mut random = Random::new(seed.into());
        let size = (1 + random.below(64) as u32) << 10;
        let bytes = any(&mut random, size);
        let names = check(&format!("seed {seed}"), &bytes);
        ended[usize::from(names.is_none())] += 1;
    }
    assert!(ended[1] > 0 && ended.iter().sum::<u32>() == cases);
}
