//! What is taken from older content, and that it never makes a byte wrong.

mod pair;
mod siblings;

use std::{
    collections::BTreeSet,
    fs,
    ops::Range,
    path::Path,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
};

use verimount::{
    BuildOptions, Cache, Content, Location, OpenOptions, PullOptions, ReadAt, RemoteOptions,
    SealFormat, SealOptions, UnsharedReason, build, diff,
    options::{BlockSize, TreeParams},
    pull, seal,
};
use verimount_testkit::{HttpAnswer, HttpServer, flip_at, noise};

use crate::pair::{BLOCK, BLOCKS, CHANGED, FEW, LEAVES, OPENING, Pair, SHORT, fetched, shared};

#[test]
fn only_what_changed_is_fetched() {
    let pair = Pair::new();
    let new = Content::open(&*pair.path("new"), &pair.options()).unwrap();
    let difference = diff(pair.old(), &new, &OpenOptions::new()).unwrap();
    assert!(difference.is_comparable);
    assert_eq!(difference.new_blocks, CHANGED.len() as u64);
    let starts = difference
        .new
        .iter()
        .map(|range| range.start / BLOCK as u64);
    assert_eq!(starts.collect::<Vec<_>>(), [3, 200, 700, 1100]);

    let (without, all) = pair.pull(pair.options());
    assert_eq!(without, 0);
    assert!(all >= pair.data.len() as u64);
    let (with, some) = pair.pull(pair.options().like(pair.old()));
    assert_eq!(with, shared(&pair));
    assert!(some < OPENING + difference.fetched, "{some}");
}

#[test]
fn files_are_named_whose_contents_changed() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let names = ["a", "b", "c", "d"];
    for (seed, name) in names.iter().enumerate() {
        fs::write(tree.join(name), noise(3 * BLOCK, seed as u64)).unwrap();
    }
    let build_as = |name: &str| {
        let image = folder.path().join(name);
        build(&tree, &image, &BuildOptions::default()).unwrap();
        image
    };
    let old = build_as("old");
    // What follows it is elsewhere now, but the same.
    fs::write(tree.join("a"), noise(4 * BLOCK, 9)).unwrap();
    let new = build_as("new");
    let options = OpenOptions::new().unpinned();
    let new = Content::open(&*new, &options).unwrap();
    let difference = diff(&*old, &new, &options).unwrap();
    assert_eq!(difference.files, [Path::new("a")]);
    // The others, and the directory: their inodes are in one block.
    assert_eq!(difference.other_files, names.len());
}

#[test]
fn content_that_is_read_takes_the_rest_from_there() {
    let pair = Pair::new();
    let server = pair.server();
    let options = pair.options().like(pair.old());
    let content = Content::open(&*server.url("/new"), &options).unwrap();
    assert!(content.unshared().is_empty());
    pair.read(&content);
    assert!(fetched(&server) <= FEW, "{}", fetched(&server));
}

#[test]
fn a_small_read_fetches_new_blocks_and_no_others() {
    let pair = Pair::new();
    let server = pair.server();
    let content = Content::open(&*server.url("/new"), &pair.options().like(pair.old())).unwrap();
    let read = |block: usize| {
        let before = fetched(&server);
        let mut buf = [0; BLOCK];
        let read = content
            .file()
            .read_exact_at(&mut buf, (block * BLOCK) as u64);
        read.unwrap();
        assert!(buf == pair.data[block * BLOCK..][..BLOCK]);
        fetched(&server) - before
    };
    // With what of the tree it takes.
    read(701);
    assert_eq!([702, 700, 700].map(read), [0, BLOCK as u64, 0]);
    // Both that are new there.
    assert_eq!([201, 200].map(read), [2 * BLOCK as u64, 0]);
}

#[test]
fn with_a_mirror_no_more_is_pulled() {
    let pair = Pair::new();
    let options = pair.options().like(pair.old());
    let mirror = pair.server();
    let at: Location = mirror.url("/new").parse().unwrap();
    let (_, alone) = pair.pull(options.clone());
    let (_, first) = pair.pull(options.mirror(at));
    let both = first + fetched(&mirror);
    assert!(both <= alone.max(FEW), "{both}, alone {alone}");
}

#[test]
fn wrong_blocks_are_fetched() {
    for (block, lost) in [(0, BLOCK), (700, BLOCK), (999, SHORT)] {
        let pair = Pair::new();
        flip_at(&pair.path("old"), (block * BLOCK) as u64);
        let (got, _) = pair.pull(pair.options().like(pair.old()));
        assert_eq!(got, shared(&pair) - lost as u64, "{block}");
        let server = pair.server();
        let options = pair.options().like(pair.old());
        pair.read(&Content::open(&*server.url("/new"), &options).unwrap());
    }
}

#[test]
fn all_blocks_may_be_wrong() {
    let pair = Pair::new();
    let mut file = fs::read(pair.path("old")).unwrap();
    // The tree is behind the data, and says what the data was.
    for byte in file[..BLOCKS * BLOCK].iter_mut().step_by(BLOCK) {
        *byte ^= 1;
    }
    fs::write(pair.path("old"), file).unwrap();
    assert_eq!(pair.pull(pair.options().like(pair.old())).0, 0);
    let server = pair.server();
    let options = pair.options().like(pair.old());
    pair.read(&Content::open(&*server.url("/new"), &options).unwrap());
}

#[test]
fn wrong_old_content_costs_nothing_that_the_cache_has() {
    let pair = Pair::new();
    let cache = Cache::open(pair.path("cache"), None).unwrap();
    let (server, options) = (pair.server(), pair.options().cache(cache));
    let url = server.url("/new");
    pair.read(&Content::open(&*url, &options).unwrap());
    let before = fetched(&server);
    for block in 0..BLOCKS {
        flip_at(&pair.path("old"), (block * BLOCK) as u64);
    }
    let content = Content::open(&*url, &options.clone().like(pair.old())).unwrap();
    pair.read(&content);
    pair.read(&Content::open(&*url, &options).unwrap());
    assert_eq!(fetched(&server), before);
}

/// Neither a mirror nor older content gets what is meant for the server of the content.
#[test]
fn headers_are_sent_to_one_server() {
    let pair = Pair::new();
    let absent = HttpServer::start(Vec::new(), |_, _, answer| answer.only_status(404));
    let [there, mirror] = [pair.server(), pair.server()];
    let old = HttpServer::honest(fs::read(pair.path("old")).unwrap());
    let at = |server: &HttpServer| -> Location { server.url("/file").parse().unwrap() };
    let mut remote = RemoteOptions::default();
    remote.headers = "X-Key: secret".parse().unwrap();
    let options = pair.options().remote(remote).like(at(&old));

    pair.read(&Content::open(at(&there), &options).unwrap());
    let pulling = PullOptions {
        open: options.clone(),
        ..PullOptions::default()
    };
    pull(at(&there), pair.path("pulled"), &pulling).unwrap();
    let mirrored = options.clone().mirror(at(&mirror));
    pair.read(&Content::open(at(&absent), &mirrored).unwrap());
    let new = Content::open(at(&there), &options).unwrap();
    diff(at(&old), &new, &options).unwrap();

    for (server, is_told) in [(there, true), (absent, true), (mirror, false), (old, false)] {
        let requests = server.requests().into_iter();
        let told: BTreeSet<_> = requests
            .map(|request| request.header("x-key").is_some())
            .collect();
        assert_eq!(told, [is_told].into());
    }
}

/// What is asked for if the server first says that a block which is read, and which older content does not have, has this
/// digest.
fn asked_for_with(pair: &Pair, digest: [u8; 32]) -> Vec<Option<Range<u64>>> {
    let block = CHANGED[0];
    let leaf = LEAVES + block * 32;
    let right = fs::read(pair.path("new")).unwrap();
    let mut wrong = right.clone();
    wrong[leaf..][..32].copy_from_slice(&digest);
    let has_lied = AtomicBool::new(false);
    let server = HttpServer::start(right, move |_, request, answer| {
        let has_leaf = |range: &Range<u64>| range.contains(&(leaf as u64));
        if request.range.as_ref().is_some_and(has_leaf) && !has_lied.swap(true, SeqCst) {
            HttpAnswer::of(&wrong, request)
        } else {
            answer
        }
    });
    let options = pair.options().like(pair.old());
    let content = Content::open(&*server.url("/new"), &options).unwrap();
    let mut buf = vec![0; BLOCK];
    let read = content
        .file()
        .read_exact_at(&mut buf, (block * BLOCK) as u64);
    read.unwrap();
    assert!(buf == pair.data[block * BLOCK..][..BLOCK]);
    let requests = server.requests().into_iter();
    requests.map(|request| request.range).collect()
}

#[test]
fn a_server_cannot_ask_what_is_here() {
    let pair = Pair::new();
    let new = fs::read(pair.path("new")).unwrap();
    // That of the first block, which older content has, and one that no block has.
    let here = new[LEAVES..][..32].try_into().unwrap();
    assert_eq!(asked_for_with(&pair, here), asked_for_with(&pair, [7; 32]));
}

#[test]
fn a_wrong_tree_only_hides_blocks() {
    let pair = Pair::new();
    flip_at(&pair.path("old"), LEAVES as u64);
    let (got, _) = pair.pull(pair.options().like(pair.old()));
    assert_eq!(got, shared(&pair) - BLOCK as u64);
}

#[test]
fn old_content_may_be_cut_off_while_it_is_read() {
    let pair = Pair::new();
    let server = pair.server();
    let options = pair.options().like(pair.old());
    let content = Content::open(&*server.url("/new"), &options).unwrap();
    let old = fs::OpenOptions::new().write(true).open(pair.path("old"));
    old.unwrap().set_len(300 * BLOCK as u64).unwrap();
    pair.read(&content);
}

#[test]
fn what_cannot_be_used_is_said_and_changes_nothing() {
    let pair = Pair::new();
    let other = pair.path("other");
    fs::write(&other, &pair.data).unwrap();
    let large = TreeParams {
        block_size: BlockSize::new(8192).unwrap(),
        ..TreeParams::default()
    };
    let format = SealFormat::FsVerity(large);
    let options = SealOptions {
        format,
        ..SealOptions::default()
    };
    seal(&other, &options).unwrap();
    fs::write(pair.path("plain"), b"not sealed").unwrap();
    let server = pair.server();
    let location = |name| Location::from(&*pair.path(name));
    let options = ["other", "plain", "missing", "old"]
        .iter()
        .fold(pair.options(), |options, name| options.like(location(name)));
    let options = PullOptions {
        open: options,
        ..PullOptions::default()
    };
    let pulled = pull(&*server.url("/new"), pair.path("pulled"), &options).unwrap();
    assert_eq!(pulled.shared, shared(&pair));
    let reasons = pulled.unshared.iter().map(|unshared| &unshared.reason);
    let is_other = reasons.map(|reason| matches!(reason, UnsharedReason::OtherFunction));
    assert_eq!(is_other.collect::<Vec<_>>(), [true, false, false]);
}

#[test]
fn several_files_and_both_formats_are_used() {
    let pair = Pair::new();
    // Each has a part, with a tree of dm-verity in another file.
    let mut options = pair.options();
    for (name, part) in [("one", 0..600), ("two", 600..1200)] {
        let path = pair.path(name);
        fs::write(&path, &pair.data[part.start * BLOCK..part.end * BLOCK]).unwrap();
        let format = SealFormat::DmVerity(Default::default());
        let sealing = SealOptions {
            format,
            ..SealOptions::default()
        };
        seal(&path, &sealing).unwrap();
        options = options.like(Location::from(Path::new(&path)));
    }
    let (got, _) = pair.pull(options);
    assert_eq!(got, 1200 * BLOCK as u64);
}
