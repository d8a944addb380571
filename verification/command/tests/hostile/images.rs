//! The images: each is invalid in one way, with valid checksums.

use crate::common::romfs::{DIRECTORY, FILE, HARD_LINK, Image};

/// A defect, and the image with it.
pub(super) type Hostile = (&'static str, Image);

/// Defects in the headers, as seen by a reader without index support.
pub(super) fn headers(sample: &Image) -> Vec<Hostile> {
    let plain = sample.clone().without_index();
    let [outer, inner, second] = ["outer", "inner", "second"].map(|name| plain.header(name));
    let [abc, abd, xyz, link] = ["abc", "abd", "xyz", "link"].map(|name| plain.header(name));
    let executable = 8;
    let change = |header, word, value| {
        let mut image = plain.clone();
        image.change(header, word, value);
        image
    };
    let rename = |header, name: &[u8]| {
        let mut image = plain.clone();
        image.rename(header, name);
        image
    };
    let root = plain.root() as u32;
    let mut two_links = plain.clone();
    for (from, to) in [(&abc, &abd), (&abd, &abc)] {
        let next = two_links.word(from.at) & !0xf;
        two_links.change(from, 0, next | HARD_LINK);
        two_links.change(from, 1, to.at as u32);
    }
    let mut to_a_directory = plain.clone();
    to_a_directory.change(&xyz, 0, (plain.word(xyz.at) & !0xf) | HARD_LINK);
    to_a_directory.change(&xyz, 1, outer.at as u32);
    vec![
        ("a directory in itself", change(&outer, 1, outer.at as u32)),
        (
            "a directory in its child",
            change(&inner, 1, outer.at as u32),
        ),
        ("the root in its grandchild", change(&inner, 1, root)),
        (
            "directories that share entries",
            change(&second, 1, plain.word(outer.at + 4)),
        ),
        (
            "a header that is its own next",
            change(&abc, 0, abc.at as u32 | FILE),
        ),
        ("a chain back to the root", change(&xyz, 0, root | FILE)),
        ("hard links to each other", two_links),
        ("a hard link to a directory", to_a_directory),
        (
            "an unaligned directory",
            change(&outer, 1, inner.at as u32 | 8),
        ),
        ("a directory outside", change(&outer, 1, 0xffff_fff0)),
        ("a next outside", change(&abc, 0, 0xffff_fff0 | FILE)),
        ("a file of 4 GiB", change(&abc, 2, u32::MAX)),
        (
            "a file a bit too long",
            change(&xyz, 2, plain.0.len() as u32),
        ),
        ("a link to 4 GiB of name", change(&link, 2, u32::MAX)),
        ("a link to nothing", change(&link, 2, 0)),
        (
            "a directory among data",
            change(&outer, 1, (abc.at as u32 + 32) & !0xf),
        ),
        ("a file named ..", rename(&abc, b"..\0")),
        ("a name with a slash", rename(&abc, b"a/b")),
        ("a name from the root", rename(&abc, b"/ab")),
        ("an empty name", rename(&abc, b"\0\0\0")),
        ("two of one name", rename(&abd, b"abc")),
        ("a root that is a file", {
            let mut image = plain.clone();
            let next = image.word(image.root()) & !0xf;
            let root = image.header(".");
            image.change(&root, 0, next | FILE | executable);
            image
        }),
    ]
}

/// Defects in the header index.
pub(super) fn indexes(sample: &Image) -> Vec<Hostile> {
    let index = sample.index();
    let first_directory = index + 32;
    let record = |name| sample.index_record(&sample.header(name));
    let set = |at, word| {
        let mut image = sample.clone();
        image.set_word(at, word);
        image
    };
    let directory = |target: &str| sample.header(target).at as u32 | DIRECTORY | 8;
    let root = sample.root() as u32 | DIRECTORY | 8;
    let size = sample.word(8);
    vec![
        ("2^32 directories", set(index + 8, u32::MAX)),
        ("a million directories", set(index + 8, 1 << 20)),
        ("no directories", set(index + 8, 0)),
        ("2^32 entries", set(index + 12, u32::MAX)),
        ("2^32 bytes of names", set(index + 16, u32::MAX)),
        ("reserved bytes", set(index + 20, 1)),
        ("another first directory", set(first_directory, 0x40)),
        (
            "directories out of order",
            set(first_directory + 12, 0xffff_fff0),
        ),
        ("entries that begin late", set(first_directory + 4, 1)),
        ("names that begin late", set(first_directory + 8, 1)),
        (
            "entries that end before they begin",
            set(first_directory + 16, u32::MAX),
        ),
        ("a directory in itself", set(record("outer") + 4, root)),
        (
            "a directory in its child",
            set(record("inner") + 4, directory("outer")),
        ),
        (
            "one directory at two paths",
            set(record("second") + 4, directory("outer")),
        ),
        (
            "a header outside",
            set(record("abc") + 4, 0xffff_fff0 | FILE),
        ),
        (
            "a directory that is not there",
            set(record("outer") + 4, ((size & !0xf) - 16) | DIRECTORY),
        ),
        (
            "a file as a directory",
            set(
                record("abc") + 4,
                sample.header("abc").at as u32 | DIRECTORY,
            ),
        ),
        ("data outside", set(record("abc") + 8, u32::MAX)),
        ("4 GiB of data", set(record("abc") + 12, u32::MAX)),
        ("a name that begins late", set(record("abc"), u32::MAX)),
        (
            "a hard link",
            set(
                record("abc") + 4,
                sample.header("abc").at as u32 | HARD_LINK,
            ),
        ),
    ]
}

/// Defects of the superblock.
pub(super) fn superblocks(sample: &Image) -> Vec<Hostile> {
    let plain = sample.clone().without_index();
    let sized = |size| {
        let mut image = plain.clone();
        image.set_word(8, size);
        image.fix_superblock();
        image
    };
    let mut long_name = plain.clone();
    long_name.0[16..16 + 300].fill(b'n');
    long_name.fix_superblock();
    vec![
        ("4 GiB", sized(u32::MAX)),
        ("one byte too many", sized(plain.0.len() as u32 + 1)),
        ("less than a superblock", sized(16)),
        ("less than its root", sized(48)),
        ("a volume name without end", long_name),
    ]
}

/// Nested directories.
pub(super) fn deep(levels: usize) -> Image {
    let mut headers: Vec<_> = (0..levels)
        .map(|level| {
            let at = Image::ROOT + level * 32;
            let inside = if level + 1 < levels { at + 32 } else { 0 };
            let name = if level == 0 { "." } else { "d" };
            (at, DIRECTORY | 8, inside as u32, name)
        })
        .collect();
    // The root's own header is the first of its chain, and leads to what is in it.
    headers[0].1 |= Image::ROOT as u32 + 32;
    headers[0].2 = Image::ROOT as u32;
    Image::crafted(&headers)
}

/// Every directory has two entries, both with the next level: the number of paths doubles with each level.
pub(super) fn doubling(levels: usize) -> Image {
    let at = |level: usize, entry: usize| Image::ROOT + 32 + level * 64 + entry * 32;
    let mut headers = vec![(
        Image::ROOT,
        at(0, 0) as u32 | DIRECTORY | 8,
        Image::ROOT as u32,
        ".",
    )];
    for level in 0..levels {
        let inside = match level + 1 < levels {
            true => at(level + 1, 0) as u32,
            false => 0,
        };
        let second = at(level, 1);
        let to_second = second as u32 | DIRECTORY | 8;
        headers.push((at(level, 0), to_second, inside, "a"));
        headers.push((second, DIRECTORY | 8, inside, "b"));
    }
    Image::crafted(&headers)
}
