//! Random trees.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use arbtest::arbitrary::{Result, Unstructured};
use verimount_testkit::{
    odd_name,
    plain_tree::{Tree, What, can_make_devices, tree},
    several, weighted,
};

/// As many random bytes as a large tree takes.
pub(crate) const TREE_BYTES: u32 = 1 << 13;

/// What to put at a path, if it is free.
enum Wish {
    Node(What),
    /// A hard link to one of the previous nodes.
    HardLink(usize),
}

/// A tree of up to about 60 entries of all kinds.
pub(crate) fn random_tree(u: &mut Unstructured<'_>) -> Result<Tree> {
    let wishes = several(u, 0..=39, |u| Ok((path(u)?, wish(u)?)))?;
    let mut nodes = BTreeMap::new();
    for (number, (path, wish)) in wishes.into_iter().enumerate() {
        grant(&mut nodes, path, wish, number);
    }
    Ok(tree(nodes))
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

fn path(u: &mut Unstructured<'_>) -> Result<PathBuf> {
    let names = several(u, 1..=4, name)?;
    Ok(names.into_iter().map(OsString::from_vec).collect())
}

/// Mostly names that repeat; some that are long or unusual.
fn name(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    const COMMON: [&str; 8] = ["a", "b", "A", "a.b", "a b", "ab", "...", "sixteen-bytes-ok"];
    if u.ratio(6, 7)? {
        Ok(u.choose(&COMMON)?.as_bytes().to_vec())
    } else {
        odd_name(u, 127)
    }
}

fn wish(u: &mut Unstructured<'_>) -> Result<Wish> {
    weighted(
        u,
        &[
            (6, &|u| Ok(Wish::Node(file(u)?))),
            (2, &|_| Ok(Wish::Node(What::Directory))),
            (2, &|u| Ok(Wish::HardLink(u.arbitrary()?))),
            (1, &|u| Ok(Wish::Node(symlink(u)?))),
            (1, &|u| Ok(Wish::Node(special(u)?))),
        ],
    )
}

/// A file with a length around the block sizes in use.
fn file(u: &mut Unstructured<'_>) -> Result<What> {
    let lengths = [0..=39, 1000..=1049, 4080..=4109, 0..=19_999];
    let lengths = u.choose(&lengths)?.clone();
    let len: usize = u.int_in_range(lengths)?;
    let seed: u8 = u.arbitrary()?;
    Ok(What::File {
        contents: (0..len).map(|at| (at / 7) as u8 ^ seed).collect(),
        executable: u.arbitrary()?,
    })
}

fn symlink(u: &mut Unstructured<'_>) -> Result<What> {
    let target = several(u, 1..=299, |u| u.int_in_range(1..=u8::MAX))?;
    Ok(What::Symlink(target))
}

fn special(u: &mut Unstructured<'_>) -> Result<What> {
    // Linux has 4096 major numbers.
    let (major, minor) = (u.int_in_range(0..=4095)?, u.arbitrary()?);
    let (is_block, is_device): (bool, bool) = u.arbitrary()?;
    Ok(match (is_device && can_make_devices(), is_block) {
        (true, true) => What::BlockDevice(major, minor),
        (true, false) => What::CharDevice(major, minor),
        (false, true) => What::Socket,
        (false, false) => What::Fifo,
    })
}
