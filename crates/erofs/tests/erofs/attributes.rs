//! Which extended attributes an image has, and where, depends on its tree alone.

use std::{collections::HashSet, ffi::OsStr, io::Write, path::Path};

use verimount_erofs::{Options, Plan, plan};
use verimount_scan::{BuildError, Options as ScanOptions, Patterns, scan_archive, scan_layers};
use verimount_testkit::{TarArchive, go_on, noise, seen::everything};

use crate::{open, writer::written};

const BLOCK: usize = 4096;

/// The key of a record with an attribute.
const KEY: &str = "SCHILY.xattr.user.k";

/// Larger than what is stored behind an inode.
fn secret() -> Vec<u8> {
    noise(1800, 1).iter().map(|byte| b'a' + byte % 16).collect()
}

fn image_of(archive: TarArchive, options: &ScanOptions) -> Vec<u8> {
    let tree = scan_archive(archive.in_file(), Path::new("a.tar"), options).unwrap();
    written(&plan(tree, &Options::default(), &mut go_on).unwrap())
}

/// The image of an archive with these members in front of `g`.
fn image_with(members: TarArchive, options: &ScanOptions) -> Vec<u8> {
    image_of(members.file("g"), options)
}

fn has(image: &[u8], secret: &[u8]) -> bool {
    image.windows(secret.len()).any(|found| found == secret)
}

#[test]
fn an_attribute_is_not_stored_without_its_file() {
    let secret = secret();
    let with_secret = || TarArchive::default().records(&[(KEY, &secret)]).file("f");
    let all = ScanOptions::default();
    let exclude = ScanOptions {
        exclude: Patterns::new(["f"]).unwrap(),
        ..ScanOptions::default()
    };
    assert!(has(&image_with(with_secret(), &all), &secret));
    for (members, options, same) in [
        (with_secret(), &exclude, TarArchive::default()),
        (
            with_secret().file("f"),
            &all,
            TarArchive::default().file("f"),
        ),
    ] {
        let image = image_with(members, options);
        assert!(!has(&image, &secret));
        assert!(image == image_with(same, &all));
    }
}

#[test]
fn an_attribute_is_not_stored_without_the_file_of_its_layer() {
    let secret = secret();
    let lower = TarArchive::default().records(&[(KEY, &secret)]).file("f");
    let upper = TarArchive::default().file(".wh.f").file("g");
    let (lower, upper) = (lower.finish(), upper.finish());
    let places = [0..lower.len(), lower.len()..lower.len() + upper.len()]
        .map(|place| place.start as u64..place.end as u64);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[lower, upper].concat()).unwrap();
    let options = ScanOptions::default();
    let tree = scan_layers(file, &places, Path::new("layers"), &options).unwrap();
    let image = written(&plan(tree, &Options::default(), &mut go_on).unwrap());
    assert!(!has(&image, &secret));
    assert!(image == image_with(TarArchive::default(), &options));
}

#[test]
fn the_order_of_members_does_not_count() {
    let add = |archive: TarArchive, (name, value): (&str, &str)| {
        let archive = archive.records(&[(KEY, value.as_bytes())]);
        archive.file(name)
    };
    let mut members = [
        ("a1", "aaaa"),
        ("a2", "aaaa"),
        ("b1", "bbbb"),
        ("b2", "bbbb"),
    ];
    let image = |members: &[(&str, &str)]| {
        let archive = members.iter().copied().fold(TarArchive::default(), add);
        image_of(archive, &ScanOptions::default())
    };
    let ordered = image(&members);
    let tree = open(ordered.clone()).unwrap();
    for (path, seen) in &everything(&tree).unwrap() {
        let member = members.iter().find(|(name, _)| path == Path::new(name));
        let value = seen.xattrs.get(OsStr::new("user.k"));
        assert_eq!(value.unwrap(), member.unwrap().1.as_bytes());
    }
    members.reverse();
    assert!(image(&members) == ordered);
}

/// What the first files have is not what most have.
#[test]
fn a_rare_attribute_leaves_the_places_of_others() {
    let image = |rare: usize| {
        let files = (0..2000).fold(TarArchive::default(), |archive, number| {
            let value: &[u8] = match number {
                _ if number < rare => b"a rare label",
                _ if number % 3 == 0 => b"one",
                _ => b"the other",
            };
            let archive = archive.records(&[(KEY, value)]);
            archive.file(&format!("{number:04}"))
        });
        image_of(files, &ScanOptions::default())
    };
    let (before, after) = (image(0), image(2));
    let known: HashSet<&[u8]> = before.chunks(BLOCK).collect();
    let new = after.chunks(BLOCK).filter(|block| !known.contains(block));
    // The superblock, the shared attributes, and the inodes of the two files.
    assert!(new.count() <= 4);
}

/// Plans the image of `f` with attributes of these names.
fn planned<'n>(
    names: impl IntoIterator<Item = &'n String>,
    value: &[u8],
) -> Result<Plan, BuildError> {
    let keys = names.into_iter().map(|name| format!("SCHILY.xattr.{name}"));
    let keys: Vec<_> = keys.collect();
    let records: Vec<_> = keys.iter().map(|key| (&**key, value)).collect();
    let archive = TarArchive::default().records(&records).file("f");
    let options = ScanOptions::default();
    let tree = scan_archive(archive.in_file(), Path::new("a.tar"), &options).unwrap();
    plan(tree, &Options::default(), &mut go_on)
}

/// Archives have longer ones than Linux.
#[test]
fn an_attribute_that_is_too_long_is_refused() {
    let planned = |len| planned([&"user.k".to_owned()], &vec![b'a'; len]);
    planned(65_535).unwrap();
    for len in [65_536, 200_000] {
        let error = planned(len).unwrap_err();
        let expected =
            "a.tar/f: its extended attribute user.k is longer than EROFS's limit of 65535 bytes";
        assert_eq!(error.to_string(), expected);
    }
}

/// How many attributes of these names `f` has in its image.
fn kept(names: &[String]) -> usize {
    let tree = open(written(&planned(names, b"v").unwrap())).unwrap();
    everything(&tree).unwrap()[Path::new("f")].xattrs.len()
}

/// Archives have more of them than Linux lists.
#[test]
fn more_names_of_attributes_than_can_be_listed_are_refused() {
    // Each has 255 bytes, and a NUL behind it in a list of 64 KiB.
    let names = Vec::from_iter((0..257).map(|number| format!("user.{number:0250}")));
    assert_eq!(kept(&names[..256]), 256);
    let error = planned(&names, b"v").unwrap_err();
    let expected = "a.tar/f: the names of its extended attributes exceed Linux's limit of 64 KiB for each file";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn more_attributes_than_are_read_are_refused() {
    let letters = || (b'!'..=b'~').filter(|byte| *byte != b'=').map(char::from);
    let short = letters().map(|letter| format!("user.{letter}"));
    let pairs = letters().flat_map(|first| letters().map(move |second| (first, second)));
    let long = pairs.map(|(first, second)| format!("user.{first}{second}"));
    let names: Vec<_> = short.chain(long).take(8193).collect();
    assert_eq!(kept(&names[..8192]), 8192);
    let error = planned(&names, b"v").unwrap_err();
    let expected = "a.tar/f: it has more than 8192 extended attributes";
    assert_eq!(error.to_string(), expected);
}
