//! Directories with very many names.

use std::sync::Arc;

use verimount_erofs::ErofsTree;
use verimount_source::Counting;
use verimount_testkit::Random;
use verimount_tree::{Error, NodeId, Tree};
use verimount_verity::Checked;

use crate::craft::{Builder, FILE};

/// How many names the directories have.
const COUNT: u64 = 1_000_000;

/// The most requests for one name, from opening the image on.
const MAX_REQUESTS: u64 = 10;

/// The name with this number.
type Scheme = fn(u64, &mut Random) -> String;

/// An image whose root has these names, of empty files.
fn image(names: &[String]) -> Vec<u8> {
    let mut builder = Builder::new(12);
    let file = builder.file(b"");
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.sort_unstable();
    let entries: Vec<_> = names
        .iter()
        .map(|name| (name.as_bytes(), file, FILE))
        .collect();
    builder.finish(&entries)
}

/// The most requests that looking up any of some names takes, each in an image opened for it.
fn most_requests(names: &[String]) -> u64 {
    let image = Arc::new(image(names));
    let mut random = Random::new(7);
    let mut chosen = vec![0, 1, names.len() - 1];
    chosen.extend((0..200).map(|_| random.below(names.len())));
    let requests = chosen.into_iter().map(|index| {
        let name = &names[index];
        let source = Arc::new(Counting::new(image.clone()));
        let tree = ErofsTree::open(Checked::unverified(source.clone()), Vec::new()).unwrap();
        tree.lookup(NodeId::ROOT, name.as_ref()).unwrap();
        let requests = source.counts().requests;
        let missing = format!("{name}\u{1}");
        let missing = tree.lookup(NodeId::ROOT, missing.as_ref());
        assert!(matches!(missing, Err(Error::NotFound)));
        requests
    });
    requests.max().unwrap()
}

#[test]
fn a_name_among_a_million_takes_few_requests() {
    // One after the other, as names take much more memory than an image.
    let schemes: [(&str, Scheme); 5] = [
        ("padded", |number, _| format!("file{number:07}")),
        ("plain", |number, _| format!("f{number}")),
        ("suffix", |number, _| format!("IMG_{number:06}.jpeg")),
        ("hash", |_, random| format!("{:016x}", random.number())),
        ("number", |number, _| format!("{number}.txt")),
    ];
    let mut random = Random::new(3);
    for (scheme, name) in schemes {
        let names: Vec<_> = (0..COUNT).map(|number| name(number, &mut random)).collect();
        let most = most_requests(&names);
        println!("{scheme}: {most} requests");
        assert!(most <= MAX_REQUESTS, "{scheme}: {most} requests");
    }
}

#[test]
fn names_that_defeat_estimates_take_twice_the_halvings() {
    // Each name is much closer to the first than to the one behind it.
    let names: Vec<_> = (0..40_000_u32)
        .map(|number| {
            let depth = (number / 250) as usize;
            format!("{}b{:03}", "a".repeat(240 - depth), number % 250)
        })
        .collect();
    let blocks = (names.len() * 200 / 4096) as u64;
    let most = most_requests(&names);
    assert!(
        most <= u64::from(2 * blocks.ilog2() + 6),
        "{most} of {blocks} blocks"
    );
}
