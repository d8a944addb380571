//! The images: each is invalid in one way, with valid checksums. That each defect is refused, `verimount_romfs` shows.

use verimount_testkit::{RomfsImage, romfs_image::DIRECTORY};

/// A defect, and the image with it.
pub(super) type Hostile = (&'static str, RomfsImage);

/// A defect of each part of an image.
pub(super) fn defects(sample: &RomfsImage) -> Vec<Hostile> {
    let mut in_itself = sample.clone().without_index();
    let outer = in_itself.header("outer");
    in_itself.change(&outer, 1, outer.at as u32);
    let index = sample.index();
    let with = |offset: usize, word: u32| {
        let mut image = sample.clone();
        image.set_word(offset, word);
        image
    };
    let root = sample.root() as u32 | DIRECTORY | 8;
    let record = sample.index_record(&sample.header("outer"));
    let mut large = sample.clone().without_index();
    large.set_word(8, u32::MAX);
    large.fix_superblock();
    vec![
        ("a directory in itself", in_itself),
        ("a directory in itself by the index", with(record + 4, root)),
        ("a million directories", with(index + 8, 1 << 20)),
        ("2^32 entries", with(index + 12, u32::MAX)),
        ("4 GiB", large),
        ("5000 deep", deep(5000)),
        ("2^60 paths", doubling(60)),
        ("2^5000 paths", doubling(5000)),
    ]
}

/// Nested directories.
pub(super) fn deep(levels: usize) -> RomfsImage {
    let mut headers: Vec<_> = (0..levels)
        .map(|level| {
            let at = RomfsImage::ROOT + level * 32;
            let inside = if level + 1 < levels { at + 32 } else { 0 };
            let name = if level == 0 { "." } else { "d" };
            (at, DIRECTORY | 8, inside as u32, name)
        })
        .collect();
    // The root's own header is the first of its chain, and leads to what is in it.
    headers[0].1 |= RomfsImage::ROOT as u32 + 32;
    headers[0].2 = RomfsImage::ROOT as u32;
    RomfsImage::crafted(&headers)
}

/// Every directory has two entries, both with the next level: the number of paths doubles with each level.
pub(super) fn doubling(levels: usize) -> RomfsImage {
    let at = |level: usize, entry: usize| RomfsImage::ROOT + 32 + level * 64 + entry * 32;
    let mut headers = vec![(
        RomfsImage::ROOT,
        at(0, 0) as u32 | DIRECTORY | 8,
        RomfsImage::ROOT as u32,
        ".",
    )];
    for level in 0..levels {
        let inside = if level + 1 < levels {
            at(level + 1, 0) as u32
        } else {
            0
        };
        let second = at(level, 1);
        let to_second = second as u32 | DIRECTORY | 8;
        headers.push((at(level, 0), to_second, inside, "a"));
        headers.push((second, DIRECTORY | 8, inside, "b"));
    }
    RomfsImage::crafted(&headers)
}
