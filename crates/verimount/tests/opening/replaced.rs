//! Files that are replaced on servers while they are open.

use std::sync::{Arc, Mutex};

use verimount::{Cache, Location, OpenOptions, ReadAt, ReadError};
use verimount_testkit::{HttpAnswer, HttpServer, noise};

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
            let content = match request.path.ends_with(".verity") {
                true => stored.sidecar.as_ref(),
                false => Some(&stored.file),
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

/// Another release with the same key is not damage: it is refused as what it is.
#[test]
fn another_release_is_not_taken_for_damage() {
    let keys = Keys::new();
    let release = |size| Stored::new(noise(size, 1), Layout::Appended, Some((&keys, 0)));
    let (first, second) = (release(SIZE), release(2 * SIZE));
    let mirror = Mirror::new(first);
    let trust = keys.public(0).into();
    let opened = open(mirror.location(), &trust, &OpenOptions::new()).unwrap();
    mirror.replace(second, 2);
    let read = opened.file().read_exact_at(&mut [0; 10_000], 1 << 20);
    let Err(ReadError::Io { source, .. }) = read else {
        panic!("{read:?}");
    };
    assert!(source.to_string().contains("was replaced"), "{source}");
}
