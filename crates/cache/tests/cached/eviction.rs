use std::{fs::File, sync::Arc, thread};

use rustix::fs::{FallocateFlags, fallocate};
use verimount_cache::{Cached, Key, Part};
use verimount_source::{Ask, Fetch, ReadAt};
use verimount_testkit::{Random, noise};

use crate::{Content, GRANULE, allocated, cache, folder};

pub(crate) fn punch(file: &File, offset: u64, len: u64) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file, flags, offset, len).unwrap();
}

#[test]
fn the_size_is_kept() {
    const LIMIT: u64 = 4 << 20;
    let content = Content::new(noise(12 << 20, 1));
    let (folder, server) = (folder(), content.server());
    let cache = cache(folder.path(), Some(LIMIT));
    let reader = content.open(&cache, &server);
    for _ in 0..2 {
        for start in (0..content.data.len()).step_by(1 << 18) {
            let mut buf = vec![0; 1 << 18];
            reader.read_exact_at(&mut buf, start as u64).unwrap();
            assert!(buf == content.data[start..start + (1 << 18)]);
            assert!(allocated(&cache) <= LIMIT);
        }
    }
    // Much of the size is used.
    assert!(allocated(&cache) > LIMIT / 2);
    assert!(cache.stats().evicted > content.data.len() as u64);
}

#[test]
fn what_is_used_stays() {
    let content = Content::new(noise(12 << 20, 2));
    let (folder, server) = (folder(), content.server());
    let cache = cache(folder.path(), Some(4 << 20));
    let reader = content.open(&cache, &server);
    let favourite = 5 << 20;
    let mut buf = vec![0; GRANULE as usize];
    reader.read_exact_at(&mut buf, favourite).unwrap();
    for start in (0..content.data.len() as u64).step_by(buf.len()) {
        reader.read_exact_at(&mut buf, start).unwrap();
        reader.read_exact_at(&mut buf, favourite).unwrap();
    }
    let read = cache.stats().read;
    reader.read_exact_at(&mut buf, favourite).unwrap();
    assert_eq!(cache.stats().read, read + GRANULE);
}

#[test]
fn objects_that_nobody_uses_go_first() {
    const LIMIT: u64 = 6 << 20;
    let contents: Vec<_> = (0..4)
        .map(|seed| Content::new(noise(2 << 20, seed)))
        .collect();
    let folder = folder();
    let cache = cache(folder.path(), Some(LIMIT));
    let kept = |content: &Content| {
        let stored = cache.stored().unwrap();
        stored.iter().any(|stored| stored.key == content.key())
    };
    let in_use = contents[0].open(&cache, &contents[0].server());
    contents[0].assert_read_by(&in_use);
    for content in &contents[1..] {
        content.assert_read_by(&content.open(&cache, &content.server()));
    }
    assert!(kept(&contents[0]) && !kept(&contents[1]) && kept(&contents[3]));
    assert!(allocated(&cache) <= LIMIT);
    contents[0].assert_read_by(&in_use);
}

/// Data are of no use without the tree and the seal.
#[test]
fn data_goes_before_what_it_needs() {
    const LIMIT: u64 = 4 << 20;
    let folder = folder();
    let cache = cache(folder.path(), Some(LIMIT));
    let key = Key::new("content").unwrap();
    let read = |part, size: usize, held| {
        let object = cache.object(&key, part, size as u64).unwrap();
        let cached = Cached::new(Arc::new(noise(size, 1)), object.clone()).holding(held);
        for start in (0..size).step_by(GRANULE as usize) {
            let len = (size - start).min(GRANULE as usize);
            cached
                .fetch(&mut vec![0; len], start as u64, Ask::default())
                .unwrap();
        }
        (cached, object)
    };
    let (_, seal) = read(Part::Seal, 1000, Vec::new());
    let tree = read(Part::Tree, GRANULE as usize, Vec::new());
    let data = read(Part::Data, 12 << 20, vec![seal]);
    assert!(cache.stats().evicted > 0);
    for part in [Part::Seal, Part::Tree] {
        let size = cache.existing(&key, part).unwrap().known_size().unwrap();
        let object = cache.object(&key, part, size).unwrap();
        object
            .fetch(&mut vec![0; size as usize], 0, Ask::default())
            .unwrap();
    }
    drop((tree, data));
}

/// Another process has evicted it: it is missing, and not wrong.
#[test]
fn what_others_evict_is_not_counted_as_wrong() {
    let content = Content::new(noise(1_000_000, 6));
    let (folder, server) = (folder(), content.server());
    let [own, other] = [(); 2].map(|()| cache(folder.path(), None));
    let reader = content.open(&own, &server);
    content.assert_read_by(&reader);
    let (reads, before) = (server.reads(), other.clear().unwrap().bytes);
    assert!(before > 900_000);
    content.assert_read_by(&reader);
    assert!(server.reads() > reads);
    assert_eq!(own.stats().rejected, 0);
}

#[test]
fn without_room_nothing_is_kept() {
    let content = Content::new(noise(1_000_000, 3));
    let (folder, server) = (folder(), content.server());
    for size in [0, 1, 100_000] {
        let cache = cache(folder.path(), Some(size));
        content.assert_read_by(&content.open(&cache, &server));
        assert_eq!(allocated(&cache), 0);
    }
}

/// Two caches stand for two processes; each has two objects, which both use.
#[test]
fn processes_share_a_cache_that_is_too_small() {
    const LIMIT: u64 = 3 << 20;
    let contents = [4, 5].map(|seed| Content::new(noise(4 << 20, seed)));
    let folder = folder();
    let caches = [(); 2].map(|()| cache(folder.path(), Some(LIMIT)));
    thread::scope(|scope| {
        for (cache, first) in caches.iter().zip(1..) {
            for (content, second) in contents.iter().zip(10..) {
                scope.spawn(move || {
                    let reader = content.open(cache, &content.server());
                    let mut random = Random::new(first + second);
                    for _ in 0..400 {
                        let start = random.below(content.data.len());
                        let len = random.below((content.data.len() - start).min(300_000) + 1);
                        let mut buf = vec![0; len];
                        reader.read_exact_at(&mut buf, start as u64).unwrap();
                        assert!(buf == content.data[start..start + len]);
                    }
                });
            }
        }
    });
    assert!(allocated(&caches[0]) <= LIMIT);
    assert!(caches.iter().all(|cache| cache.stats().failures == 0));
    assert!(
        caches
            .iter()
            .map(|cache| cache.stats().evicted)
            .sum::<u64>()
            > LIMIT
    );
}

/// Without anybody who verifies: the file has zeros there.
#[test]
fn what_others_evict_comes_from_the_source() {
    let bytes = noise(3 * GRANULE as usize, 7);
    let folder = folder();
    let [own, other] = [(); 2].map(|()| cache(folder.path(), None));
    let key = Key::new("content").unwrap();
    let object = own.object(&key, Part::Data, bytes.len() as u64).unwrap();
    let cached = Cached::new(Arc::new(bytes.clone()), object);
    let read = || {
        let mut buf = vec![0; bytes.len()];
        cached.fetch(&mut buf, 0, Ask::default()).unwrap();
        assert!(buf == bytes);
    };
    read();
    other.clear().unwrap();
    read();
}
