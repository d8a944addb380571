//! Trees made up by proptest.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use proptest::{collection::vec, prelude::*, sample::select};

use crate::model::{Tree, What, can_make_devices, tree};

/// What to put at a path, if it is free.
#[derive(Debug, Clone)]
enum Wish {
    Node(What),
    /// A further name of one of the nodes so far.
    HardLink(usize),
}

/// Trees of up to some 60 entries of all kinds.
pub(crate) fn trees() -> impl Strategy<Value = Tree> {
    vec((paths(), wishes()), 0..40).prop_map(|wishes| {
        let mut nodes = BTreeMap::new();
        for (number, (path, wish)) in wishes.into_iter().enumerate() {
            grant(&mut nodes, path, wish, number);
        }
        tree(nodes)
    })
}

fn grant(
    nodes: &mut BTreeMap<PathBuf, ((usize, usize), What)>,
    path: PathBuf,
    wish: Wish,
    number: usize,
) {
    let parents = path
        .ancestors()
        .skip(1)
        .filter(|parent| *parent != Path::new(""));
    let blocked = |parent| matches!(nodes.get(parent), Some((_, what)) if *what != What::Directory);
    if nodes.contains_key(&path) || parents.clone().any(blocked) {
        return;
    }
    let node = match wish {
        Wish::Node(what) => ((number, 0), what),
        Wish::HardLink(choice) => {
            let mut others = nodes.values().filter(|(_, what)| *what != What::Directory);
            let count = others.clone().count();
            match others.nth(choice % count.max(1)) {
                Some(other) => other.clone(),
                None => return,
            }
        }
    };
    for (depth, parent) in parents.enumerate() {
        let directory = ((number, depth + 1), What::Directory);
        nodes.entry(parent.to_owned()).or_insert(directory);
    }
    nodes.insert(path, node);
}

fn paths() -> impl Strategy<Value = PathBuf> {
    vec(names(), 1..5).prop_map(|names| names.into_iter().map(OsString::from_vec).collect())
}

/// Mostly names that meet again, some that are long or odd.
fn names() -> impl Strategy<Value = Vec<u8>> {
    let common = select(vec![
        "a",
        "b",
        "A",
        "a.b",
        "a b",
        "ab",
        "...",
        "sixteen-bytes-ok",
    ]);
    let odd = vec(prop_oneof![1..=46_u8, 48..=255_u8], 1..=127);
    prop_oneof![
        6 => common.prop_map(|name| name.as_bytes().to_vec()),
        1 => odd.prop_filter("a dot", |name| !matches!(&**name, b"." | b"..")),
    ]
}

fn wishes() -> impl Strategy<Value = Wish> {
    let executable = any::<bool>();
    prop_oneof![
        6 => (contents(), executable).prop_map(|(contents, executable)| {
            Wish::Node(What::File { contents, executable })
        }),
        2 => Just(Wish::Node(What::Directory)),
        2 => any::<usize>().prop_map(Wish::HardLink),
        1 => vec(1..=255_u8, 1..300).prop_map(|target| Wish::Node(What::Symlink(target))),
        1 => specials().prop_map(Wish::Node),
    ]
}

/// Contents of lengths around the block sizes in use.
fn contents() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![
        0..40_usize,
        1000..1050_usize,
        4080..4110_usize,
        0..20_000_usize
    ];
    (len, any::<u8>()).prop_map(|(len, seed)| (0..len).map(|at| (at / 7) as u8 ^ seed).collect())
}

fn specials() -> impl Strategy<Value = What> {
    // Linux has 4096 major numbers.
    let number = (0..4096_u16, any::<u16>(), any::<bool>());
    (number, any::<bool>()).prop_map(|((major, minor, block), device)| match (device, block) {
        (true, true) if can_make_devices() => What::BlockDevice(major, minor),
        (true, false) if can_make_devices() => What::CharDevice(major, minor),
        (_, true) => What::Socket,
        (_, false) => What::Fifo,
    })
}
