use std::sync::Arc;

use verimount_cache::{Cached, Key, Part};
use verimount_source::{Ask, Fetch, ReadAt};
use verimount_testkit::{Random, noise};

use crate::{Content, GRANULE, LARGE, allocated, cache, folder};

#[test]
fn what_was_read_is_kept() {
    let content = Content::new(noise(3_000_000, 1));
    let (folder, server) = (folder(), content.server());
    let first = cache(folder.path(), LARGE);
    content.assert_read_by(&content.open(&first, &server));
    let stats = first.stats();
    assert_eq!(stats.written, server.size());
    assert_eq!((stats.rejected, stats.evicted, stats.failures), (0, 0, 0));
    // In another process, without the server.
    let second = cache(folder.path(), LARGE);
    let off = content.server();
    off.switch_off();
    content.assert_read_by(&content.open(&second, &off));
    assert_eq!((off.reads(), second.stats().written), (0, 0));
    assert!(second.stats().read >= content.data.len() as u64);
}

#[test]
fn any_range_is_read() {
    let content = Content::new(noise(2_000_000, 2));
    let (folder, server) = (folder(), content.server());
    let cache = cache(folder.path(), LARGE);
    let reader = content.open(&cache, &server);
    let mut random = Random::new(1);
    for _ in 0..300 {
        let start = random.below(content.data.len());
        let len = random.below((content.data.len() - start).min(400_000) + 1);
        reader.will_need(start as u64, len as u64);
        let mut buf = vec![0; len];
        reader.read_exact_at(&mut buf, start as u64).unwrap();
        assert!(buf == content.data[start..start + len]);
    }
    // Each granule was asked for once.
    assert!(server.reads() <= server.size().div_ceil(GRANULE));
}

#[test]
fn what_another_process_wrote_is_found() {
    let content = Content::new(noise(1_000_000, 3));
    let folder = folder();
    let (one, other) = (cache(folder.path(), LARGE), cache(folder.path(), LARGE));
    let (first, second) = (content.server(), content.server());
    let late = content.open(&other, &second);
    content.assert_read_by(&content.open(&one, &first));
    let before = second.reads();
    second.switch_off();
    content.assert_read_by(&late);
    assert_eq!(second.reads(), before);
}

#[test]
fn a_part_is_kept_and_listed() {
    let content = Content::new(noise(1_000_000, 4));
    let (folder, server) = (folder(), content.server());
    let cache = cache(folder.path(), LARGE);
    let reader = content.open(&cache, &server);
    reader.read_exact_at(&mut [0; 10], 500_000).unwrap();
    let stored = cache.stored().unwrap();
    assert_eq!(stored.len(), 1);
    assert_eq!(
        (&stored[0].key, stored[0].size),
        (&content.key(), server.size())
    );
    // A granule of data, one or two with the tree and the descriptor.
    assert!((GRANULE..=3 * GRANULE).contains(&stored[0].allocated));

    // It is in use, so it is emptied but not removed.
    let cleared = cache.clear().unwrap();
    assert_eq!((cleared.objects, cleared.bytes), (1, stored[0].allocated));
    assert_eq!(allocated(&cache), 0);
    assert_eq!(cache.stored().unwrap().len(), 1);
    content.assert_read_by(&reader);
    drop(reader);
    cache.clear().unwrap();
    assert_eq!(cache.stored().unwrap(), []);
}

#[test]
fn who_asks_past_caches_gets_what_the_source_has() {
    let folder = folder();
    let cache = cache(folder.path(), LARGE);
    let key = Key::new("key").unwrap();
    let cached = |byte| {
        let object = cache.object(&key, Part::Data, 100).unwrap();
        Cached::new(Arc::new(vec![byte; 100]), object)
    };
    let read = |cached: &Cached, ask| {
        let mut buf = [0];
        cached.fetch(&mut buf, 50, ask).unwrap();
        buf[0]
    };
    assert_eq!(read(&cached(1), Ask::default()), 1);
    assert_eq!(read(&cached(2), Ask::default()), 1);
    assert_eq!(read(&cached(2), Ask::default().past_caches()), 2);
    // It is kept instead.
    assert_eq!(read(&cached(3), Ask::default()), 2);
}

#[test]
fn what_is_taken_over_is_kept() {
    let folder = folder();
    let cache = cache(folder.path(), LARGE);
    let size = 3 * GRANULE + 10;
    let object = |name| {
        let key = Key::new(name).unwrap();
        cache.object(&key, Part::Data, size).unwrap()
    };
    let (old, new) = (object("old"), object("new"));
    let source = noise(size as usize, 6);
    let kept = Cached::new(Arc::new(source.clone()), old.clone());
    let mut all = vec![0; source.len()];
    kept.fetch(&mut all, 0, Ask::default()).unwrap();
    // Two granules from elsewhere in it and the end, which is short, and not the parts of the one between.
    let taken = [(0..2 * GRANULE, 4096), (3 * GRANULE..size, 100)];
    new.take_over(&(0..2 * GRANULE + 500), &old, 4096);
    new.take_over(&(3 * GRANULE - 50..size), &old, 50);
    let here: Vec<_> = new.data_ranges(0..size).collect();
    assert_eq!(here, taken.clone().map(|(bytes, _)| bytes));
    for (bytes, at) in taken {
        let mut read = vec![0; (bytes.end - bytes.start) as usize];
        new.fetch(&mut read, bytes.start, Ask::default()).unwrap();
        assert!(read == source[at as usize..][..read.len()]);
    }
    // Not what does not exist.
    new.take_over(&(2 * GRANULE..3 * GRANULE), &old, size);
    assert_eq!(new.data_ranges(0..size).count(), 2);
}
