//! Files that are replaced on servers while they are open.

use std::{
    ops::Range,
    sync::{Arc, Mutex},
};

use verimount::{Cache, Location, OpenOptions, ReadAt, ReadError};
use verimount_testkit::{HttpAnswer, HttpRequest, HttpServer, noise};

use crate::{
    stored::{Keys, Known, Layout, Stored},
    trust::{Trust, open},
};

/// Two granules of a cache, so that not all is fetched when it is opened.
const SIZE: usize = 4 << 20;

/// A server whose files can be replaced: `/file` and `/file.verity`, with a validator of each version.
struct Mirror {
    server: HttpServer,
    now: Arc<Mutex<(Stored, u64)>>,
}

impl Mirror {
    fn new(stored: Stored) -> Self {
        let now = Arc::new(Mutex::new((stored, 1)));
        let of_script = now.clone();
        let server = HttpServer::start(Vec::new(), move |number, request, _| {
            let (stored, version) = &*of_script.lock().unwrap();
            let content = if request.path.ends_with(".verity") {
                stored.sidecar.as_ref()
            } else {
                Some(&stored.file)
            };
            match content {
                None => HttpAnswer::of(&[], request).only_status(404),
                // Behind a balancer, each answer may come from another machine.
                Some(content) if *version == 0 => {
                    HttpAnswer::of(content, request).with("etag", format!("\"{number}\""))
                }
                Some(content) => {
                    HttpAnswer::of(content, request).with("etag", format!("\"{version}\""))
                }
            }
        });
        Self { server, now }
    }

    fn replace(&self, stored: Stored, version: u64) {
        *self.now.lock().unwrap() = (stored, version);
    }

    fn location(&self) -> Location {
        self.server.url("/file").parse().unwrap()
    }
}

fn digest(stored: &Stored) -> Trust {
    match &stored.known {
        Known::Digest(digest) => (*digest).into(),
        Known::Root { root, .. } => root.clone().into(),
    }
}

fn is_readable(content: &dyn ReadAt, stored: &Stored, at: usize) -> bool {
    let mut bytes = vec![0; 10_000];
    match content.read_exact_at(&mut bytes, at as u64) {
        Ok(()) => {
            assert!(bytes == stored.data[at..at + bytes.len()]);
            true
        }
        Err(_) => false,
    }
}

#[test]
fn pinned_content_that_is_published_again_is_read_on() {
    let stored = Stored::new(noise(SIZE, 1), Layout::Appended, None);
    let other = Stored::new(noise(SIZE, 2), Layout::Appended, None);
    let mirror = Mirror::new(stored.clone());
    let opened = open(mirror.location(), &digest(&stored), &OpenOptions::new()).unwrap();
    let content = opened.file();
    mirror.replace(stored.clone(), 2);
    assert!(is_readable(&content, &stored, 1 << 20));
    // The tree decides what is right: nothing else is ever returned, and what is right again is read again.
    mirror.replace(other, 3);
    assert!(!is_readable(&content, &stored, 2 << 20));
    mirror.replace(stored.clone(), 4);
    assert!(is_readable(&content, &stored, 2 << 20));
}

#[test]
fn content_that_nothing_pins_must_stay_the_same() {
    let stored = Stored::new(noise(SIZE, 1), Layout::Appended, None);
    let mirror = Mirror::new(stored.clone());
    let opened = open(mirror.location(), &Trust::Unpinned, &OpenOptions::new()).unwrap();
    mirror.replace(stored.clone(), 2);
    assert!(!is_readable(&opened.file(), &stored, 1 << 20));
}

#[test]
fn machines_behind_a_balancer_need_not_agree_on_versions() {
    let stored = Stored::new(noise(SIZE, 1), Layout::Appended, None);
    let mirror = Mirror::new(stored.clone());
    mirror.replace(stored.clone(), 0);
    let opened = open(mirror.location(), &digest(&stored), &OpenOptions::new()).unwrap();
    for at in [0, 1 << 20, 3 << 20] {
        assert!(is_readable(&opened.file(), &stored, at));
    }
}

/// Also if its files have other lengths then.
#[test]
fn pinned_content_may_be_stored_in_another_way() {
    let layouts = [Layout::Appended, Layout::Sidecar];
    let [appended, beside] = layouts.map(|layout| Stored::new(noise(SIZE, 1), layout, None));
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path().join("cache"), None).unwrap();
    for cache in [None, Some(cache)] {
        let mirror = Mirror::new(appended.clone());
        let options = OpenOptions::new().cache(cache);
        let opened = open(mirror.location(), &digest(&appended), &options).unwrap();
        let content = opened.file();
        for (stored, version, at) in [(&beside, 2, 1 << 20), (&appended, 3, 2 << 20)] {
            mirror.replace(stored.clone(), version);
            assert!(is_readable(&content, stored, at), "{:?}", stored.layout);
        }
    }
}

/// How a read fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failed {
    /// As for damage.
    Mismatch,
    /// As the place has another release.
    Replaced,
}

/// Where something is read that opening has not fetched. It is in several blocks.
const READ: Range<usize> = 2 << 20..(2 << 20) + 10_000;

fn failed(content: &dyn ReadAt) -> Failed {
    let read = content.read_exact_at(&mut vec![0; READ.len()], READ.start as u64);
    match read {
        Err(ReadError::Rejected(_)) => Failed::Mismatch,
        Err(ReadError::Io { source, .. }) => {
            assert!(source.to_string().contains("was replaced"), "{source}");
            Failed::Replaced
        }
        other => panic!("{other:?}"),
    }
}

/// A release, and what can be put in the place of an earlier one, with what reads must then say.
fn in_its_place(size: usize) -> (Keys, Vec<(&'static str, Stored, Failed)>) {
    let keys = Keys::new();
    let of = |number| Stored::new(noise(size, 2), Layout::Appended, Some((&keys, number)));
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut release = of(0);
        change(&mut release.file);
        release
    };
    let all = vec![
        ("another release", of(0), Failed::Replaced),
        ("one of another key", of(1), Failed::Mismatch),
        (
            "one whose signature is broken",
            changed(&|file| {
                let end = &mut file[size..];
                let comment = b"untrusted comment";
                let mut windows = end.windows(comment.len());
                let at = windows.position(|window| window == comment).unwrap();
                // In the first line of base64, behind the key's id.
                end[at + 100] ^= 1;
            }),
            Failed::Mismatch,
        ),
        (
            "one whose root hash is broken",
            changed(&|file| {
                let descriptor = file.len() - 4096;
                file[descriptor + 16] ^= 1;
            }),
            Failed::Mismatch,
        ),
        (
            "a truncated one",
            changed(&|file| file.truncate(file.len() - 4096)),
            Failed::Mismatch,
        ),
        (
            "a true seal behind forged data",
            changed(&|file| file[READ].fill(7)),
            Failed::Mismatch,
        ),
        (
            "a true release with one forged byte",
            changed(&|file| file[READ.end - 1] ^= 1),
            Failed::Mismatch,
        ),
    ];
    (keys, all)
}

/// Also if it has another size, so that nothing of it is read.
#[test]
fn only_another_release_is_told_from_damage() {
    for size in [SIZE, SIZE + (1 << 20)] {
        let (keys, all) = in_its_place(size);
        let first = Stored::new(noise(SIZE, 1), Layout::Appended, Some((&keys, 0)));
        for (what, stored, expected) in all {
            let by_key: Trust = keys.public(0).into();
            for (trust, expected) in [
                (&by_key, expected),
                // Which other one its author has made, a digest cannot tell.
                (&digest(&first), Failed::Mismatch),
            ] {
                let mirror = Mirror::new(first.clone());
                let opened = open(mirror.location(), trust, &OpenOptions::new()).unwrap();
                mirror.replace(stored.clone(), 2);
                let content = opened.file();
                assert_eq!(failed(&content), expected, "{what} of {size} bytes");
            }
        }
    }
}

/// What is still there, or elsewhere, is read on.
#[test]
fn what_another_release_has_not_changed_is_read() {
    let keys = Keys::new();
    let release = |data| Stored::new(data, Layout::Appended, Some((&keys, 0)));
    let data = noise(SIZE, 1);
    let mut changed = data.clone();
    changed[READ].fill(7);
    let (first, second) = (release(data), release(changed));
    let mirror = Mirror::new(first.clone());
    let trust = keys.public(0).into();
    let opened = open(mirror.location(), &trust, &OpenOptions::new()).unwrap();
    let content = opened.file();
    mirror.replace(second, 2);
    assert_eq!(failed(&content), Failed::Replaced);
    assert!(is_readable(&content, &first, 1 << 20));
    // The old one is there again.
    mirror.replace(first.clone(), 3);
    assert!(is_readable(&content, &first, READ.start));
}

#[test]
fn copies_in_the_cache_and_at_mirrors_are_those_of_the_old_release() {
    let folder = tempfile::tempdir().unwrap();
    for size in [SIZE, SIZE + (1 << 20)] {
        let keys = Keys::new();
        let release =
            |size, seed| Stored::new(noise(size, seed), Layout::Appended, Some((&keys, 0)));
        let (first, second) = (release(SIZE, 1), release(size, 2));
        let trust = keys.public(0).into();
        let kept = folder.path().join(size.to_string());
        let cache = Cache::open(&kept, None).unwrap();
        let cached = OpenOptions::new().cache(cache);
        let old = first.write_to(folder.path());
        let mirrored = OpenOptions::new().mirror(old.as_path());
        for (options, reads_all) in [(cached, false), (mirrored, true)] {
            let mirror = Mirror::new(first.clone());
            let opened = open(mirror.location(), &trust, &options).unwrap();
            let content = opened.file();
            assert!(is_readable(&content, &first, 1 << 20));
            mirror.replace(second.clone(), 2);
            assert!(is_readable(&content, &first, 1 << 20));
            if reads_all {
                assert!(is_readable(&content, &first, READ.start));
            } else {
                assert_eq!(failed(&content), Failed::Replaced);
            }
        }
    }
}

/// However often something does not match, and never before that.
#[test]
fn a_place_is_looked_at_once_for_each_change() {
    for size in [SIZE, SIZE + (1 << 20)] {
        let keys = Keys::new();
        let release =
            |size, seed| Stored::new(noise(size, seed), Layout::Appended, Some((&keys, 0)));
        let first = release(SIZE, 1);
        let mirror = Mirror::new(first.clone());
        let trust = keys.public(0).into();
        let opened = open(mirror.location(), &trust, &OpenOptions::new()).unwrap();
        let content = opened.file();
        // Each opening asks for the beginning, and nothing else does.
        let is_opening = |request: &HttpRequest| {
            let range = request.range.as_ref();
            request.path == "/file" && range.is_some_and(|range| range.start == 0)
        };
        let openings = || {
            let requests = mirror.server.requests();
            requests
                .iter()
                .filter(|request| is_opening(request))
                .count()
        };
        assert!(is_readable(&content, &first, 1 << 20));
        // The first release with another validator.
        mirror.replace(first.clone(), 2);
        assert!(is_readable(&content, &first, 3 << 20));
        assert_eq!(openings(), 1);
        mirror.replace(release(size, 2), 3);
        (0..10).for_each(|_| assert_eq!(failed(&content), Failed::Replaced));
        assert_eq!(openings(), 2, "{size}");
        if size == SIZE {
            mirror.replace(release(size, 3), 4);
            (0..10).for_each(|_| assert_eq!(failed(&content), Failed::Replaced));
            assert_eq!(openings(), 3);
        }
    }
}
