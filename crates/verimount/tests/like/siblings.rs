//! Content that the cache has from the same place as new content.

use std::{fs, ops::Range};

use tempfile::TempDir;
use verimount::{Cache, Content, Location, OpenOptions, PushOptions, ReadAt, RemoteOptions, push};
use verimount_testkit::{HttpAnswer, HttpServer, RegistryServer, flip_at};

use crate::pair::{BLOCK, BLOCKS, FEW, Pair, asked_for, fetched};

/// An old and a new file on one server, and a cache.
struct Served {
    pair: Pair,
    server: HttpServer,
    cache: Cache,
    _folder: TempDir,
}

impl Served {
    fn new() -> Self {
        let pair = Pair::new();
        let folder = tempfile::tempdir().unwrap();
        Self {
            server: server(&pair),
            cache: Cache::open(folder.path().join("cache"), None).unwrap(),
            _folder: folder,
            pair,
        }
    }

    fn options(&self) -> OpenOptions {
        OpenOptions::new().cache(self.cache.clone())
    }

    /// Reads these bytes of the old file through the cache.
    fn read_old(&self, server: &HttpServer, options: OpenOptions, bytes: Range<usize>) {
        let content = Content::open(&*server.url("/old"), &options).unwrap();
        let mut buf = vec![0; bytes.len()];
        let read = content.file().read_exact_at(&mut buf, bytes.start as u64);
        read.unwrap();
        let old = fs::read(self.pair.path("old")).unwrap();
        assert!(buf == old[bytes]);
    }

    /// All of it, as it is pinned.
    fn read_all_of_old(&self) {
        self.read_old(&self.server, self.pinned("old"), 0..BLOCKS * BLOCK);
    }

    /// How many bytes are fetched from the server to read the new file, under this path.
    fn read(&self, path: &str, options: OpenOptions) -> u64 {
        read(&self.pair, &self.server, path, options)
    }

    fn read_new(&self, options: OpenOptions) -> u64 {
        self.read("/new", options)
    }

    fn pinned(&self, name: &str) -> OpenOptions {
        self.options().digest(match name {
            "old" => self.pair.old_digest,
            _ => self.pair.digest,
        })
    }
}

fn read(pair: &Pair, server: &HttpServer, path: &str, options: OpenOptions) -> u64 {
    let before = fetched(server);
    pair.read(&Content::open(&*server.url(path), &options).unwrap());
    fetched(server) - before
}

/// Has both, and what is beside the old one.
fn server(pair: &Pair) -> HttpServer {
    let [old, new] = ["old", "new"].map(|name| fs::read(pair.path(name)).unwrap());
    let beside = fs::read(pair.path("old.verity")).unwrap_or_default();
    HttpServer::start(new, move |_, request, answer| match &*request.path {
        "/old" => HttpAnswer::of(&old, request),
        "/old.verity" => HttpAnswer::of(&beside, request),
        "/new" | "/new?token=secret" => answer,
        _ => answer.only_status(404),
    })
}

#[test]
fn only_what_changed_is_fetched() {
    let served = Served::new();
    served.read_all_of_old();
    let few = served.read_new(served.pinned("new"));
    assert!(few <= FEW, "{few}");
    // From now on, it is all there.
    assert_eq!(served.read_new(served.pinned("new")), 0);
}

#[test]
fn a_repository_is_one_place() {
    let served = Served::new();
    let registry = RegistryServer::honest();
    let pushed = ["old", "new"].map(|name| {
        let to = format!("oci://{}/repository:{name}", registry.host());
        push(served.pair.path(name), &*to, &PushOptions::default()).unwrap();
        to
    });
    for (name, most) in pushed.iter().zip([u64::MAX, FEW]) {
        let before = asked_for(registry.requests());
        let pin = name.rsplit_once(':').unwrap().1;
        let content = Content::open(&**name, &served.pinned(pin)).unwrap();
        content
            .file()
            .read_exact_at(&mut vec![0; (BLOCKS - 1) * BLOCK], 0)
            .unwrap();
        let few = asked_for(registry.requests()) - before;
        assert!(few <= most, "{few}");
    }
}

#[test]
fn what_was_not_read_is_fetched() {
    let served = Served::new();
    served.read_old(&served.server, served.pinned("old"), 0..1000 * BLOCK);
    let fetched = served.read_new(served.pinned("new"));
    // The new one begins with the end of the old one.
    let missing = 500 * BLOCK as u64;
    assert!((missing..missing + FEW).contains(&fetched), "{fetched}");
}

#[test]
fn contents_are_siblings_only_where_whoever_may_read_one_may_read_the_other() {
    let with_headers = |options: OpenOptions| {
        let mut remote = RemoteOptions::default();
        remote.headers = "X-Key: secret".parse().unwrap();
        options.remote(remote)
    };
    for case in [
        "server",
        "headers of the old",
        "headers of the new",
        "query",
        "old without pin",
        "new without pin",
    ] {
        let served = Served::new();
        let elsewhere = server(&served.pair);
        let (mut old, mut new) = (served.pinned("old"), served.pinned("new"));
        let (mut from, mut path) = (&served.server, "/new");
        match case {
            "server" => from = &elsewhere,
            "headers of the old" => old = with_headers(old),
            "headers of the new" => new = with_headers(new),
            "query" => path = "/new?token=secret",
            "old without pin" => old = served.options().unpinned(),
            _ => new = served.options().unpinned(),
        }
        served.read_old(from, old, 0..BLOCKS * BLOCK);
        let all = served.read(path, new);
        assert!(all >= served.pair.data.len() as u64, "{case}: {all}");
    }
}

/// Otherwise a server could find out by a digest that it chooses what else is here of another one.
#[test]
fn content_that_was_not_found_at_a_server_is_not_shared_with_it() {
    let served = Served::new();
    served.read_all_of_old();
    let elsewhere = server(&served.pair);
    served.read_old(&elsewhere, served.pinned("old"), 0..BLOCKS * BLOCK);
    assert_eq!(fetched(&elsewhere), 0);
    let all = read(&served.pair, &elsewhere, "/new", served.pinned("new"));
    assert!(all >= served.pair.data.len() as u64, "{all}");
}

#[test]
fn all_mirrors_must_be_for_whoever_may_read_the_first_place() {
    for (path, is_shared) in [("/new", true), ("/new?token=secret", false)] {
        let served = Served::new();
        served.read_all_of_old();
        let elsewhere = server(&served.pair);
        let mirror: Location = elsewhere.url(path).parse().unwrap();
        let fetched = served.read_new(served.pinned("new").mirror(mirror));
        let size = served.pair.data.len() as u64;
        let expected = if is_shared {
            1..FEW + 1
        } else {
            size..2 * size
        };
        assert!(expected.contains(&fetched), "{path}: {fetched}");
    }
}

#[test]
fn wrong_blocks_of_a_sibling_are_fetched() {
    let served = Served::new();
    served.read_all_of_old();
    let data = format!("{}.data", served.pair.old_digest).replace(':', "-");
    let wrong = [0, 700, 999];
    for block in wrong {
        flip_at(&served.cache.path().join(&data), (block * BLOCK) as u64);
    }
    let few = served.read_new(served.pinned("new"));
    let most = FEW + (wrong.len() * BLOCK) as u64;
    assert!((1..=most).contains(&few), "{few}");
}

#[test]
fn siblings_may_vanish_while_they_are_used() {
    let served = Served::new();
    served.read_all_of_old();
    let new = Content::open(&*served.server.url("/new"), &served.pinned("new")).unwrap();
    new.file().read_exact_at(&mut [0; BLOCK], 0).unwrap();
    served.cache.clear().unwrap();
    served.pair.read(&new);
}

#[test]
fn a_wrong_list_of_siblings_costs_nothing_but_bytes() {
    let wrong = [
        b"\xff\xfe".to_vec(),
        vec![b'a'; 100_000],
        b"../../etc/passwd\nsha256-00\n".to_vec(),
    ];
    for list in wrong {
        let served = Served::new();
        served.read_all_of_old();
        let files = fs::read_dir(served.cache.path()).unwrap();
        let lists = files.map(|file| file.unwrap().path());
        let mut lists = lists.filter(|path| path.extension().is_some_and(|end| end == "origin"));
        fs::write(lists.next().unwrap(), list).unwrap();
        let all = served.read_new(served.pinned("new"));
        assert!(all >= served.pair.data.len() as u64, "{all}");
    }
}

#[test]
fn trees_of_both_formats_have_the_same_digests() {
    let served = Served::new();
    let root = served.pair.seal_old_with_dm_verity();
    let server = server(&served.pair);
    let options = served.options().root_hash(root);
    served.read_old(&server, options, 0..BLOCKS * BLOCK);
    let few = read(&served.pair, &server, "/new", served.pinned("new"));
    assert!(few <= FEW, "{few}");
}
